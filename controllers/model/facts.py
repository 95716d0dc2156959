"""Everything known of one key at one moment, as one frozen value: the only input of `plan`.

The key is the name of an agent pool: claims, Nodes and pools map to it, so one plan decides everything about one
machine. Ages are in seconds before `now`, `math.inf` means never; other moments are loop times, to be compared with
`loop_now`.
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
from provisioner.api.nodeclass import AgentPoolNodeClass

from .drains import NOT_DRAINED, Drain
from .failures import CloudFailure
from .policy import Policy
from .steps import Cause


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """An offering that the claim allows. `available_in`: seconds until this claim may request it, or looks again.

    `reason` and `message` are those of the last failure that covers it, `failed_age` seconds ago; `failed`: a request
    for this very offering failed, not only one for another in the scope of that failure. `of_cluster`: the cluster
    lacks something that every offering needs. `tried`: this claim requested it, and has others left to try.
    """

    offering: Offering
    available_in: float = 0.0
    reason: str = ""
    message: str = ""
    failed_age: float = math.inf
    failed: bool = False
    of_cluster: bool = False
    tried: bool = False


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """Why this key may be removed by inference, and the loop time since which it may.

    `claim_uid`: of the claim that the machine was created for; with the key, it identifies one machine in all stages.
    """

    cause: Cause
    since: float
    claim_uid: str = ""

    def age(self, now: float) -> float:
        """Seconds since the first sight."""
        return now - self.since


Stage = Literal["Start", "End", "Error"]


class Remedy(msgspec.Struct, frozen=True, kw_only=True):
    """One Event of AKS node auto-repair: a reboot, reimage or redeploy that started, ended or failed."""

    stage: Stage
    at: datetime


class Unhealthy(msgspec.Struct, frozen=True, kw_only=True):
    """The claim's Node is not Ready since `since`; this process has observed it since `observed_since` (loop times).

    `lost`: the Node is gone; the claim says so, and by when it is replaced (`replaced_at`; None while AKS works on it).
    `remedies`: AKS's, as read at `remedies_read_at`; None if the API server does not allow to read them.
    """

    node_uid: str = ""
    since: float = 0.0
    observed_since: float = 0.0
    lost: bool = False
    replaced_at: datetime | None = None
    remedies: tuple[Remedy, ...] | None = ()
    remedies_read_at: float | None = None

    def age(self, now: float) -> float:
        """Seconds since the Node was Ready."""
        return now - self.since

    def observed_age(self, now: float) -> float:
        """Seconds since this process has observed it."""
        return now - self.observed_since

    def remedies_age(self, now: float) -> float:
        """Seconds since the remedies were read, inf if they were not."""
        return math.inf if self.remedies_read_at is None else now - self.remedies_read_at


class FirstSights(msgspec.Struct, frozen=True, kw_only=True):
    """The judgements of a key that count from their first sight: remembered from one pass to the next."""

    candidate: Candidate | None = None
    unhealthy: Unhealthy | None = None
    gpu_short_since: float | None = None


class UnhealthyCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The other unhealthy Nodes, as the repair of one Node needs them once it is due.

    `nodes`: all that were usable once; `unhealthy`: those not Ready; `simultaneous`: the most of these that became
    unhealthy within one window; `going`: those that are being replaced, except `overdue` ones, whose removal has passed
    its deadline; `place`: this Node's among the due repairs.
    """

    nodes: int = 1
    unhealthy: int = 0
    simultaneous: int = 0
    going: int = 0
    overdue: int = 0
    place: int = 1


class ClusterCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Counts over all keys. `confirmed`: an operator allowed this key's removal to pass the circuit breaker."""

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


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """`claims`: all that map to this key, the one in charge first; `nodes`: all with this pool's label.

    `kube_synced`: claims and Nodes have been listed; `kube_current`: the watches of claims, Nodes and CRDs work.
    `crd_deleting`: the claim in charge is deleted because its CRD is; `crd_known`: the CRD was read since then.
    `list_failed`: the last LIST of agent pools failed; None if it succeeded, or none was sent yet.
    `adoption_refused`: why the adoption annotated on that claim is invalid; the claim is then shown without it.

    `refused` maps the steps that the API server refuses to its messages; one of them can be tried again after
    `refused_for` seconds. `drains` are by the Node's UID.

    `candidate`, `unhealthy` and `gpu_short_since` are those of the pass before in what `observe` returns, and those of
    this pass in what `plan` gets, as are `counts` and `offers`.
    """

    key: str
    now: datetime
    policy: Policy
    loop_now: float = 0.0
    claims: tuple[NodeClaim, ...] = ()
    nodes: tuple[Node, ...] = ()
    instance: Instance | None = None
    gpus: Gpus = Gpus()

    # Of a claim that refers to an AgentPoolNodeClass. None and known: it does not exist.
    node_class: AgentPoolNodeClass | None = None
    node_class_known: bool = False

    # How current the caches are.
    kube_synced: bool = True
    kube_current: bool = True
    inventory_synced: bool = True
    list_failed: CloudFailure | None = None
    inventory_age: float = 0.0
    own_write_pending: bool = False

    # Absence of the pool (docs/references/rules.md#absence-needs-proof), and the ages of fresh reads.
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

    create_failed: CloudFailure | None = None
    delete_failed: CloudFailure | None = None
    read_failed: CloudFailure | None = None
    refused: Mapping[str, str] = {}
    refused_for: float = math.inf
    drains: Mapping[str, Drain] = {}

    candidate: Candidate | None = None
    unhealthy: Unhealthy | None = None
    gpu_short_since: float | None = None
    counts: ClusterCounts = ClusterCounts()
    offers: tuple[Offer, ...] = ()

    @property
    def claim(self) -> NodeClaim | None:
        """The claim in charge of this key."""
        return self.claims[0] if self.claims else None

    def drain_of(self, node: Node) -> Drain:
        """What is known of this Node's drain."""
        return self.drains.get(node.uid, NOT_DRAINED)

    @property
    def cluster_running(self) -> bool:
        """Whether the managed cluster is known to be running."""
        return self.cluster is not None and self.cluster.running
