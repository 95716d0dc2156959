"""A plan: everything that one run does. It is written as JSON, and replays without the seed that it was drawn from.

Times are virtual seconds since the beginning of the run. All chance is drawn into the plan, so that a part of it can be
left out without a change of the others (`tests.swarm.shrink`).
"""

from pathlib import Path
from typing import Any, Literal

import msgspec

from tests.world.harness import SLOW_LEASE

TIER = "example.com/tier"
Kind = Literal["ReplicaSet", "StatefulSet", "Job", "Pod"]


class _Part(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, repr_omit_defaults=True
):
    """JSON and `repr` contain what differs from the defaults."""


class Stage(_Part, frozen=True, kw_only=True):
    """What a NodePool has instead until `until`, when a user corrects it."""

    until: float
    sizes: tuple[str, ...] = ()
    replicas: int | None = None
    labels: dict[str, str] = {}


class NodePool(_Part, frozen=True, kw_only=True):
    """`replicas`: a static one. `budget`: nodes that may be disrupted at once. `after`: of `consolidateAfter`.

    `tiers`: the values of the label TIER that it allows. `labels`: further labels of its template. `min_values`: of its
    sizes. `budgets`: further ones. `node_class`: the spec of a class of its own. `stages`: what it has before.
    `stays`: how many of its machines drift and have no other place. `expires`: after what time its machines do.
    """

    name: str
    sizes: tuple[str, ...]
    capacity: tuple[str, ...] = ("on-demand",)
    replicas: int | None = None
    budget: str = "10%"
    policy: str = "WhenEmptyOrUnderutilized"
    after: str = "30s"
    tiers: tuple[str, ...] = ()
    weight: int | None = None
    min_values: int | None = None
    labels: dict[str, str] = {}
    budgets: tuple[dict[str, Any], ...] = ()
    node_class: dict[str, Any] | None = None
    stages: tuple[Stage, ...] = ()
    stays: int = 0
    expires: str = ""


class Workload(_Part, frozen=True, kw_only=True):
    """`count` pods of one owner, from `at` on until `gone_at` (0: until the end); a Job's pod runs for `seconds`.

    `spec`: further fields of each pod's spec; `labels` and `annotations`: of each pod. `waits`: how many of its pods
    find no place on any machine, and are to be told so. `lingers`: for how many seconds each pod terminates.
    """

    at: float
    name: str
    node_pool: str
    kind: Kind = "ReplicaSet"
    count: int = 1
    gpus: int = 1
    seconds: float = 0.0
    gone_at: float = 0.0
    spec: dict[str, Any] = {}
    namespace: str = "default"
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    waits: int = 0
    lingers: float = 0.0


class Claim(_Part, frozen=True, kw_only=True):
    """A NodeClaim as KAITO creates it, from `at` on until `gone_at` (0: until the end)."""

    at: float
    name: str
    size: str
    gone_at: float = 0.0


class Event(_Part, frozen=True, kw_only=True):
    """One fault. `fault`: its name in the catalogue. `pick`: in [0, 1), which of those that can have it.

    `seconds`: for how long; it has ended before the quiet phase begins.
    """

    at: float
    fault: str
    pick: float = 0.0
    seconds: float = 0.0


class Plan(_Part, frozen=True, kw_only=True):
    """`azure`, `nodes`: fields of the simulator's settings. `policy`: fields of the controller's settings.

    `faults_seconds`: the end of the phase of faults. `facts`: how machines differ from what the program predicts, see
    `tests.swarm.facts`. `window`: how many events the API server keeps for watches. `lease`: for how long a
    controller holds the Lease and when it renews it, in seconds; a renewal each 5 s is a third of a run's requests.
    """

    seed: int
    faults_seconds: float
    azure: dict[str, Any] = {}
    nodes: dict[str, Any] = {}
    policy: dict[str, Any] = {}
    facts: dict[str, Any] = {}
    window: int = 1000
    lease: tuple[float, float] = SLOW_LEASE
    node_pools: tuple[NodePool, ...] = ()
    workloads: tuple[Workload, ...] = ()
    claims: tuple[Claim, ...] = ()
    events: tuple[Event, ...] = ()


def read(path: Path) -> Plan:
    """Raises msgspec.ValidationError, which names the field, if the file is not a plan."""
    return msgspec.json.decode(path.read_bytes(), type=Plan)


def write(path: Path, plan: Plan) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(plan), indent=2) + b"\n")
