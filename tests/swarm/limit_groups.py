"""Groups of objects at the limits of the API server, which remain while other pods and machines need a decision.

"No object that the API server accepts may stop a LIST, a pass, or the removal of another object"
(docs/references/rules.md): each group has one such object and one that waits for the controller.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from msgspec.structs import replace

from .gpu_groups import RUNS_AT, alone
from .plan import Claim, Event, NodePool, Plan, Stage, Workload

T4_8, T4_16 = "Standard_NC8as_T4_v3", "Standard_NC16as_T4_v3"
# `int` of Python reads 4,300 digits.
DIGITS = "9" * 4_301
# The API server requires of the names of claims and volumes in references only that they are not empty.
NO_NAMES = ("a/b", "../a", "%2e%2e", "a b", "a#?b")
# An object of etcd has at most 1.5 MiB.
BYTES = 1_400_000
NOWHERE = {"nodeSelector": {"example.com/no": "such-label"}}


def digits(rng: Random, plan: Plan) -> Plan:
    """A budget of thousands of digits; the machine of another NodePool drifts."""
    stages = (Stage(until=RUNS_AT + rng.uniform(0.0, 900.0), sizes=(T4_8,)),)
    beside = NodePool(name="beside", sizes=(T4_16,), budget="100%", after="Never", stages=stages)
    pods = Workload(at=1.0, name="moves", node_pool="beside")
    return alone(plan, NodePool(name="digits", sizes=(T4_8,), budget=DIGITS), beside, workloads=(pods,))


def unnamed(rng: Random, plan: Plan) -> Plan:
    """A pod whose volume, or whose claim's volume, has a name that is none; another one waits, or its machine goes."""
    kind, name = rng.choice(("claim", "volume", "daemon")), rng.choice(NO_NAMES)
    node_pool = NodePool(name="unnamed", sizes=(T4_8,), after="Never")
    if kind == "daemon":
        # Of KAITO: it has no terminationGracePeriod.
        claim = Claim(at=1.0, name="ws", size=T4_8, gone_at=RUNS_AT)
        agent = {"name": "odd", "at": 0.0, "requests": {}, "claim": name}
        return replace(alone(plan, node_pool, daemon_sets=[agent]), claims=(claim,))
    of = "data" if kind == "volume" else name
    own = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": of}}]}
    odd = Workload(at=1.0, name="odd", node_pool="unnamed", spec=own, waits=1)
    good = Workload(at=60.0, name="good", node_pool="unnamed")
    disks: dict[str, Any] = {"data": {"zone": "westeurope-1", "bound": False, "volume": name}}
    return alone(plan, node_pool, workloads=(odd, good), volumes=disks if kind == "volume" else {})


def large(rng: Random, plan: Plan) -> Plan:
    """More bytes than fit into a page: of CRDs, or of pods that need not run, when a controller starts; another waits.

    The API server's JSON has six bytes for "<", so that one event may have 8 MiB.
    """
    node_pool = NodePool(name="large", sizes=(T4_8,), after="Never")
    good = Workload(at=900.0, name="good", node_pool="large")
    if rng.random() < 0.5:
        return alone(plan, node_pool, workloads=(good,), crds={"count": 50, "size": BYTES})
    of, count = rng.choice((("<", 12), ("x", 50)))
    fat = Workload(at=1.0, name="fat", node_pool="large", kind="Pod", count=count, gpus=0, waits=count, spec=NOWHERE)
    made = alone(plan, node_pool, workloads=(fat, good), large={"fat": {"of": of, "size": BYTES}})
    return replace(made, events=(Event(at=600.0, fault="kill"),))


GROUPS: dict[str, Callable[[Random, Plan], Plan]] = {one.__name__: one for one in (digits, unnamed, large)}
