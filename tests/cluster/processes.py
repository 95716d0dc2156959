"""Starts, awaits and stops the programs of a control plane as child processes.

Each writes to a log file of its own; one that ends before it is ready, or is not ready in time, fails with the last
lines of its log. Nothing here is bound to the loop that started it.
"""

import asyncio
import http.client
import json
import signal
import ssl
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

READY_SECONDS = 300.0
STOP_SECONDS = 20.0
ANSWER_SECONDS = 5.0
RUN_SECONDS = 300.0
# How long a condition is waited for, in real seconds: machines differ in speed.
PATIENCE_SECONDS = 600.0
TAIL_LINES = 25
LINE_LENGTH = 300
# What a failure shows of a structured line; the log file has the rest.
SHOWN = ("time", "level", "logger", "message", "name", "step", "outcome", "why", "pool", "status", "error", "gate")


def brief(line: str) -> str:
    """A line of a log, shortened: of a JSON object the values of the keys in `SHOWN`."""
    try:
        fields = json.loads(line)
    except ValueError:
        fields = None
    if isinstance(fields, dict):
        line = " ".join(str(fields[key]) for key in SHOWN if fields.get(key) not in (None, ""))
    return line[:LINE_LENGTH]


def answers(port: int, path: str, *, trust: ssl.SSLContext | None = None, token: str = "") -> bool:
    """Whether that URL answers 200. Blocks; a server that is starting resets handshakes, which asyncio's TLS leaks."""
    link = (
        http.client.HTTPSConnection("127.0.0.1", port, timeout=ANSWER_SECONDS, context=trust)
        if trust is not None
        else http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)
    )
    try:
        link.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
        return link.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        link.close()


class Ended(NamedTuple):
    """How a program ended, and its output."""

    code: int
    out: str
    err: str


async def ran(
    command: Sequence[str], env: Mapping[str, str], cwd: Path | None = None, *, within_seconds: float = RUN_SECONDS
) -> Ended:
    """Run a program to its end in pipes, without a terminal; `env` is all of its environment."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env=env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(within_seconds):
        out, err = await process.communicate()
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())


class Program:
    """One child process, which can be stopped and started again with the same command line.

    `env` is all of its environment; None for this process's.
    """

    def __init__(self, name: str, command: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.log = log
        self._command = command
        self._env = env
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Raises RuntimeError if it was never started."""
        if self._process is None:
            raise RuntimeError(f"{self.name} was not started")
        return self._process.pid

    @property
    def code(self) -> int | None:
        """The exit code, None while it runs; negative for a signal."""
        return self._process.poll() if self._process is not None else None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self._env
            )

    async def ready(self, probe: Callable[[], bool], within_seconds: float = READY_SECONDS) -> None:
        """Wait until `probe`, which may block, returns True. Raises AssertionError with the end of the log if it does
        not.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_seconds
        while not await asyncio.to_thread(probe):
            assert self.running, f"{self.name} ended with {self.code}:\n{self.tail()}"
            assert loop.time() < deadline, f"{self.name} is not ready after {within_seconds:g} s:\n{self.tail()}"
            await asyncio.sleep(0.1)

    def kill(self) -> None:
        """Send SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> int | None:
        """Send SIGTERM, and SIGKILL if it does not end; returns the exit code."""
        self._end(signal.SIGTERM)
        return self.code

    def tail(self) -> str:
        """The last lines of its log."""
        return "\n".join(brief(line) for line in self._lines()[-TAIL_LINES:])

    def lines_about(self, name: str) -> list[str]:
        """The last lines of its log that contain this name."""
        return [brief(line) for line in self._lines() if name in line][-TAIL_LINES:]

    def _lines(self) -> list[str]:
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        return text.splitlines()

    def _end(self, number: signal.Signals) -> None:
        if self._process is None or not self.running:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
