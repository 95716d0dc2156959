"""Everything known of one key, frozen, at one moment.

The key is a pool name: claims, Nodes and pools all map to it, so one plan decides all about one machine.
Promise: a plan needs nothing but Facts. Ages are seconds before `now`; `math.inf` means never.
Left to others: gathering (`reconciler.py`), judging (`ownership.py` and the rules).
"""

import math
from collections.abc import Mapping
from datetime import datetime

import msgspec

from cloudprovider.answers import Absence
from cloudprovider.interface import Cluster, Instance
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.pod import Pod

from .policy import Policy


class Gpus(msgspec.Struct, frozen=True, kw_only=True):
    """What the size promises: `count` of `resource`, known=False for sizes we have no data about."""

    resource: str = ""
    count: int = 0
    known: bool = True


def metadata_text(claim: NodeClaim) -> str:
    """What a user may still change on a claim, as one text: its spec is immutable."""
    return repr((sorted(claim.metadata.labels.items()), sorted(claim.metadata.annotations.items())))


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """The last failure of a cloud step on this key. `times` counts failures in a row; `delay` None means for good."""

    kind: str
    reason: str
    message: str
    times: int
    age: float
    delay: float | None
    uncertain: bool = False
    for_uid: str = ""
    for_metadata: str = ""

    def concerns(self, claim: NodeClaim | None) -> bool:
        """Whether this failure still speaks of that claim: of that UID, and not corrected since if it was refused."""
        if claim is None or claim.uid != self.for_uid:
            return self.for_uid == ""
        return self.for_metadata in ("", metadata_text(claim))

    @property
    def holds_for(self) -> float:
        """Seconds for which the step should not be tried again; inf if it never should."""
        return math.inf if self.delay is None else max(0.0, self.delay - self.age)


class Suspicion(msgspec.Struct, frozen=True, kw_only=True):
    """Why this key may be removed by inference, and since how many seconds that has been so."""

    cause: str
    age: float


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """What one key must know of the others."""

    pools: int = 0
    all_pools: int = 0
    creates_last_minute: int = 0
    next_create_in: float = 0.0
    place: int = 1
    waiting: int = 1
    suspects: int = 0
    braked: bool = False


class Drain(msgspec.Struct, frozen=True, kw_only=True):
    """Pods read from the Node `age` seconds ago, and what became of the evictions sent so far."""

    pods: tuple[Pod, ...] = ()
    age: float = math.inf
    evicted: frozenset[str] = frozenset()
    blocked: Mapping[str, str] = {}
    blocked_age: float = math.inf


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """`claims`: all that map to this key, the one in charge first; `nodes`: all with this pool's label.

    `refused` has the steps that the API server refuses, each with its words; one may be tried again after `refused_for`
    seconds.
    """

    key: str
    now: datetime
    policy: Policy
    claims: tuple[NodeClaim, ...] = ()
    nodes: tuple[Node, ...] = ()
    instance: Instance | None = None
    gpus: Gpus = Gpus()

    # How good the caches are.
    kube_synced: bool = True
    inventory_synced: bool = True
    inventory_age: float = 0.0
    own_write_pending: bool = False

    # The cloud's word on absence (DESIGN rule 4), and how old our fresh reads are.
    absence: Absence = "unknown"
    settles_in: float = 0.0
    proof_age: float = math.inf
    pool_read_age: float = math.inf
    claim_read_age: float = math.inf
    claim_read: NodeClaim | None = None
    nodes_known_age: float = math.inf

    cluster: Cluster | None = None
    crd_deleting: bool = False
    fleet: Fleet = Fleet()

    create_failed: Failed | None = None
    delete_failed: Failed | None = None
    read_failed: Failed | None = None
    refused: Mapping[str, str] = {}
    refused_for: float = math.inf
    suspicion: Suspicion | None = None
    gpu_short_age: float = 0.0
    drain: Drain = Drain()

    @property
    def claim(self) -> NodeClaim | None:
        """The claim in charge of this key."""
        return self.claims[0] if self.claims else None

    @property
    def cluster_running(self) -> bool:
        """Whether the managed cluster is known to run; unknown is not running, where removals are concerned."""
        return self.cluster is not None and self.cluster.running
