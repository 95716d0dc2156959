"""Equal decisions have equal places and steps in each process, whatever the order of its sets."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

# The terms of the running pods list two labels. Each pending pod has one of them, and none has both.
PROGRAM = """
import json, sys
from controllers.provisioning.solver import term_budget
from tests.unit.controllers.provisioning.cases import HOSTNAME, decide, node, pod
if sys.argv[1] != "0":
    term_budget.TERMS_MAX, term_budget.TERMS_LEAST = 0, int(sys.argv[1])
terms = [{"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"job": "a", "team": "b"}}}]
apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
running = [pod(f"r{n}", cpu="1m", labels={"run": str(n)}, affinity=apart) for n in range(40)]
nodes = [node(f"n{n:02}", "cpu-4", running=[one]) for n, one in enumerate(running)]
pods = [pod(f"p{n:03}", cpu=f"{2000 + n}m", labels={"job": "a", "team": f"t{n}"}) for n in range(20)]
pods.append(pod("last", cpu="2500m", labels={"job": "other", "team": "b"}))
found = decide(pods=pods, nodes=nodes)
print(json.dumps([sorted(found.existing.items()), [m.pods for m in found.machines], found.steps]))
"""


def decided(seed: int, budget: int) -> Any:
    """Places, machines and steps in a process with this seed; `budget`: of comparisons of a namespace, 0 as usual."""
    command = [sys.executable, "-c", PROGRAM, str(budget)]
    env = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("budget", [0, 10], ids=["budget is left", "budget is nearly used"])
def test_decisions_are_equal_in_each_process(budget: int) -> None:
    """Seeds 0 and 2 had other steps, and near the budget other machines."""
    assert decided(0, budget) == decided(1, budget) == decided(2, budget)
