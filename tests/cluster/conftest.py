"""What tests of the real control plane share: one control plane a session, and the two back ends of one suite.

Promise: `control_plane` has our CRDs, our chart's rights and the loops of the controller manager that tests need
(`controlplane.CONTROLLERS`); without binaries it fails with the line that says what to install. `backend` gives a test
both servers in turn; only its real half is marked `cluster`, so the other runs in `make test`.
"""

import asyncio
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest
import pytest_asyncio

from . import assets
from .backend import Backend, real, simulated
from .controlplane import ControlPlane

HERE = Path(__file__).parent
BACK_END = "back end"

# What asserts in the name of tests, without being one.
pytest.register_assert_rewrite("tests.cluster.stories", "tests.cluster.realworld")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Note on each test which back end it runs on."""
    for item in items:
        if HERE in item.path.parents:
            is_real = item.get_closest_marker("cluster") is not None
            item.user_properties.append((BACK_END, "real" if is_real else "simulator"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many tests passed on each back end, and which Kubernetes the real one was."""
    passed = [dict(report.user_properties).get(BACK_END) for report in terminalreporter.stats.get("passed", [])]
    for back_end in ("simulator", "real"):
        if count := passed.count(back_end):
            name = assets.named(assets.find()) if back_end == "real" else "the simulator"
            terminalreporter.write_line(f"passed on {name}: {count}")


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Generator[ControlPlane, None, None]:
    """One etcd, API server and controller manager for all tests; `cluster` is the same one wiped."""
    try:
        binaries = assets.find()
    except assets.MissingError as error:
        pytest.exit(str(error), returncode=assets.USAGE)
    with asyncio.Runner() as runner:
        life = ControlPlane.start(binaries, tmp_path_factory.mktemp("control-plane"), controller_manager=True)
        made = runner.run(life.__aenter__())
        try:
            runner.run(made.install_crds())
            runner.run(made.install_chart_rbac())
            yield made
        finally:
            runner.run(life.__aexit__(None, None, None))


@pytest_asyncio.fixture
async def cluster(control_plane: ControlPlane) -> ControlPlane:
    """The control plane, wiped."""
    await control_plane.wipe()
    return control_plane


@pytest.fixture(params=["simulator", pytest.param("real", marks=pytest.mark.cluster)])
def real_server(request: pytest.FixtureRequest) -> ControlPlane | None:
    """Which of the two a test gets; apart from `backend`, as the control plane starts on a loop of its own."""
    return request.getfixturevalue("control_plane") if request.param == "real" else None


@pytest_asyncio.fixture
async def backend(real_server: ControlPlane | None, tmp_path: Path) -> AsyncGenerator[Backend, None]:
    """The API under test: once the simulator, once the real server."""
    async with simulated(tmp_path) if real_server is None else real(real_server, tmp_path) as made:
        yield made
