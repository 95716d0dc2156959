"""The controller as a process of its own, and its cost as the kernel reports it.

It runs `gpu-provisioner run` of this interpreter's environment with only its settings as variables; SIGTERM ends it
with the context, and an unexpected end is an error that shows its last log lines.

Source: https://man7.org/linux/man-pages/man5/proc.5.html: `schedstat` of a task is its time on a CPU in nanoseconds;
`status` has VmRSS and VmHWM in kB.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

RUN = (str(Path(sys.executable).with_name("gpu-provisioner")), "run")
# The same program, with a thread that measures its loop.
WATCHED = (sys.executable, "-m", "tests.bench.watched")
STOP_SECONDS = 10.0
TAIL_BYTES = 4000


class Controller:
    """A running controller. `started_at` is the loop's time just before it was started."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path, started_at: float) -> None:
        self._process = process
        self._log = log
        self.started_at = started_at

    def cpu_seconds(self) -> float:
        """User and system time so far, of all live threads."""
        self.check()
        tasks = Path(f"/proc/{self._process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text(encoding="ascii").split()[0]) for task in tasks) / 1e9

    def memory_mib(self) -> tuple[float, float]:
        """Resident memory now, and its maximum since the start."""
        self.check()
        lines = Path(f"/proc/{self._process.pid}/status").read_text(encoding="utf-8").splitlines()
        status = dict(line.split(":", 1) for line in lines)
        return tuple(int(status[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))  # type: ignore[return-value]

    def check(self) -> None:
        """Raises RuntimeError if it has ended."""
        if self._process.returncode is not None:
            tail = self._log.read_bytes()[-TAIL_BYTES:].decode(errors="replace")
            raise RuntimeError(f"the controller ended with {self._process.returncode}:\n{tail}")

    def log_lines(self) -> int:
        """The number of lines in its log."""
        return self._log.read_bytes().count(b"\n")

    async def stop(self) -> None:
        """Send SIGTERM, as the kubelet does. Raises RuntimeError unless the process ends in time and with 0."""
        self.check()
        self._process.terminate()
        async with asyncio.timeout(STOP_SECONDS):
            code = await self._process.wait()
        if code:
            self.check()


@asynccontextmanager
async def run_controller(
    settings: Mapping[str, str], log: Path, command: Sequence[str] = RUN
) -> AsyncIterator[Controller]:
    """Start it with exactly these environment variables; it is stopped when the context ends."""
    started_at = asyncio.get_running_loop().time()
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            *command, env={"PATH": os.environ["PATH"], **settings}, stdout=out, stderr=out
        )
    controller = Controller(process, log, started_at)
    try:
        yield controller
        await controller.stop()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
