"""The distribution contains three packages and no other files of the repository."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from provisioner.cli.installation import PACKAGES
from provisioner.version import DISTRIBUTION, own_version

ROOT = Path(__file__).parents[3]
TOP = ("provisioner", *PACKAGES)


def hatch(*words: str, cwd: Path = ROOT) -> None:
    """Run the build backend, which does not need the network."""
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", *words],
        cwd=cwd,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1600000000"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    hatch("-d", str(folder))
    return folder


@pytest.fixture
def wheel(archives: Path) -> zipfile.ZipFile:
    (path,) = archives.glob("*.whl")
    return zipfile.ZipFile(path)


def sources() -> set[str]:
    """The files of the three packages, the table of prices included, and the examples, as paths in the repository."""
    modules = {path for package in TOP for suffix in ("py", "csv") for path in (ROOT / package).rglob(f"*.{suffix}")}
    typed = {ROOT / package / "py.typed" for package in TOP}
    return {str(path.relative_to(ROOT)) for path in modules | typed | set((ROOT / "examples").rglob("*.yaml"))}


def test_the_wheel_contains_only_the_program(wheel: zipfile.ZipFile) -> None:
    """The modules of the three packages, their py.typed, the examples and the metadata."""
    names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    expected = {f"provisioner/{path}" if path.startswith("examples/") else path for path in sources()}
    assert len(expected) > 150
    assert names == expected
    assert {f"{package}/py.typed" for package in TOP} < names
    metadata = {name.partition(".dist-info/")[2] for name in wheel.namelist() if ".dist-info/" in name}
    assert metadata == {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}


def test_the_wheel_is_pure_python_and_cannot_be_uploaded(wheel: zipfile.ZipFile) -> None:
    """Package indexes reject the classifier; other projects on PyPI own the names of the packages."""
    name = f"aks_gpu_provisioner-{own_version()}.dist-info"
    assert "Tag: py3-none-any" in wheel.read(f"{name}/WHEEL").decode().splitlines()
    assert "Classifier: Private :: Do Not Upload" in wheel.read(f"{name}/METADATA").decode().splitlines()


def test_the_licence_is_the_same_everywhere(wheel: zipfile.ZipFile) -> None:
    """The wheel's metadata, its notice, the image's label and both charts name one SPDX identifier."""
    info = f"aks_gpu_provisioner-{own_version()}.dist-info"
    (found,) = re.findall(r"^License-Expression: (.+)$", wheel.read(f"{info}/METADATA").decode(), re.MULTILINE)
    assert f"SPDX-License-Identifier: {found}\n" in wheel.read(f"{info}/licenses/LICENSE").decode()
    assert f'org.opencontainers.image.licenses="{found}"' in (ROOT / "Dockerfile").read_text()
    for chart in (ROOT / "charts").glob("*/Chart.yaml"):
        assert f"artifacthub.io/license: {found}\n" in chart.read_text()


def test_the_wheel_can_be_built_from_the_source_distribution(archives: Path, tmp_path: Path) -> None:
    """The wheel is identical to the one that is built from the repository."""
    (path,) = archives.glob("*.tar.gz")
    shutil.unpack_archive(path, tmp_path, "gztar", filter="data")
    (folder,) = tmp_path.iterdir()
    held = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    assert held == sources() | {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", ".gitignore", "PKG-INFO"}
    again = tmp_path / "again"
    hatch("-t", "wheel", "-d", str(again), cwd=folder)
    (first,), (second,) = archives.glob("*.whl"), again.glob("*.whl")
    assert first.read_bytes() == second.read_bytes()


def test_the_installed_command_runs_the_installed_code(archives: Path, tmp_path: Path) -> None:
    """Also if the working directory is a checkout."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True, timeout=60)
    python = tmp_path / "env" / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*install, *map(str, archives.glob("*.whl"))], check=True, capture_output=True, timeout=60)
    # A path line makes the dependencies importable, but not the editable installs.
    (libraries,) = (tmp_path / "env" / "lib").glob("python3.*/site-packages")
    (libraries / "needs.pth").write_text(sysconfig.get_path("purelib"))
    script = "import controllers, cloudprovider, provisioner; print(controllers.__file__)"
    for words, output in (
        ([str(tmp_path / "env/bin/gpu-provisioner"), "version"], f"gpu-provisioner {own_version()}\n"),
        ([str(python), "-I", "-c", script], f"{libraries / 'controllers/__init__.py'}\n"),
    ):
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, output, "")


def test_the_unpacked_wheel_uses_its_own_modules_and_examples(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path)
    script = (
        "import sys; sys.path[:] = [p for p in sys.path if p != sys.argv[1]]; sys.path.insert(0, sys.argv[2])\n"
        "from provisioner.cli.installation import HOME, shadowing_packages\n"
        "from provisioner.trial.manifests import examples, pod_examples, read_claims\n"
        "assert str(HOME) == sys.argv[2] and not shadowing_packages(), shadowing_packages()\n"
        "assert all(path.is_relative_to(HOME) for path in (*examples(), *pod_examples()))\n"
        "print(*(claim['metadata']['name'] for claim in read_claims(examples())))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, str(ROOT), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=30,
    )
    assert (ended.stdout, ended.stderr) == ("ws3f2a91c0d firstgpu a100multi\n", "")
    entry_points = next(name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert "gpu-provisioner = provisioner.cli.main:main" in wheel.read(entry_points).decode()


def test_no_dependency_contains_a_package_of_the_same_name(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """All three names exist on PyPI for other projects."""
    wheel.extractall(tmp_path)
    script = "import json; from importlib.metadata import packages_distributions as p; print(json.dumps(p()))"
    owners = json.loads(
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            check=True,
            cwd=tmp_path,
            timeout=30,
        ).stdout
    )
    assert [set(owners[name]) for name in ("provisioner", *PACKAGES)] == [{DISTRIBUTION}] * 3
    assert "aiohttp" in owners
