"""The two distributions contain three packages, each file once, and no other files of the repository."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from provisioner.api.crd import KARPENTER
from provisioner.cli.definitions import COMMANDS
from provisioner.cli.installation import INSTALL_TRY, TRY_DISTRIBUTION, TRY_MODULES
from provisioner.version import DISTRIBUTION, own_version

from .locks import FIRST, OF_TRY, ROOT, SECOND, TOP


def hatch(*words: str, cwd: Path = ROOT) -> None:
    """Run the build backend, which does not need the network; -P: `provisioner/operator` is no module of Python's."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "hatchling", "build", *words],
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
    """A folder with both wheels and the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    hatch("-d", str(folder))
    hatch("-t", "wheel", "-d", str(folder), cwd=ROOT / "provisioner")
    return folder


@pytest.fixture
def wheel(archives: Path) -> zipfile.ZipFile:
    """The program's, which the image contains."""
    return zipfile.ZipFile(archives / f"aks_gpu_provisioner-{own_version()}-py3-none-any.whl")


@pytest.fixture
def try_wheel(archives: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(archives / f"aks_gpu_provisioner_try-{own_version()}-py3-none-any.whl")


def files(wheel: zipfile.ZipFile) -> set[str]:
    return {name for name in wheel.namelist() if ".dist-info/" not in name}


def sources() -> set[str]:
    """The files of the three packages, data included, and the examples, as paths in the repository."""
    found = {path for package in TOP for suffix in ("py", "csv") for path in (ROOT / package).rglob(f"*.{suffix}")}
    found |= {ROOT / package / "py.typed" for package in TOP} | {*KARPENTER.iterdir()}
    return {str(path.relative_to(ROOT)) for path in found | {*(ROOT / "examples").rglob("*.yaml")}}


def test_the_wheel_contains_only_the_program(wheel: zipfile.ZipFile) -> None:
    """Its modules of the three packages, their py.typed and the metadata."""
    expected = {path for path in sources() if not path.startswith((*OF_TRY, "examples/"))}
    assert len(expected) > 150
    assert files(wheel) == expected
    assert {f"{package}/py.typed" for package in TOP} < expected
    metadata = {name.partition(".dist-info/")[2] for name in wheel.namelist() if ".dist-info/" in name}
    assert metadata == {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}


def test_the_second_wheel_contains_only_what_try_and_plan_need(try_wheel: zipfile.ZipFile) -> None:
    """The modules that the first one excludes, and the examples: no file is in both."""
    expected = {path for path in sources() if path.startswith(OF_TRY)}
    examples = {f"provisioner/{path}" for path in sources() if path.startswith("examples/")}
    assert files(try_wheel) == expected | examples | {"provisioner/trial/LICENSE"}
    excluded = FIRST["tool"]["hatch"]["build"]["targets"]["wheel"]["exclude"]
    assert sorted(excluded) == sorted(f"/{path}" for path in (*OF_TRY, "provisioner/pyproject.toml"))


def test_the_distributions_have_one_version() -> None:
    """The extra `try` requires the second one at the version of the first one, and the second one the first one."""
    assert SECOND["project"]["name"] == TRY_DISTRIBUTION
    assert SECOND["project"]["version"] == own_version()
    assert FIRST["project"]["optional-dependencies"]["try"] == [f"{TRY_DISTRIBUTION}=={own_version()}"]
    own, *others = SECOND["project"]["dependencies"]
    assert own == f"{DISTRIBUTION}=={own_version()}"
    provided = packages_distributions()
    needed = {name for module in TRY_MODULES[1:] for name in provided[module]}
    assert {Requirement(text).name for text in others} == {canonicalize_name(name) for name in needed}


def test_the_wheels_are_pure_python_and_cannot_be_uploaded(archives: Path) -> None:
    """Package indexes reject the classifier; other projects on PyPI own the names of the packages."""
    for path in archives.glob("*.whl"):
        wheel, info = zipfile.ZipFile(path), f"{path.name.removesuffix('-py3-none-any.whl')}.dist-info"
        assert "Tag: py3-none-any" in wheel.read(f"{info}/WHEEL").decode().splitlines()
        assert "Classifier: Private :: Do Not Upload" in wheel.read(f"{info}/METADATA").decode().splitlines()


def test_the_licence_is_the_same_everywhere(wheel: zipfile.ZipFile, try_wheel: zipfile.ZipFile) -> None:
    """The metadata and the notice of both wheels, the image's label and both charts name one SPDX identifier."""
    info = f"aks_gpu_provisioner-{own_version()}.dist-info"
    (found,) = re.findall(r"^License-Expression: (.+)$", wheel.read(f"{info}/METADATA").decode(), re.MULTILINE)
    assert f"SPDX-License-Identifier: {found}\n" in wheel.read(f"{info}/licenses/LICENSE").decode()
    assert try_wheel.read("provisioner/trial/LICENSE") == wheel.read(f"{info}/licenses/LICENSE")
    assert SECOND["project"]["license"] == found
    assert f'org.opencontainers.image.licenses="{found}"' in (ROOT / "Dockerfile").read_text()
    for chart in (ROOT / "charts").glob("*/Chart.yaml"):
        assert f"artifacthub.io/license: {found}\n" in chart.read_text()


def test_both_wheels_can_be_built_from_the_source_distribution(archives: Path, tmp_path: Path) -> None:
    """They are identical to those that are built from the repository."""
    (path,) = archives.glob("*.tar.gz")
    shutil.unpack_archive(path, tmp_path, "gztar", filter="data")
    (folder,) = tmp_path.iterdir()
    held = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    others = {"README.md", "LICENSE", "CHANGELOG.md", ".gitignore", "PKG-INFO"}
    assert held == sources() | others | {"pyproject.toml", "provisioner/pyproject.toml"}
    again = tmp_path / "again"
    for root in (folder, folder / "provisioner"):
        hatch("-t", "wheel", "-d", str(again), cwd=root)
    built = {path.name: path.read_bytes() for path in archives.glob("*.whl")}
    assert built == {path.name: path.read_bytes() for path in again.iterdir()}
    assert len(built) == 2


def pip(python: Path, *words: str) -> None:
    command = [sys.executable, "-m", "pip", "--python", str(python), "--quiet", *words]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def ended(*words: str | Path) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a program, whose working directory is a checkout."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout, done.stderr


def test_the_installed_command_runs_the_installed_code(archives: Path, tmp_path: Path) -> None:
    """Also if the working directory is a checkout; `try` and `plan` exist while the second wheel is installed."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True, timeout=60)
    python, program = tmp_path / "env/bin/python", tmp_path / "env/bin/gpu-provisioner"
    # A path line makes the dependencies importable, but not the editable installs.
    (libraries,) = (tmp_path / "env" / "lib").glob("python3.*/site-packages")
    (libraries / "needs.pth").write_text(sysconfig.get_path("purelib"))
    find = ("install", "--ignore-installed", "--no-index", "--no-deps", "--find-links", str(archives))
    commands_of_try = {name for name, command in COMMANDS.items() if command.of_try}
    for change, without in (
        ((*find, DISTRIBUTION), commands_of_try),
        ((*find, TRY_DISTRIBUTION), set()),
        (("uninstall", "--yes", TRY_DISTRIBUTION), commands_of_try),
    ):
        pip(python, *change)
        script = "import controllers, cloudprovider, provisioner; print(controllers.__file__)"
        assert ended(python, "-I", "-c", script) == (0, f"{libraries / 'controllers/__init__.py'}\n", "")
        assert ended(program, "version") == (0, f"gpu-provisioner {own_version()}\n", "")
        _, listed, _ = ended(program, "--help")
        assert {name for name in COMMANDS if not re.search(rf"^    {name}\b", listed, re.MULTILINE)} == without
        for name in commands_of_try:
            code, out, err = ended(program, name, "--help")
            cause = f"the package {TRY_DISTRIBUTION} is not installed (no module provisioner.trial)"
            refused = (2, "", f"gpu-provisioner {name}: {cause}\n    {INSTALL_TRY}\n")
            assert (code, out, err) == refused if without else (code, err) == (0, "")


def test_the_unpacked_wheels_use_their_own_modules_and_examples(
    wheel: zipfile.ZipFile, try_wheel: zipfile.ZipFile, tmp_path: Path
) -> None:
    wheel.extractall(tmp_path)
    try_wheel.extractall(tmp_path)
    script = (
        "import sys; sys.path[:] = [p for p in sys.path if p != sys.argv[1]]; sys.path.insert(0, sys.argv[2])\n"
        "from provisioner.cli.installation import HOME, shadowing_packages\n"
        "from provisioner.trial.manifests import examples, pod_examples, read_claims\n"
        "assert str(HOME) == sys.argv[2] and not shadowing_packages(), shadowing_packages()\n"
        "assert all(path.is_relative_to(HOME) for path in (*examples(), *pod_examples()))\n"
        "print(*(claim['metadata']['name'] for claim in read_claims(examples())))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(ROOT), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=30,
    )
    assert (done.stdout, done.stderr) == ("ws3f2a91c0d firstgpu a100multi\n", "")
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
    assert [set(owners[name]) - {TRY_DISTRIBUTION} for name in TOP] == [{DISTRIBUTION}] * 3
    assert "aiohttp" in owners
