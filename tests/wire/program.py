"""Runs the installed program as a process, and kubectl beside it.

A process that a test leaves behind is killed at its end; the environment has only the variables that are named here.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import monotonic, sleep

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
PROGRAM = str(BIN / "gpu-provisioner")
KUBECTL = str(BIN / "kubectl")
NO_KUBECTL_PATH = "/usr/bin:/bin"
LOOK_SECONDS = 0.05


def environment(home: Path, path: str = NO_KUBECTL_PATH, **more: str) -> dict[str, str]:
    """An environment with a home directory of its own."""
    return {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8", "TMPDIR": str(home), **more}


class RunningProgram:
    """A started program; `out` and `err` are its output so far."""

    def __init__(self, process: subprocess.Popen[bytes], home: Path) -> None:
        self.process = process
        self._home = home

    @property
    def out(self) -> str:
        return (self._home / "stdout").read_text(encoding="utf-8")

    @property
    def err(self) -> str:
        return (self._home / "stderr").read_text(encoding="utf-8")

    def until(self, text: str, within_seconds: float = 120.0) -> None:
        """Wait until its output contains this text."""
        deadline = monotonic() + within_seconds
        while text not in self.out + self.err:
            assert self.process.poll() is None, f"it ended with {self.process.returncode}\n{self.out}\n{self.err}"
            assert monotonic() < deadline, f"it never wrote {text!r}\n{self.out}\n{self.err}"
            sleep(LOOK_SECONDS)

    def end(self, number: int | None = None, within_seconds: float = 30.0) -> int:
        """Send a signal, if any, and wait for the end; returns the exit code."""
        if number is not None:
            self.process.send_signal(number)
        return self.process.wait(within_seconds)


@contextlib.contextmanager
def started(home: Path, *arguments: str, env: Mapping[str, str] | None = None) -> Iterator[RunningProgram]:
    """The program with these arguments, run from the root of the checkout; its output goes to files in `home`."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "stdout").open("wb") as out, (home / "stderr").open("wb") as err:
        process = subprocess.Popen(
            [PROGRAM, *arguments],
            cwd=ROOT,
            env=dict(env or environment(home)),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    try:
        yield RunningProgram(process, home)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def ended(
    home: Path, *arguments: str, env: Mapping[str, str] | None = None, within_seconds: float = 60.0
) -> RunningProgram:
    """The program, run to its end."""
    with started(home, *arguments, env=env) as running:
        running.end(within_seconds=within_seconds)
        return running


def kubectl(kubeconfig: Path, *arguments: str, ok: bool = True) -> str:
    """The stdout of kubectl if it succeeds, its stderr if it is expected to fail."""
    done = subprocess.run(
        [KUBECTL, *arguments],
        env=environment(kubeconfig.parent, KUBECONFIG=str(kubeconfig)),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode == 0) is ok, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout if ok else done.stderr
