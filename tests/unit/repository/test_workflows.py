"""zizmor and actionlint on the GitHub workflows, and what neither of the two checks."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

ROOT = Path(__file__).parents[3]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
ZIZMOR = Path(sys.executable).parent / "zizmor"
MODULE = ROOT / "tools" / "actionlint"
PACKAGE = "github.com/rhysd/actionlint/cmd/actionlint"


@pytest.fixture(scope="module")
def actionlint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The binary, built from the pinned module. Without Go the test is skipped, unless REQUIRE_GO is set."""
    binary = tmp_path_factory.mktemp("actionlint") / "actionlint"
    if shutil.which("go") is None:
        missing = "actionlint is not built: install Go 1.25 or newer"
        pytest.fail(missing) if os.environ.get("REQUIRE_GO") else pytest.skip(missing)
    command = ("go", "build", "-mod=readonly", "-buildvcs=false", "-o", str(binary), PACKAGE)
    built = subprocess.run(command, cwd=MODULE, capture_output=True, text=True, check=False, timeout=300)
    assert built.returncode == 0, built.stderr
    return binary


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A copy of `.github`, in a folder that actionlint takes for the root of a repository."""
    shutil.copytree(GITHUB, tmp_path / ".github")
    (tmp_path / ".git").mkdir()
    return tmp_path


def by_zizmor(root: Path) -> str:
    """The findings, "" for none. Without the network, so that the result depends on the files alone."""
    command = (ZIZMOR, "--offline", "--no-progress", "--quiet", "--strict-collection", ".github")
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=60)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def by_actionlint(binary: Path, root: Path) -> str:
    """The findings, "" for none. Without shellcheck, which is not installed everywhere."""
    command = (binary, "-shellcheck=", "-pyflakes=")
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=60)
    return done.stdout + done.stderr


class Plant(NamedTuple):
    """A mistake in one workflow, and a part of the finding about it."""

    workflow: str
    old: str
    new: str
    finding: str

    def plant(self, root: Path) -> None:
        path = root / ".github" / "workflows" / self.workflow
        text = path.read_text(encoding="utf-8")
        assert self.old in text
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


def test_zizmor_finds_nothing() -> None:
    assert by_zizmor(ROOT) == ""


def test_actionlint_finds_nothing(actionlint: Path) -> None:
    assert by_actionlint(actionlint, ROOT) == ""


@pytest.mark.parametrize(
    "mistake",
    [
        Plant("test.yml", "@08c6903cd8c0fde910a37f88322edcfb5dd907a8 # v5.0.0", "@v5", "[unpinned-uses]"),
        Plant("test.yml", "persist-credentials: false", "fetch-depth: 0", "[artipacked]"),
        Plant("image.yml", "$IMAGE@$DIGEST", "$IMAGE@${{ github.head_ref }}", "[template-injection]"),
    ],
    ids=lambda mistake: mistake.finding,
)
def test_zizmor_finds_a_planted_mistake(repository: Path, mistake: Plant) -> None:
    mistake.plant(repository)
    assert mistake.finding in by_zizmor(repository)


@pytest.mark.parametrize(
    "mistake",
    [
        Plant("test.yml", "timeout-minutes: 45", "timeout: 45", 'unexpected key "timeout"'),
        Plant("release.yml", "image: ${{ needs", "picture: ${{ needs", 'input "picture" is not defined'),
        Plant("image.yml", "steps.build.outputs", "steps.push.outputs", 'property "push" is not defined'),
    ],
    ids=lambda mistake: mistake.finding,
)
def test_actionlint_finds_a_planted_mistake(actionlint: Path, repository: Path, mistake: Plant) -> None:
    mistake.plant(repository)
    assert mistake.finding in by_actionlint(actionlint, repository)


def test_workflows_run_targets_that_exist_and_every_suite() -> None:
    """Each `make` target of a script is in the Makefile; `make test-all` runs each suite, and so do the workflows."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    (recipe,) = re.findall(r"^test-all:.* ##.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    suites = {word for run in re.findall(r"\$\(MAKE\)((?: -{0,2}[a-z][^ ;&\n]*)+)", recipe) for word in run.split()}
    scripts = [match for path in WORKFLOWS for match in re.findall(r"\bmake((?: [a-z-]+)+)\n", path.read_text("utf-8"))]
    made = {target for script in scripts for target in script.split()}
    assert made <= targets
    # `test` runs representatives of `test-every-case`; `virtual-time` runs the cases that `test-all` leaves out of it.
    assert 'CASES="$(BESIDE)"' in recipe
    assert makefile.count("$(addprefix --ignore=,$(BESIDE) tests/cluster)") == 1
    named = suites & targets - {"virtual-time"}
    assert {target for target in targets if target.startswith("test-")} - {"test-all"} <= named <= made


def jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    """All jobs, as `file: job`."""
    for path in WORKFLOWS:
        for name, job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].items():
            yield f"{path.name}: {name}", job


def test_no_job_that_may_write_installs_packages() -> None:
    """What a job with a token that pushes or signs publishes was built by a job without one."""
    installs = re.compile(r"\b(make|pip|pipx|uv|npm|go)\b")
    found = [
        name
        for name, job in jobs()
        if "write" in (job.get("permissions") or {}).values()
        and any(installs.search(step.get("run", "")) for step in job.get("steps", ()))
    ]
    assert found == []


def test_every_tool_that_a_workflow_runs_is_pinned() -> None:
    """pipx would run the newest version."""
    lines = [
        line.strip()
        for _, job in jobs()
        for step in job.get("steps", ())
        for line in step.get("run", "").splitlines()
        if "pipx" in line
    ]
    assert lines
    assert [line for line in lines if not re.match(r"pipx run [a-z-]+==\d+(\.\d+)+ ", line)] == []


def test_the_chart_names_the_image_of_the_workflow() -> None:
    """The same name below the repository's owner; the published image gets each build argument but the base's."""
    workflow = (GITHUB / "workflows" / "image.yml").read_text(encoding="utf-8")
    chart = yaml.safe_load((ROOT / "charts" / "gpu-provisioner" / "Chart.yaml").read_text(encoding="utf-8"))
    named = yaml.safe_load(chart["annotations"]["artifacthub.io/images"])
    images = {image["image"].partition(":")[0] for image in named}
    published = yaml.safe_load(workflow)["env"]["IMAGE"]
    assert images == {published.replace("${{ github.repository_owner }}", "aks-gpu-provisioner")}
    arguments = set(re.findall(r"^ARG (\w+)=", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"^ +([A-Z]+)=", workflow, re.MULTILINE)) == arguments - {"PYTHON"}
