"""The Dockerfile without an engine: what it promises on paper, and that the chart counts on just that."""

import re
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from provisioner.settings.options import OPTIONS
from provisioner.version import COMMIT, DISTRIBUTION, own_version
from tools import locks, sbom

from . import chartvalues
from .dockerfile import ROOT, read, sent, substituted

Json = dict[str, Any]
HADOLINT = str(Path(sys.executable).parent / "hadolint")
PIN = re.compile(r"[a-z0-9./-]+:(?P<tag>[\w.-]+)@sha256:[0-9a-f]{64}")
BUILDER, IMAGE = read()


def hadolint(path: Path) -> tuple[int, str]:
    done = subprocess.run([HADOLINT, "--no-color", str(path)], capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout


def tree() -> list[str]:
    """The files of the checkout, with some of those that come into being beside them."""
    beside = [".venv/bin/python", "provisioner/__pycache__/cli.cpython-313.pyc", ".git/config", "dist/x.whl"]
    tops = [path for path in ROOT.iterdir() if path.name not in {".venv", ".git"}]
    files = [file for top in tops for file in (top.rglob("*") if top.is_dir() else [top]) if file.is_file()]
    return [*(str(file.relative_to(ROOT)) for file in files), *beside]


# --- by itself -------------------------------------------------------------------------------------------------------


def test_hadolint_finds_nothing() -> None:
    """No rule is switched off, neither in the file nor beside it."""
    assert hadolint(ROOT / "Dockerfile") == (0, "")
    assert "hadolint" not in (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert not list(ROOT.glob(".hadolint.*"))


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        (f"FROM {IMAGE.image}", "FROM gcr.io/distroless/python3-debian13", "DL3006"),
        ("USER 65532:65532", "USER root", "DL3002"),
        ('ENTRYPOINT ["gpu-provisioner"]', "ENTRYPOINT gpu-provisioner", "DL3025"),
        ("--no-cache-dir ", "", "DL3042"),
    ],
)
def test_hadolint_finds_what_is_planted(tmp_path: Path, old: str, new: str, rule: str) -> None:
    """The linter really runs, and reads the whole file."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert old in text
    planted = tmp_path / "Dockerfile"
    planted.write_text(text.replace(old, new))
    code, found = hadolint(planted)
    assert code == 1
    assert rule in re.findall(r"DL\d+", found)


def test_both_bases_are_pinned_and_fit_each_other() -> None:
    """By digest, the tag beside it for readers; the environment is built for the interpreter that will run it."""
    tags = [match["tag"] if (match := PIN.fullmatch(stage.image)) else None for stage in (BUILDER, IMAGE)]
    python = BUILDER.arguments({})["PYTHON"]
    assert tags[0] is not None
    assert re.fullmatch(rf"{re.escape(python)}\.\d+-slim-trixie", tags[0])
    # Debian 13 is trixie, and its Python is 3.13.
    assert IMAGE.image.startswith("gcr.io/distroless/python3-debian13:nonroot@")
    assert python == sbom.IMAGE["python_version"] == "3.13"


def test_no_stage_is_bound_to_an_architecture() -> None:
    """A stage on the builder's own platform would put its wheels into the other architecture's image."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert all("platform" not in stage.flags for stage in (BUILDER, IMAGE))
    assert not re.search(r"BUILDPLATFORM|TARGETPLATFORM|TARGETARCH|x86_64|aarch64|amd64|arm64", text)


def test_the_last_stage_runs_nothing_and_holds_one_folder() -> None:
    """What is not copied is not there: no build tools, no locks, no cache; and it runs as nobody in particular."""
    assert not IMAGE.of("RUN")
    copy = IMAGE.only("COPY")
    assert (copy.flags, copy.words) == ({"from": "builder"}, ["/opt/gpu-provisioner"] * 2)
    assert IMAGE.only("USER").text == "65532:65532"
    assert IMAGE.only("ENTRYPOINT").words == ["gpu-provisioner"]
    assert IMAGE.only("ENTRYPOINT").text.startswith("[")
    variables = IMAGE.only("ENV").pairs
    assert variables.pop("PATH").startswith("/opt/gpu-provisioner/bin:")
    assert variables == {COMMIT: "${REVISION}"}
    assert IMAGE.only("HEALTHCHECK").text == "NONE"


def test_its_labels_are_those_of_the_project() -> None:
    """Version and licence are written once, in pyproject.toml; revision and source come with the build."""
    given = {"REVISION": "0123abc", "SOURCE": "https://example.com/repo"}
    labels = {
        name.removeprefix("org.opencontainers.image."): substituted(value, IMAGE.arguments(given))
        for name, value in IMAGE.only("LABEL").pairs.items()
    }
    assert labels.pop("description")
    assert labels == {
        "title": DISTRIBUTION,
        "version": own_version(),
        "revision": "0123abc",
        "source": "https://example.com/repo",
        "licenses": "Apache-2.0",
    }
    assert {stage.arguments({})["VERSION"] for stage in (BUILDER, IMAGE)} == {own_version()}


