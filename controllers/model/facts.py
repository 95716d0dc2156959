"""Everything known of one key, frozen, at one moment.

The key is a pool name: claims, Nodes and pools all map to it, so one plan decides all about one machine.
A plan needs nothing but Facts. Ages are seconds before `now`; `math.inf` means never.
"""

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Literal

import msgspec

from cloudprovider.interface import Cluster, Gpus, Instance, Offering
from cloudprovider.observations import Absence
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.pod import Pod
from provisioner.api.volume import VolumeAttachment

from .policy import Policy


def metadata_text(claim: NodeClaim) -> str:
    """What a user may still change on a claim, as one text: its spec is immutable."""
    return repr((sorted(claim.metadata.labels.items()), sorted(claim.metadata.annotations.items())))


class Unlisted(msgspec.Struct, frozen=True, kw_only=True):
    """Why the agent pools cannot be listed: the first of the failures in a row."""

    reason: str
    message: str


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """The last failure of a cloud step on this key. `times` counts failures in a row; `delay` None means for good.

    `uncertain`: what it asked for may have come about; `unanswered`: nobody said anything about it. `within`: the most
    seconds that any next try is away, however often it fails; None if there is none.
    """

    kind: str
    reason: str
    message: str
    times: int
    age: float
    delay: float | None
    uncertain: bool = False
    unanswered: bool = False
    within: float | None = None
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


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """An offering the claim allows. `holds_for`: seconds until it, or whose turn it is, should be looked at again.

    `reason` and `message` are those of the last failure that speaks of it, `failed_age` seconds ago; `of_cluster`: what
    is short is no offering, but something that the cluster lacks for all. `tried`: this claim's own attempt showed it,
    and others are left that it has not tried since.
    """

    offering: Offering
    holds_for: float = 0.0
    reason: str = ""
    message: str = ""
    failed_age: float = math.inf
    of_cluster: bool = False
    tried: bool = False


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """Why this key may be removed by inference, and since how many seconds that has been so."""

    cause: str
    age: float


Stage = Literal["Start", "End", "Error"]


class Remedy(msgspec.Struct, frozen=True, kw_only=True):
    """One Event of AKS's own node auto-repair: a reboot, reimage or redeploy that began, ended or failed."""

    stage: Stage
    at: datetime


class Unhealthy(msgspec.Struct, frozen=True, kw_only=True):
    """Since how many seconds the claim's Node has not been Ready, and for how many of them this process has watched it.

    `remedies`: AKS's, as read `remedies_age` seconds ago; None if the API server does not let us read them.
    """

    age: float
    watched: float
    remedies: tuple[Remedy, ...] | None = ()
    remedies_age: float = math.inf


class UnhealthyCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What one sick Node must know of the others, once its repair is due.

    `nodes`: all that were usable once; `sick`: those not Ready now; `struck`: the most of these that fell sick within
    one window; `going`: those being removed for it; `place`: this one's in the line of those whose repair is due.
    """

    nodes: int = 1
    unhealthy: int = 0
    simultaneous: int = 0
    going: int = 0
    place: int = 1


class ClusterCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What one key must know of the others. `confirmed`: a person lets this key's removal pass the circuit breaker."""

    pools: int = 0
    all_pools: int = 0
    nodes: int = 0
    creates_last_minute: int = 0
    next_create_in: float = 0.0
    place: int = 1
    waiting: int = 1
    candidates: int = 0
    restricted: bool = False
    confirmed: bool = False
    unhealthy_counts: UnhealthyCounts = UnhealthyCounts()


Asked = Literal["evict", "delete", "read"]


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """What was `asked` and refused, in the API server's words; for so many seconds it should not be asked again."""

    words: str
    asked: Asked = "evict"
    holds_for: float = 0.0


class Volumes(msgspec.Struct, frozen=True, kw_only=True):
    """Attachments read `age` seconds ago, or why reading failed (`unread`).

    `kept` are the PersistentVolumes that pods which stay were using then.
    """

    attachments: tuple[VolumeAttachment, ...] = ()
    kept: frozenset[str] = frozenset()
    age: float = math.inf
    unread: Held | None = None

    @property
    def known(self) -> bool:
        """Whether they have been read at all."""
        return self.age < math.inf


class Drain(msgspec.Struct, frozen=True, kw_only=True):
    """One Node's pods, read `age` seconds ago and first of all `since` seconds ago, and what became of our requests.

    `evicted`: UIDs that were asked to leave; `held`: why others were not, by UID; `had_evictable`: some pod could be
    asked to leave in this drain; `unread`: why reading failed.
    """

    pods: tuple[Pod, ...] = ()
    age: float = math.inf
    since: float = 0.0
    had_evictable: bool = False
    evicted: frozenset[str] = frozenset()
    held: Mapping[str, Held] = {}
    volumes: Volumes = Volumes()
    unread: Held | None = None

    @property
    def known(self) -> bool:
        """Whether the pods have been read at all."""
        return self.age < math.inf


NOT_DRAINED = Drain()


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """`claims`: all that map to this key, the one in charge first; `nodes`: all with this pool's label.

    `kube_synced`: claims and Nodes have been listed; `kube_current`: nothing ails the watches that keep them true.
    `crd_deleting`: the claim in charge goes because its CRD does; `crd_known`: the CRD was read since the claim goes.
    `unlisted`: why the agent pools cannot be listed, None if the last LIST was fine or is the first.
    `adoption_refused`: why the adoption asked for on that claim does not hold; it is then shown without.

    `refused` has the steps that the API server refuses, each with its words; one may be tried again after `refused_for`
    seconds. `drains` are by the Node's UID.
    """

    key: str
    now: datetime
    policy: Policy
    claims: tuple[NodeClaim, ...] = ()
    nodes: tuple[Node, ...] = ()
    instance: Instance | None = None
    gpus: Gpus = Gpus()
    offers: tuple[Offer, ...] = ()

    # How good the caches are.
    kube_synced: bool = True
    kube_current: bool = True
    inventory_synced: bool = True
    unlisted: Unlisted | None = None
    inventory_age: float = 0.0
    own_write_pending: bool = False

    # The cloud's word on absence (docs/references/rules.md#absence-needs-proof), and how old our fresh reads are.
    absence: Absence = "unknown"
    settles_in: float = 0.0
    proof_age: float = math.inf
    pool_read_age: float = math.inf
    claim_read_age: float = math.inf
    claim_read: NodeClaim | None = None
    nodes_known_age: float = math.inf
    nodes_read_age: float = math.inf
    nodes_read: tuple[Node, ...] = ()

    cluster: Cluster | None = None
    cluster_age: float = 0.0
    crd_deleting: bool = False
    crd_known: bool = True
    crd_created: datetime | None = None
    adoption_refused: str = ""
    counts: ClusterCounts = ClusterCounts()

    create_failed: Failed | None = None
    delete_failed: Failed | None = None
    read_failed: Failed | None = None
    refused: Mapping[str, str] = {}
    refused_for: float = math.inf
    candidate: Candidate | None = None
    gpu_short_age: float = 0.0
    unhealthy: Unhealthy | None = None
    drains: Mapping[str, Drain] = {}

    @property
    def claim(self) -> NodeClaim | None:
        """The claim in charge of this key."""
        return self.claims[0] if self.claims else None

    def drain_of(self, node: Node) -> Drain:
        """What is known of this Node's drain."""
        return self.drains.get(node.uid, NOT_DRAINED)

    @property
    def cluster_running(self) -> bool:
        """Whether the managed cluster is known to run; unknown is not running, where removals are concerned."""
        return self.cluster is not None and self.cluster.running
