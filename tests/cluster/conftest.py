"""Shared fixtures of the control plane tests: one control plane for each session, and the two back ends of the common
suite.

`control_plane` has our CRDs, our chart's roles and the controllers of the controller manager that tests need
(`controlplane.CONTROLLERS`); without binaries it fails with the remedy in one line. `backend` provides both servers in
turn; only the real one is marked `cluster`, so the simulated one runs in `make test`.
"""

import asyncio
import gc
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests import gotool

from . import assets
from .backend import Backend, real, simulated
from .controlplane import ControlPlane

HERE = Path(__file__).parent
CONFORMANCE = HERE / "conformance"

# Properties of a test's report.
BACK_END, SIMULATOR, REAL = "back end", "simulator", "real"
SHARED = "one suite, two back ends"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Record on each test its back end, and whether it belongs to the suite for both; scenarios come last."""
    items.sort(key=lambda item: HERE in item.path.parents and hasattr(_module(item), "run_all"))
    for item in items:
        if HERE in item.path.parents:
            is_real = item.get_closest_marker("cluster") is not None
            item.user_properties.append((BACK_END, REAL if is_real else SIMULATOR))
            item.user_properties.append((SHARED, CONFORMANCE in item.path.parents))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the number of tests on each back end, and the Kubernetes version of the real one."""
    counts = {
        back_end: {
            outcome: _reports(terminalreporter, outcome, back_end) for outcome in ("passed", "skipped", "failed")
        }
        for back_end in (SIMULATOR, REAL)
    }
    for back_end, by_outcome in counts.items():
        if not any(by_outcome.values()):
            continue
        name = assets.named(assets.find()) if back_end == REAL else "the simulator"
        summary = ", ".join(f"{len(reports)} {outcome}" for outcome, reports in by_outcome.items())
        shared = sum(report[SHARED] for report in by_outcome["passed"])
        terminalreporter.write_line(f"on {name}: {summary}; {shared} of the passed are cases of the shared API suite")


def _reports(terminalreporter: pytest.TerminalReporter, outcome: str, back_end: str) -> list[dict[str, Any]]:
    """The reports of tests with this outcome on this back end; a failed set-up counts as failed."""
    stats = terminalreporter.stats
    reports = [*stats.get(outcome, []), *(stats.get("error", []) if outcome == "failed" else [])]
    # The report of a module that failed to import has no properties.
    notes = [dict(getattr(report, "user_properties", ())) for report in reports]
    return [note for note in notes if note.get(BACK_END) == back_end]


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    """Fail the test that leaves something open, not a later test that collects it."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Generator[ControlPlane, None, None]:
    """One etcd, API server and controller manager for all tests; `cluster` is the same one, wiped."""
    try:
        binaries = assets.find()
    except gotool.MissingError as error:
        pytest.exit(str(error), returncode=gotool.USAGE)
    with asyncio.Runner() as runner:
        life = ControlPlane.start(binaries, tmp_path_factory.mktemp("control-plane"), controller_manager=True)
        made = runner.run(life.__aenter__())
        try:
            runner.run(made.install_crds())
            runner.run(made.install_chart_rbac())
            yield made
        finally:
            runner.run(life.__aexit__(None, None, None))


@pytest.fixture(scope="session", autouse=True)
def all_results(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Any]]:
    """The results of the scenarios of every selected module, by the module's name, from one concurrent run.

    The scenarios mostly wait, each in a cluster of its own: one after another they would take three times as long. They
    start before the first test of this folder, and their own tests are the last ones (`pytest_collection_modifyitems`),
    so that the other tests run meanwhile. A module runs its own in `run_all(folder)`, on an event loop in a thread of
    its own: machines write synchronously, and those of one module would block Azure of all others. `folder` creates a
    new directory.
    """
    chosen = [item for item in request.session.items if item.get_closest_marker("cluster")]
    modules = dict.fromkeys(module for module in map(_module, chosen) if hasattr(module, "run_all"))
    # The first call creates it, and is not safe in several threads at once: each would create one.
    tmp_path_factory.getbasetemp()
    with ThreadPoolExecutor(max(1, len(modules))) as threads:
        yield _Results(
            {
                module.__name__: threads.submit(asyncio.run, module.run_all(tmp_path_factory.mktemp))
                for module in modules
            }
        )


class _Results(dict[str, Future[Any]]):
    """Waits for the module; one that failed as a whole fails its own tests only."""

    def __getitem__(self, module: str) -> Any:
        return super().__getitem__(module).result()


def _module(item: pytest.Item) -> Any:
    return getattr(item, "module", None)


@pytest_asyncio.fixture
async def cluster(control_plane: ControlPlane) -> ControlPlane:
    """The control plane, wiped."""
    await control_plane.wipe()
    return control_plane


@pytest.fixture(params=["simulator", pytest.param("real", marks=pytest.mark.cluster)])
def real_server(request: pytest.FixtureRequest) -> ControlPlane | None:
    """The parameter of `backend`, apart from it because the control plane starts on a loop of its own."""
    return request.getfixturevalue("control_plane") if request.param == "real" else None


@pytest_asyncio.fixture
async def backend(real_server: ControlPlane | None, tmp_path: Path) -> AsyncGenerator[Backend, None]:
    """The API under test: once the simulator, once the real server."""
    async with simulated(tmp_path) if real_server is None else real(real_server, tmp_path) as made:
        yield made
