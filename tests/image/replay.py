"""The Dockerfile carried out without an engine: each step as written, below a folder of ours instead of `/`.

Promise: COPY takes only what a build is sent, and RUN runs the very text with absolute paths of the image moved below
`root`; both bases are stood in for by this machine's Python, at the paths where they have theirs. Nothing outside the
folder is written but pip's own cache. A step that fails raises BuildFailed with what it said.
Left to others: the bases themselves, and the network of `pip` (the only thing here that needs one).
"""

import contextlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.unit.dockerfile import ROOT, Instruction, Stage, read, sent, substituted

OF_THE_IMAGE = re.compile(r"(?<![\w.:/])/(?=(?:usr|opt|src|root)\b)")
STEP_SECONDS = 300.0
NOBODY = 65532
ENTERABLE = stat.S_IXOTH


class BuildFailed(Exception):
    """What the step printed."""


@dataclass(frozen=True)
class Image:
    """What came of it: its files below `root`, and how its entry point is started there."""

    root: Path
    stage: Stage

    def environment(self, **more: str) -> dict[str, str]:
        """The image's own variables, as they hold below `root`, and more; nothing of this machine's."""
        arguments = self.stage.arguments({})
        pairs = self.stage.only("ENV").pairs
        own = {name: moved(substituted(value, arguments), self.root) for name, value in pairs.items()}
        return {**own, "HOME": "/nonexistent", "LANG": "C.UTF-8", **more}

    def entry_point(self) -> str:
        """Found as a container runtime finds it: by the image's PATH. Raises BuildFailed if it is not there."""
        (name,) = self.stage.only("ENTRYPOINT").words
        found = shutil.which(name, path=self.environment()["PATH"])
        if found is None:
            raise BuildFailed(f"no {name} on the image's PATH")
        return found

    def user(self) -> dict[str, int | list[int]]:
        """For a process's start: the image's user, if we may be somebody else and it can reach the interpreter."""
        if os.geteuid() != 0 or not reachable(interpreter()):
            return {}
        uid, gid = map(int, self.stage.only("USER").text.split(":"))
        return {"user": uid, "group": gid, "extra_groups": []}


@contextlib.contextmanager
def built(**arguments: str) -> Iterator[Image]:
    """The image, read-only, for as long as the context lasts."""
    with tempfile.TemporaryDirectory(prefix="image-") as made:
        folder = Path(made)
        folder.chmod(0o755)
        build = Build(folder, {"PYTHON": f"3.{sys.version_info.minor}", **arguments})
        stages = read()
        for stage in stages:
            build.carry_out(stage)
        read_only(build.root)
        try:
            yield Image(build.root, stages[-1])
        finally:
            writable(build.root)


@dataclass
class Build:
    """One build in a folder; the stage in work is at `root`, those before it are beside it by their names."""

    folder: Path
    arguments: Mapping[str, str]
    variables: dict[str, str] = field(default_factory=dict)
    workdir: Path = field(init=False)

    def __post_init__(self) -> None:
        self.context = self.folder / "context"
        self.root = self.folder / "root"
        for path in sent(files()):
            (self.context / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / path, self.context / path)

    def carry_out(self, stage: Stage) -> None:
        """All its steps, below a fresh root."""
        base(stage.image, self.root, self.arguments["PYTHON"])
        self.workdir = self.root
        self.variables = stage.arguments(self.arguments)
        for each in stage.instructions:
            match each.name:
                case "ENV":
                    self.variables |= {name: moved(value, self.root) for name, value in each.pairs.items()}
                case "WORKDIR":
                    self.workdir = Path(moved(each.text, self.root))
                    self.workdir.mkdir(parents=True, exist_ok=True)
                case "COPY":
                    self._copy(each)
                case "RUN":
                    self._run(each)
        if stage.name:
            self.root.rename(self.folder / stage.name)

    def _copy(self, step: Instruction) -> None:
        *sources, target = step.words
        origin = self.folder / step.flags["from"] if "from" in step.flags else self.context
        to = Path(moved(target, self.root)) if target.startswith("/") else self.workdir / target
        for source in sources:
            found = origin / source.lstrip("/")
            if found.is_dir():
                # What a stage made stays as it is, so a second name for it will do.
                copy = os.link if "from" in step.flags else shutil.copyfile
                shutil.copytree(found, to, symlinks=True, dirs_exist_ok=True, copy_function=copy)
            elif found.is_file():
                shutil.copyfile(found, to / found.name if target.endswith("/") else to)
            else:
                raise BuildFailed(f"COPY {source}: the build is not sent any such thing")

    def _run(self, step: Instruction) -> None:
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
        path = f"{self.root}/usr/local/bin:/usr/bin:/bin"
        done = subprocess.run(
            ["/bin/sh", "-e", "-c", moved(step.text, self.root)],
            cwd=self.workdir,
            env={**ours, **self.variables, "PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=STEP_SECONDS,
        )
        if done.returncode:
            raise BuildFailed(f"RUN {step.text}\n{done.returncode}\n{done.stdout}\n{done.stderr}")


def base(image: str, root: Path, python: str) -> None:
    """What we count on in a base: an interpreter at its place, and in the builder's, pip. Raises BuildFailed."""
    name = image.partition(":")[0]
    places = {"docker.io/library/python": "usr/local/bin", "gcr.io/distroless/python3-debian13": "usr/bin"}
    if name not in places:
        raise BuildFailed(f"nobody has said what is in {name}")
    place = root / places[name]
    place.mkdir(parents=True)
    (root / "usr/bin").mkdir(exist_ok=True)
    (root / "opt").mkdir()
    (place / f"python{python}").symlink_to(interpreter())
    if place.parent.name == "local":
        pip = place / "pip"
        pip.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pip "$@"\n')
        pip.chmod(0o755)


def interpreter() -> Path:
    """A Python of this minor version, if possible one that any user may run."""
    own = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    system = Path(f"/usr/bin/python3.{sys.version_info.minor}")
    return system if system.exists() and not reachable(own) else own


def reachable(path: Path) -> bool:
    """Whether everybody may enter all folders on the way to it, and run it."""
    return all(each.stat().st_mode & ENTERABLE for each in (path, *path.parents))


def moved(text: str, root: Path) -> str:
    """With the image's absolute paths below `root`."""
    return OF_THE_IMAGE.sub(f"{root}/", text)


def files() -> list[str]:
    """Those of the checkout that are no environment's and not git's, by their paths in it."""
    tops = [path for path in ROOT.iterdir() if path.name not in {".venv", ".git"}]
    found = [file for top in tops for file in (top.rglob("*") if top.is_dir() else [top]) if file.is_file()]
    return sorted(str(file.relative_to(ROOT)) for file in found)


def read_only(root: Path) -> None:
    """As `readOnlyRootFilesystem` makes it: nobody may write, whoever owns it."""
    for path in (root, *root.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & 0o555)


def writable(root: Path) -> None:
    """Again, so that it can be removed."""
    for path in (root, *root.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