def test_only_locked_wheels_are_installed() -> None:
    """Each install from an index checks hashes and builds nothing; the one without a lock has no index."""
    installs = [line for run in BUILDER.of("RUN") for line in run.text.split("&&") if " install " in line]
    assert len(installs) == 3
    for line in installs:
        flags = set(line.split())
        if "--no-index" not in flags:
            assert {"--require-hashes", "--only-binary", ":all:", "-r"} <= flags


def test_the_build_is_sent_what_it_copies_and_nothing_else() -> None:
    """Every source of a COPY arrives; tests, charts, locks of other uses and a virtual environment do not."""
    arrived = sent(tree())
    copied = {word for copy in BUILDER.of("COPY") for word in copy.words[:-1]}
    assert {path.split("/")[0] for path in arrived} == copied
    assert not [path for path in arrived if "__pycache__" in path]
    assert len(arrived) > 150


# --- its locks -------------------------------------------------------------------------------------------------------


def closure(names: Iterable[str]) -> set[str]:
    """The distributions that these need on Linux, and those they need, as installed."""
    found: set[str] = set()
    todo = list(names)
    while todo:
        name = canonicalize_name(todo.pop())
        if name in found:
            continue
        found.add(name)
        wanted = [Requirement(text) for text in requires(name) or ()]
        todo += [each.name for each in wanted if each.marker is None or each.marker.evaluate({"extra": ""})]
    return found


def test_the_image_holds_what_the_program_needs_and_no_more() -> None:
    """The closure of what pyproject.toml asks for; the embedded cluster of `try` stays outside."""
    wanted = closure([DISTRIBUTION]) - {DISTRIBUTION}
    assert {canonicalize_name(pin.name) for pin in locks.read("requirements-image.lock")} == wanted
    assert not wanted & {"cel-python", "hatchling", "jsonschema-rs", "rich"}


@pytest.mark.parametrize("name", ["requirements-image.lock", "requirements-build.lock"])
def test_the_image_is_built_from_the_versions_that_are_tested(name: str) -> None:
    """Its locks are parts of the one that tests install, hash by hash."""
    tested = {pin.name: pin for pin in locks.read("requirements.lock")}
    for pin in locks.read(name):
        assert pin == tested[pin.name]


@pytest.mark.parametrize("path", sorted(ROOT.glob("*.lock")), ids=lambda path: path.name)
def test_a_lock_is_of_the_form_that_auditors_and_pip_take(path: Path) -> None:
    """`pip-audit --require-hashes --disable-pip -r` wants exact versions, each with its hashes, and no options."""
    pins = locks.read(path.name)
    assert len(pins) == len({(pin.name, pin.marker) for pin in pins}) > 5
    assert all(pin.hashes for pin in pins)
    assert "://" not in path.read_text(encoding="utf-8")


# --- and the chart ---------------------------------------------------------------------------------------------------


def containers() -> list[tuple[Json, Json]]:
    """(Pod spec, container) of everything that the chart starts."""
    rendered = chartvalues.render(chartvalues.NEEDED)
    specs = [
        obj["spec"]["template"]["spec"] if obj["kind"] == "Deployment" else obj["spec"]
        for obj in rendered
        if obj["kind"] in {"Deployment", "Pod"}
    ]
    return [(spec, container) for spec in specs for container in spec["containers"]]


def test_the_chart_starts_this_image_as_it_is_meant() -> None:
    """Its entry point with a command of the program, its user, its ports, and nothing that it would write to."""
    uid, gid = map(int, IMAGE.only("USER").text.split(":"))
    exposed = {int(port) for port in IMAGE.only("EXPOSE").words}
    started = containers()
    assert [container["args"] for _, container in started] == [["run"], ["check"]]
    for spec, container in started:
        assert "command" not in container
        assert container["image"].endswith(f":{own_version()}")
        user = spec["securityContext"]
        assert (user["runAsUser"], user["runAsGroup"], user["runAsNonRoot"]) == (uid, gid, True)
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert "volumeMounts" not in container
        assert "volumes" not in spec
    _, controller = started[0]
    assert {port["containerPort"] for port in controller["ports"]} == exposed
    assert {option.default for option in OPTIONS if option.flag in {"metrics-port", "health-probe-port"}} == exposed
    names = {port["name"] for port in controller["ports"]}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        # No command: there is no shell to run one, and HEALTHCHECK is not Kubernetes'.
        assert set(controller[probe]) & {"httpGet", "exec", "grpc", "tcpSocket"} == {"httpGet"}
        assert controller[probe]["httpGet"]["port"] in names


@pytest.mark.parametrize("chart", ["gpu-provisioner", "gpu-provisioner-crd"])
def test_the_charts_deploy_the_version_that_they_are_shipped_with(chart: str) -> None:
    """One version everywhere: pyproject.toml's."""
    described = yaml.safe_load((ROOT / "charts" / chart / "Chart.yaml").read_text(encoding="utf-8"))
    assert (described["version"], described["appVersion"]) == (own_version(), own_version())
