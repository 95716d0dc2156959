"""What the Dockerfile makes, run as Kubernetes runs it: as user 65532, below a root that nobody may write to."""

import importlib.util
import json
import os
import re
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from provisioner.cli import COMMANDS
from provisioner.version import DISTRIBUTION, own_version
from tests.unit.dockerfile import read
from tests.wire.test_run import CANARY, CLAIMS, LEASES, NAME, Site, asked, run, told
from tests.world.harness import node_claim
from tools import locks

from .replay import Image, built, moved


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that the image's user can read: pytest's own are ours alone."""
    with tempfile.TemporaryDirectory(prefix="pod-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


def ended(image: Image, *words: str, cwd: str = "/", **variables: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the entry point with these words."""
    done = subprocess.run(
        [image.entry_point(), *words],
        cwd=cwd,
        env=image.environment(**variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        **image.user(),  # type: ignore[call-overload]
    )
    return done.returncode, done.stdout, done.stderr


def libraries(image: Image) -> Path:
    """Where its environment keeps what was installed."""
    (found,) = (image.root / "opt/gpu-provisioner/lib").glob("python3.*/site-packages")
    return found


# --- what is in it ---------------------------------------------------------------------------------------------------


def test_it_holds_the_locked_distributions_and_ours(image: Image) -> None:
    """Version by version; no pip, nothing of what built it, nothing of `try`."""
    held = {canonicalize_name(d.name): d.version for d in distributions(path=[str(libraries(image))])}
    locked = {canonicalize_name(pin.name): pin.version for pin in locks.read("requirements-image.lock")}
    assert held == {**locked, DISTRIBUTION: own_version()}
    assert {path.name for path in (image.root / "opt").iterdir()} == {"gpu-provisioner"}


def test_nothing_in_it_has_to_be_compiled_or_could_be_changed(image: Image) -> None:
    """Each module has bytecode that is not checked against its source's time; no file is anybody's to write."""
    for source in libraries(image).rglob("*.py"):
        compiled = Path(importlib.util.cache_from_source(str(source)))
        # PEP 552: 1 is a hash, and it is not checked.
        assert compiled.read_bytes()[4:8] == b"\1\0\0\0", source
    for path in image.root.rglob("*"):
        assert path.is_symlink() or not path.stat().st_mode & (stat.S_IWOTH | stat.S_ISUID | stat.S_ISGID), path


def test_its_environment_finds_the_interpreter_of_the_last_base(image: Image) -> None:
    """The link that was made in the builder leads where the other base has its Python."""
    python = image.root / "opt/gpu-provisioner/bin" / image_python(image)
    assert Path(os.readlink(python)) == image.root / "usr/bin" / python.name
    assert not (image.root / "usr/local").exists()


def image_python(image: Image) -> str:
    return libraries(image).parent.name


# --- what it does ----------------------------------------------------------------------------------------------------


def test_its_version_is_ours(image: Image) -> None:
    """The label says the same (`tests/unit/test_dockerfile.py`)."""
    assert ended(image, "version") == (0, f"gpu-provisioner {own_version()}\n", "")


def test_no_folder_and_no_variable_puts_other_code_in_its_place(image: Image, home: Path) -> None:
    """A volume with a `controllers` of its own, or a PYTHONPATH from a careless values file, changes nothing."""
    for name in ("controllers", "provisioner", "sitecustomize"):
        (home / name).mkdir()
        (home / name / "__init__.py").write_text("raise SystemExit('not ours')")
    variables = {"PYTHONPATH": str(home), "PYTHONSTARTUP": str(home), "PYTHONHOME": str(home)}
    assert ended(image, "version", cwd=str(home), **variables) == (0, f"gpu-provisioner {own_version()}\n", "")


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in {"try", "version"}])
def test_each_command_is_there(image: Image, command: str) -> None:
    """What it needs is installed; nothing is written next to its help."""
    code, out, err = ended(image, command, "--help")
    assert (code, err) == (0, "")
    assert "usage: gpu-provisioner" in out


