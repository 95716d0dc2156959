"""hadolint on the Dockerfile, and that the chart starts the image as it is built. The image workflow builds it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from provisioner.settings import OPTIONS
from provisioner.version import own_version
from tests.unit.charts import chart_values

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
HADOLINT = Path(sys.executable).parent / "hadolint"


def hadolint(path: Path) -> tuple[int, str]:
    done = subprocess.run([HADOLINT, "--no-color", path], capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout


def test_hadolint_finds_nothing() -> None:
    """No rule is disabled in the file."""
    assert hadolint(ROOT / "Dockerfile") == (0, "")
    assert "hadolint" not in TEXT


def test_hadolint_finds_a_planted_mistake(tmp_path: Path) -> None:
    planted = tmp_path / "Dockerfile"
    planted.write_text(TEXT.replace("USER 65532:65532", "USER root"), encoding="utf-8")
    code, found = hadolint(planted)
    assert code == 1
    assert "DL3002" in found


def test_the_image_builds_without_buildkit() -> None:
    """`az acr build` has no BuildKit (https://github.com/Azure/acr/issues/721)."""
    assert not re.findall(r"^RUN.*--(?:mount|network|security)|^(?:COPY|ADD).*--(?:link|chmod)|<<", TEXT, re.MULTILINE)
    assert "# syntax=" not in TEXT


def test_the_chart_starts_the_image_as_its_user_and_read_only() -> None:
    """The chart's ports are the program's defaults and the image's; no container has a volume or a command."""
    ports = {int(port) for port in re.findall(r"^EXPOSE (.+)$", TEXT, re.MULTILINE)[0].split()}
    assert {option.default for option in OPTIONS if option.flag in {"metrics-port", "health-probe-port"}} == ports
    specs = {
        obj["kind"]: obj["spec"]["template"]["spec"] if obj["kind"] == "Deployment" else obj["spec"]
        for obj in chart_values.render(chart_values.NEEDED)
        if obj["kind"] in {"Deployment", "Pod"}
    }
    assert set(specs) == {"Deployment", "Pod"}
    for spec in specs.values():
        (container,) = spec["containers"]
        assert f"USER {spec['securityContext']['runAsUser']}:{spec['securityContext']['runAsGroup']}\n" in TEXT
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert not {"volumes", "volumeMounts", "command"} & {*spec, *container}
    (controller,) = specs["Deployment"]["containers"]
    assert {port["containerPort"] for port in controller["ports"]} == ports


@pytest.mark.parametrize("chart", ["gpu-provisioner", "gpu-provisioner-crd"])
def test_image_and_charts_have_the_version_of_the_program(chart: str) -> None:
    described = yaml.safe_load((ROOT / "charts" / chart / "Chart.yaml").read_text(encoding="utf-8"))
    assert (described["version"], described["appVersion"]) == (own_version(), own_version())
    assert set(re.findall(r"^ARG VERSION=(.+)$", TEXT, re.MULTILINE)) == {own_version()}
