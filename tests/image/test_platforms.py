"""That the image can be built for each architecture that we publish.

The lock names hashes, not files, and which file a hash belongs to only the index knows: so pip resolves the lock for
each architecture, as the builder there would, and takes nothing but wheels.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.dockerfile import ROOT, read
from tests.unit.workflows import workflow
from tools import locks

BUILDER, _ = read()
# Of docker's platforms, what wheels call them. Debian 13 has glibc 2.41; each older one's wheels run there.
MACHINES = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}
GLIBC_MINORS = range(17, 42)


def test_these_are_the_platforms_that_are_published() -> None:
    """The workflow builds no other."""
    (platforms,) = {
        step["with"]["platforms"]
        for job in workflow("image")["jobs"].values()
        for step in job.get("steps", ())
        if "platforms" in step.get("with", {}) and "build-push" in step["uses"]
    }
    assert platforms.split(",") == list(MACHINES)


@pytest.mark.parametrize("platform", MACHINES)
def test_every_locked_distribution_has_a_wheel(platform: str, tmp_path: Path) -> None:
    """For the Python of the bases, with a hash that is in the lock; nothing would be compiled."""
    machine, python = MACHINES[platform], BUILDER.arguments({})["PYTHON"]
    tags = ["manylinux2014", *(f"manylinux_2_{minor}" for minor in GLIBC_MINORS)]
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--dry-run"]
    command += ["--ignore-installed", "--no-deps", "--only-binary", ":all:", "--target", str(tmp_path / "none")]
    command += [f"--platform={tag}_{machine}" for tag in tags]
    command += ["--implementation=cp", f"--python-version={python}", "--report", str(report)]
    command += [f"--abi={abi}" for abi in (f"cp{python.replace('.', '')}", "abi3", "none")]
    command += ["--require-hashes", "-r", str(ROOT / "requirements-image.lock")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    chosen = {
        each["metadata"]["name"].lower().replace("_", "-"): each["download_info"]["url"].rsplit("/", 1)[1]
        for each in json.loads(report.read_text())["install"]
    }
    assert set(chosen) == {pin.name for pin in locks.read("requirements-image.lock")}
    compiled = {name for name, file in chosen.items() if not file.endswith("-none-any.whl")}
    assert {"aiohttp", "cryptography", "msgspec"} <= compiled
    assert all(f"_{machine}." in chosen[name] for name in compiled)
