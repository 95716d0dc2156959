"""Runs a program that answers each line of standard input, a scenario, by one line."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
OURS = (str(Path(sys.executable).with_name("gpu-provisioner")), "schedule", "--json-lines")


def answers(command: tuple[str, ...], scenarios: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The answers to the scenarios, in their order."""
    lines = "".join(json.dumps(scenario) + "\n" for scenario in scenarios)
    result = subprocess.run(command, input=lines, check=False, capture_output=True, text=True, cwd=ROOT)
    assert result.returncode == 0, result.stderr[-2000:]
    return [json.loads(line) for line in result.stdout.splitlines()]
