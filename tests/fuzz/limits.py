"""Runs a Python module in a process that is killed when it holds more memory than the chart allows."""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).parents[2]
POLL_SECONDS = 0.02
# A stalled pass ends with this: CPU seconds for hours of virtual time.
CPU_SECONDS = 600
MIB = 1024 * 1024


class Outcome(NamedTuple):
    """`ended`: ok, OOMKilled, stalled or failed. `result`: the last line of the output, if it is JSON."""

    ended: str
    peak_mib: int
    result: dict[str, Any]
    output: str


def chart_limit_mib() -> int:
    """`controller.resources.limits.memory` of the chart's values."""
    values = yaml.safe_load((ROOT / "charts" / "gpu-provisioner" / "values.yaml").read_text())
    return int(str(values["controller"]["resources"]["limits"]["memory"]).removesuffix("Mi"))


def run(arguments: list[str], *, limit_mib: int | None = None, cpu_seconds: int = CPU_SECONDS) -> Outcome:
    """Run `python -m` with these arguments from the root of the repository."""
    limit = chart_limit_mib() if limit_mib is None else limit_mib

    def bounded() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 5))
        # Protects the machine between two looks; address space is not resident memory.
        resource.setrlimit(resource.RLIMIT_AS, (4 * limit * MIB, 4 * limit * MIB))

    with tempfile.TemporaryFile("w+") as out:
        options: Any = {"stdout": out, "stderr": subprocess.STDOUT, "cwd": ROOT, "preexec_fn": bounded}
        child = subprocess.Popen([sys.executable, "-m", *arguments], **options)
        ended, peak = "", 0
        while child.poll() is None:
            peak = max(peak, peak_mib(child.pid))
            if peak > limit:
                ended = "OOMKilled"
                child.kill()
                child.wait()
                break
            time.sleep(POLL_SECONDS)
        out.seek(0)
        text = out.read()
    stalled = child.returncode in (-9, -24)
    ended = ended or ("ok" if child.returncode == 0 else "stalled" if stalled else "failed")
    return Outcome(ended, peak, _result(text), text)


def peak_mib(pid: int) -> int:
    """The most resident memory that the process has had; 0 once it has ended."""
    try:
        return int(Path(f"/proc/{pid}/status").read_text().split("VmHWM:")[1].split()[0]) // 1024
    except (OSError, IndexError):
        return 0


def _result(text: str) -> dict[str, Any]:
    last = text.rstrip().rpartition("\n")[2]
    try:
        found = json.loads(last)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
