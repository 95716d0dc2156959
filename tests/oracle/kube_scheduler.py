"""kube-scheduler's own filter plugins, built from its module, bind the pods of a decision to the machines it names.

They judge what `binding` judges by the code that runs in a cluster: whether each pod fits, in each of several orders.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests import gotool
from tests.cluster import assets

from .binding import orders
from .machines import Amounts, Machine, outcomes, requests
from .programs import answers
from .validity import pods_of

SOURCE = assets.TOOLS / "binder"
NO_GO = "no kube-scheduler to compare with: install Go 1.26 or newer; it is built once, in minutes"
Json = dict[str, Any]


def build(env: Mapping[str, str] = os.environ) -> Path:
    """The program, built if it does not exist yet. Raises gotool.MissingError."""
    sources = [assets.TOOLS / "go.mod", assets.TOOLS / "go.sum", *sorted(SOURCE.glob("*.go"))]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources))
    program = gotool.cache_root(env) / "binder" / digest.hexdigest()[:8] / "binder"
    if os.access(program, os.X_OK):
        return program
    return gotool.build_program(program, "./binder", folder=assets.TOOLS, missing=NO_GO)


def unbound(program: Path, scenario: Json, decision: Json, seed: int = 0) -> list[dict[str, str]]:
    """For each outcome of the decision's NodeClaims, the pods that do not fit their machine, and why."""
    return answers((str(program),), [*cases(scenario, decision, seed)])


def cases(scenario: Json, decision: Json, seed: int = 0) -> Iterator[Json]:
    """What the program reads, for each outcome of the decision's NodeClaims."""
    pods = pods_of(scenario)
    for machines in outcomes(scenario, decision, seed):
        waiting = [(one, pods[name]) for one in machines for name in one.pods]
        position = {id(pod): index for index, (_, pod) in enumerate(waiting)}
        yield {
            "namespaces": scenario["namespaces"],
            "nodes": [_node(one) for one in machines],
            "bound": [
                {**pod, "spec": {**pod["spec"], "nodeName": one.name}} for one in machines for pod in one.running
            ],
            "pending": [{"pod": pod, "node": one.name} for one, pod in waiting],
            "orders": [[position[id(pod)] for _, pod in order] for order in orders(waiting)],
        }


def _node(machine: Machine) -> Json:
    """A Node without daemon pods: what they request is no part of its room."""
    room: Amounts = machine.free.copy()
    for pod in machine.running:
        room.update(requests(pod))
    allocatable = {name: format(max(amount, 0), "f") for name, amount in room.items()}
    return {
        "metadata": {"name": machine.name, "labels": machine.labels},
        "spec": {"taints": machine.taints},
        "status": {"allocatable": allocatable, "capacity": allocatable},
    }
