"""What the image contains, without a container engine: its locked wheels, the installed program, its bill of materials.

`.github/workflows/image.yml` builds and starts the image itself.
"""

import json
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import canonicalize_name

from provisioner.cli.installation import INSTALL_TRY
from provisioner.version import DISTRIBUTION, own_version
from tests.unit.repository.locks import IMAGE, OF_TRY, TOP, pins
from tests.wire.site import CLAIMS, LEASES, NAME, Site, fetch, run, run_story
from tests.world.harness import node_claim

pytestmark = pytest.mark.image

ROOT = Path(__file__).parents[2]
LOCK = ROOT / IMAGE
PYTHON = re.findall(r"^ARG PYTHON=(.+)$", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)[0]
USER = 65532
# Architectures of `platforms` in image.yml, as wheels name them. Debian 13 has glibc 2.41, which runs older wheels.
MACHINES = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}
GLIBC_MINORS = range(17, 42)
VARIABLES = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LANG": "C.UTF-8"}
PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")


def done(*words: object, **more: Any) -> str:
    """The standard output of a command that succeeds."""
    ended = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False, timeout=300, **more)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize("platform", MACHINES)
def test_every_locked_distribution_has_a_wheel(platform: str, tmp_path: Path) -> None:
    """For the image's Python, with a hash of the lock: the build compiles nothing."""
    assert platform in (ROOT / ".github/workflows/image.yml").read_text(encoding="utf-8")
    machine, report = MACHINES[platform], tmp_path / "report.json"
    tags = ["manylinux2014", *(f"manylinux_2_{minor}" for minor in GLIBC_MINORS)]
    command = [*PIP, "install", "--dry-run", "--ignore-installed", "--no-deps", "--only-binary", ":all:"]
    command += ["--target", str(tmp_path / "none"), "--implementation=cp", f"--python-version={PYTHON}"]
    command += [f"--platform={tag}_{machine}" for tag in tags]
    command += [f"--abi={abi}" for abi in (f"cp{PYTHON.replace('.', '')}", "abi3", "none")]
    done(*command, "--report", report, "--require-hashes", "-r", LOCK)
    chosen = {
        canonicalize_name(each["metadata"]["name"]): each["download_info"]["url"].rsplit("/", 1)[1]
        for each in json.loads(report.read_text(encoding="utf-8"))["install"]
    }
    assert set(chosen) == {pin.name for pin in pins(IMAGE)}
    compiled = {name for name, file in chosen.items() if not file.endswith("-none-any.whl")}
    assert {"aiohttp", "cryptography", "msgspec"} <= compiled
    assert all(f"_{machine}." in chosen[name] for name in compiled)


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A folder that any user can read; pytest's own are readable by their owner only."""
    with tempfile.TemporaryDirectory(prefix="image-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


def executable_by_others(path: Path) -> bool:
    return all(each.stat().st_mode & stat.S_IXOTH for each in (path, *path.parents))


def interpreter() -> Path:
    """This Python, or the system's of the same version if other users cannot execute this one."""
    own = Path(sys.executable).resolve()
    system = Path(f"/usr/bin/python3.{sys.version_info.minor}")
    return system if system.exists() and not executable_by_others(own) else own


@pytest.fixture(scope="module")
def environment(home: Path) -> Path:
    """The virtual environment of the image, read-only."""
    made = home / "opt"
    done(interpreter(), "-m", "venv", "--without-pip", made)
    install = (*PIP, "--python", made / "bin/python", "install", "--no-deps")
    done(*install, "--only-binary", ":all:", "--require-hashes", "-r", LOCK)
    done(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", home, cwd=ROOT)
    done(*install, "--no-index", "--find-links", home, f"{DISTRIBUTION}=={own_version()}")
    done("chmod", "-R", "a-w", made)
    return made


def test_the_image_contains_the_controller_only(environment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No file of the second distribution; every module can be imported. Prints how much it is."""
    (libraries,) = environment.glob("lib/python3.*/site-packages")
    sizes = {path: path.stat().st_size for path in libraries.rglob("*") if path.is_file()}
    own = [path for path in sizes if path.relative_to(libraries).parts[0] in TOP]
    sources = {str(path.relative_to(libraries)): path for path in own if path.suffix == ".py"}
    assert not {path for path in own if str(path.relative_to(libraries)).startswith((*OF_TRY, "provisioner/examples"))}
    modules = {path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in sources}
    assert len(modules) > 300
    script = "import sys, importlib\nfor name in sys.argv[1:]: importlib.import_module(name)"
    done(environment / "bin/python", "-IB", "-c", script, *sorted(modules), cwd="/", env=VARIABLES)
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in sources.values())
    with capsys.disabled():
        program = f"{len(sources)} modules, {lines:,} lines, {sum(sizes[path] for path in own) / 1e6:.1f} MB"
        print(f"\nthe program in the image: {program}; with its dependencies {sum(sizes.values()) / 1e6:.1f} MB")


def test_the_installed_program_runs_read_only_as_another_user(environment: Path, home: Path) -> None:
    """With the locked runtime dependencies alone: `run` makes a claim Ready and ends on SIGTERM."""
    program = environment / "bin/gpu-provisioner"
    may_change_user = os.geteuid() == 0 and executable_by_others(interpreter())
    user: dict[str, Any] = {"user": USER, "group": USER, "extra_groups": []} if may_change_user else {}
    assert done(program, "version", env=VARIABLES, cwd="/", **user) == f"gpu-provisioner {own_version()}\n"
    for words in (("try", "--once"), ("plan", "-f", "claim.yaml")):
        ended = subprocess.run([program, *words], env=VARIABLES, cwd="/", capture_output=True, check=False, **user)
        assert (ended.returncode, ended.stdout) == (2, b"")
        assert INSTALL_TRY in ended.stderr.decode()

    async def story(site: Site) -> None:
        (home / "kubeconfig").chmod(0o644)
        env = {**site.env(), **VARIABLES}
        async with run(site, "run", env=env, program=str(program), cwd=Path("/"), **user) as it:
            if user:
                assert os.stat(f"/proc/{it.process.pid}").st_uid == USER
            health = f"http://127.0.0.1:{site.health}"
            assert [status for status, _ in await fetch(f"{health}/healthz", f"{health}/readyz")] == [200, 200]
            site.world.store.create(CLAIMS, node_claim(NAME))
            await site.until(lambda: site.conditions().get("Ready") == "True", "the claim is Ready")
            assert await it.end(signal.SIGTERM) == 0
            lease = site.world.store.get(LEASES, "gpu-provisioner-leader-election", "kube-system")
            assert lease is not None
            assert lease["spec"]["holderIdentity"] == ""
            assert {entry["level"] for entry in it.log} <= {"INFO", "WARNING"}

    run_story(story, home)


def test_the_bill_of_materials_lists_each_locked_distribution(tmp_path: Path) -> None:
    """With its version, its licence and its dependencies, and without a path of this machine."""
    done("make", "sbom", f"DIST={tmp_path}", cwd=ROOT)
    text = (tmp_path / "sbom.cdx.json").read_text(encoding="utf-8")
    bom = json.loads(text)
    root = bom["metadata"]["component"]
    assert (root["name"], root["version"], root["type"]) == (DISTRIBUTION, own_version(), "application")
    pinned = {pin.name: pin.version for pin in pins(IMAGE)}
    assert {canonicalize_name(each["name"]): each["version"] for each in bom["components"]} == pinned
    assert all(each["purl"] and each["licenses"] for each in bom["components"])
    needed = {name for each in bom["dependencies"] for name in each.get("dependsOn", [])}
    assert needed == {each["bom-ref"] for each in bom["components"]}
    assert str(ROOT) not in text
    assert str(tmp_path) not in text