@pytest.mark.parametrize("words", [("try", "--once"), ("plan", "-f", "claim.yaml")])
def test_a_command_says_what_to_install(image: Image, words: tuple[str, ...]) -> None:
    """The extra `try` is not in the image: one line for the cause, one for the remedy."""
    code, out, err = ended(image, *words)
    assert (code, out) == (2, "")
    cause, remedy = err.splitlines()
    assert re.fullmatch(rf"gpu-provisioner {words[0]}: \S+ is not installed", cause)
    assert remedy.strip() == "pip install 'aks-gpu-provisioner[try]'"


def test_a_claim_becomes_ready_and_sigterm_ends_it(image: Image, home: Path) -> None:
    """`run`, as the chart's Pod does: probes answer, the claim is Ready, the lease is given back, exit 0."""

    async def story(site: Site) -> None:
        (home / "kubeconfig").chmod(0o644)
        pod = image.environment(**{k: v for k, v in site.env().items() if k not in {"PATH", "HOME", "TMPDIR", "LANG"}})
        async with run(site, "run", env=pod, program=image.entry_point(), cwd=Path("/"), **image.user()) as it:
            if user := image.user():
                assert os.stat(f"/proc/{it.process.pid}").st_uid == user["user"]
            health = f"http://127.0.0.1:{site.health}"
            assert [status for status, _ in await asked(f"{health}/healthz", f"{health}/readyz")] == [200, 200]
            site.world.store.create(CLAIMS, node_claim(NAME))
            await site.until(lambda: site.conditions().get("Ready") == "True", "the claim is Ready")
            assert await it.end(signal.SIGTERM) == 0
            lease = site.world.store.get(LEASES, "gpu-provisioner-leader-election", "kube-system")
            assert lease is not None
            assert lease["spec"]["holderIdentity"] == ""
            assert {entry["level"] for entry in it.log} <= {"INFO", "WARNING"}

    told(story, home, token=CANARY)


# --- that the replay can fail ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "fits"), [(own_version(), True), ("9.9.9", False)])
def test_a_label_cannot_say_another_version(image: Image, version: str, fits: bool) -> None:
    """The last step of the builder asks the program what it is."""
    builder, _ = read()
    question = builder.of("RUN")[-1].text.split("&&")[-1]
    assert "VERSION" in question
    answer = subprocess.run(
        ["/bin/sh", "-c", moved(question, image.root)], env={"VERSION": version}, check=False, timeout=30
    )
    assert (answer.returncode == 0) is fits


def test_it_ran_without_our_environment(image: Image) -> None:
    """None of this machine's packages is on its path, so what was missing in the image would have been missed."""
    python = image.root / "opt/gpu-provisioner/bin/python"
    script = "import json, sys; print(json.dumps(sys.path))"
    said = subprocess.run([python, "-I", "-c", script], capture_output=True, check=True, timeout=30).stdout
    places = [path for path in json.loads(said) if path.endswith("-packages")]
    assert places == [str(libraries(image))]


def test_a_second_build_is_the_same(image: Image) -> None:
    """Byte by byte, so that whoever builds a release again can compare: no times, no order, no chance."""
    first = contents(image)
    with built() as again:
        second = contents(again)
    assert {path for path in first.keys() | second.keys() if first.get(path) != second.get(path)} == set()


def contents(image: Image) -> dict[str, list[bytes]]:
    """The lines of each file below `/opt`; this very build's folder is left out, and hashes of scripts that name it."""
    where = str(image.root).encode()
    return {
        str(path.relative_to(image.root)): [
            line for line in path.read_bytes().replace(where, b"").split(b"\n") if not line.startswith(b"../../../bin/")
        ]
        for path in (image.root / "opt").rglob("*")
        if path.is_file() and not path.is_symlink()
    }
