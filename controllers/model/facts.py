"""Everything known of one key at one moment, as one frozen value: the only input of `plan`.

The key is the name of an agent pool: claims, Nodes and pools map to it, so one plan decides everything about one
machine. Ages are in seconds before `now`, `math.inf` means never; other moments are loop times, to be compared with
`loop_now`.
"""

import math
from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import Literal

import msgspec

from cloudprovider.errors import Scope
from cloudprovider.interface import Cluster, Gpus, Instance, Offering
from cloudprovider.observations import Absence
from provisioner.api.causes import Cause
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.repair_policy import NOT_READY, RepairPolicy
from provisioner.api.resourceslice import ResourceSlice

from .diagnosis import Diagnosis, Workloads
from .drains import NOT_DRAINED, Drain
from .failures import CloudFailure
from .ownership import belongs
from .policy import Policy
from .readiness import AppliedRule
from .recent_repairs import RepairStage


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """An offering that the claim allows. `available_in`: seconds until this claim may request it, or looks again.

    `reason` and `message` are those of the last failure that covers it, `failed_age` seconds ago; `failed`: a request
    for this very offering failed, not only one for another in the scope of that failure. `scope` is what lacks
    capacity, `after` the delay that the failure demands. `of_cluster`: the cluster or the subnet lacks something that
    every offering needs. `refused`: the request was refused, whatever is available.
    `tried`: this claim requested it, and has others left to try.
    """

    offering: Offering
    available_in: float = 0.0
    reason: str = ""
    message: str = ""
    failed_age: float = math.inf
    failed: bool = False
    scope: Scope = "size"
    after: float | None = None
    of_cluster: bool = False
    refused: bool = False
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


NOT_READY_FOR_TEN_MINUTES = RepairPolicy(
    signal=NOT_READY, seconds=600.0, action="Replace", agreement="None", group=NOT_READY
)
Stage = Literal["Start", "End", "Error"]


class Remedy(msgspec.Struct, frozen=True, kw_only=True):
    """One Event of AKS node auto-repair: a reboot, reimage or redeploy that started, ended or failed."""

    stage: Stage
    at: datetime


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """A group of signals is present since `since`; this process has observed it since `observed_since` (loop times).

    `began`: the former as a moment, computed once, so that messages do not change. `some_gpus`: pods may use GPUs of
    the machine, which was never usable; the loss of these is another sight. `seconds_before`: for how long the
    processes before this one observed it, and `closed_before`: for how long they saw that the Node takes no new pods.
    """

    group: str
    since: float
    observed_since: float
    began: datetime
    some_gpus: bool = False
    seconds_before: float = 0.0
    closed_before: float = 0.0


class Unhealthy(msgspec.Struct, frozen=True, kw_only=True):
    """The claim's machine is unhealthy since `since`; this process has observed it since `observed_since` (loop times).

    `policy`: of the rows whose signals are present, the one whose repair is due first, or else the first that is only
    reported; `replaces`: its action is to replace the machine, and what has to confirm the signal does. `since` is that
    of the signal or of what confirms it, whichever is later. `sights`: all groups that are present. `acting`: those of
    rows that cordon or replace. `present`: the names of all signals. `cordon_at`: the loop time at which the Node is
    cordoned, inf if it is not. `only_lost_gpus`: all that acts is the loss of some of its GPUs. `some_gpus`: it was
    never usable, and pods may use the GPUs that it has.

    `lost`: the Node is gone; the claim says so, and by when it is replaced (`replaced_at`; None while AKS works on it).
    `remedies`: AKS's, as read at `remedies_read_at`; None if the API server does not allow to read them.
    `gpu_pods`: how many pods with GPUs run on the Node, and `grace_seconds`: the longest grace period of its pods, as
    read at `gpu_pods_read_at`. `plugin_restarted`: the pod of the device plugin that was deleted.
    `seconds_before`, `closed_before`: of the sight. `stage`: its size, image and group. `allowed`: a user allows the
    repair whatever happened to others. `kept`: the claim states already that such machines are not replaced.
    `disturbed`: AKS was changing the cluster or the pool when it was last observed.
    """

    node_uid: str = ""
    since: float = 0.0
    observed_since: float = 0.0
    policy: RepairPolicy = NOT_READY_FOR_TEN_MINUTES
    replaces: bool = True
    sights: tuple[Sight, ...] = ()
    acting: tuple[str, ...] = (NOT_READY,)
    cordon_at: float = math.inf
    only_lost_gpus: bool = False
    some_gpus: bool = False
    present: tuple[str, ...] = (NOT_READY,)
    lost: bool = False
    replaced_at: datetime | None = None
    remedies: tuple[Remedy, ...] | None = ()
    remedies_read_at: float | None = None
    gpu_pods: int = 0
    grace_seconds: float = 0.0
    gpu_pods_read_at: float | None = None
    plugin_restarted: str = ""
    seconds_before: float = 0.0
    closed_before: float = 0.0
    stage: RepairStage | None = None
    kept: bool = False
    allowed: bool = False
    disturbed: bool = False

    @property
    def serves(self) -> bool:
        """Whether the machine can still run pods."""
        return self.policy.serves or self.some_gpus

    @property
    def runs_gpus(self) -> bool:
        """Whether the machine can still run pods that request GPUs."""
        return self.policy.runs_gpus or self.some_gpus

    def age(self, now: float) -> float:
        """Seconds since the machine was healthy."""
        return now - self.since

    def observed_age(self, now: float) -> float:
        """Seconds since this process has observed it."""
        return now - self.observed_since

    def remedies_age(self, now: float) -> float:
        """Seconds since the remedies were read, inf if they were not."""
        return math.inf if self.remedies_read_at is None else now - self.remedies_read_at

    def gpu_pods_age(self, now: float) -> float:
        """Seconds since the pods with GPUs were counted, inf if they were not."""
        return math.inf if self.gpu_pods_read_at is None else now - self.gpu_pods_read_at


class DeviceSight(msgspec.Struct, frozen=True, kw_only=True):
    """What the passes before have seen of the devices of a Node, and of the restarts of its kubelet.

    `seen_since`: the loop time since which this process has seen the Node Ready.
    `published`: `allocatable` was published since the last sign of a restart, which was at `restarted_at`.
    `ready_since` and `restarts_since`: the transitions of the conditions that are such signs; `was_ready`: the Node has
    been Ready before. `mig_since`: since when its MIG manager changes the partitioning, as a time and a loop time.
    `misconfigured`: a setting explains the lack of devices. `some`: pods can use some of them; `gone_since`: the loop
    time since which they can use none, after this process has seen some. `closed_since`: the loop time since which this
    process has seen that the Node takes no new pods. `at_fault`: whether the last diagnosis lays the lack on the
    machine, None without one; `blamed_since`: the loop time since which it does, after one that did not.
    """

    node_uid: str
    boot_id: str = ""
    ready: bool = False
    was_ready: bool = False
    ready_since: datetime | None = None
    restarts_since: datetime | None = None
    allocatable: int = 0
    published: bool = False
    restarted_at: float = -math.inf
    mig_since: tuple[datetime, float] | None = None
    seen_since: float | None = None
    misconfigured: bool = False
    some: bool = False
    gone_since: float | None = None
    closed_since: float | None = None
    at_fault: bool | None = None
    blamed_since: float | None = None


class FirstSights(msgspec.Struct, frozen=True, kw_only=True):
    """The judgements of a key that count from their first sight: remembered from one pass to the next."""

    candidate: Candidate | None = None
    unhealthy: Unhealthy | None = None
    devices: DeviceSight | None = None
    gpu_short_since: float | None = None


class UnhealthyCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The other unhealthy Nodes, as the repair of one Node needs them once it is due.

    `nodes`: all that were usable once; `unhealthy`: those with a signal whose action is to replace; `simultaneous`: the
    most of these that got a signal of this group within one window; `all_at_once`: those are all of several Nodes that
    worked before; `going`: those that are being replaced, except `overdue` ones, whose removal has passed its deadline;
    `place`: this Node's among the due repairs. `owner`: of KAITO, if a repair of another of its machines comes first.
    `suspended`: machines of its size and image failed in the same way, so that this one is kept. `serves`: the machine
    can still run pods, and is replaced alone. `affected`: how many had a signal of its groups within a day, 0 of
    machines that run no pods. `successor`: whose replacement is not Ready, "" if there is none.
    """

    nodes: int = 1
    unhealthy: int = 0
    simultaneous: int = 0
    all_at_once: bool = False
    going: int = 0
    overdue: int = 0
    place: int = 1
    owner: str = ""
    suspended: bool = False
    serves: bool = False
    affected: int = 0
    successor: str = ""


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


class Facts(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """`claims`: all that map to this key, the one in charge first; `nodes`: all with this pool's label.

    `kube_synced`: claims and Nodes have been listed; `kube_current`: the watches of claims, Nodes and CRDs work.
    `deleted_with_crd`: the CRD with which the claim in charge was deleted, "" if by none; `crd_known`: that was read
    since then. `crd_created`: when the youngest CRD of this machine was created.
    `list_failed`: the last LIST of agent pools failed; None if it succeeded, or none was sent yet.
    `adoption_refused`: why the adoption annotated on that claim is invalid; the claim is then shown without it.

    `refused` maps the steps that the API server refuses to its messages; one of them can be tried again after
    `refused_for` seconds. `drains` are by the Node's UID.

    `observe` returns `candidate`, `unhealthy`, `devices` and `gpu_short_since` of the previous pass. They are computed
    anew before `plan`, with `counts`, `offers`, `scarce` and `ordered`: whether the order of the offers is known.

    `scarce`: why no replacement can be created for an unhealthy machine that still runs pods with GPUs; "" if nothing
    prevents it, None if that is not known. `diagnosis`: why the Node lacks GPUs, as read last; None if it was not read,
    or may not be read.
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
    # The rules for the claim's Node, until it is initialized.
    readiness: tuple[AppliedRule, ...] = ()

    # Of all Nodes of this key, by any DRA driver. None: they are not known, because of `slices_error` if that is set.
    slices: tuple[ResourceSlice, ...] | None = None
    slices_error: str = ""

    # How current the caches are.
    kube_synced: bool = True
    kube_current: bool = True
    inventory_synced: bool = True
    list_failed: CloudFailure | None = None
    inventory_age: float = 0.0

    # Absence of the pool (docs/references/rules.md#absence-needs-proof), and the ages of fresh reads.
    absence: Absence = "unknown"
    settles_in: float = 0.0
    proof_age: float = math.inf
    pool_read_age: float = math.inf
    claim_read_age: float = math.inf
    claim_read: NodeClaim | None = None
    nodes_known_age: float = math.inf
    # Of an own write to a Node of this key whose event the watch has not delivered yet.
    node_write_age: float = math.inf
    nodes_read_age: float = math.inf
    nodes_read: tuple[Node, ...] = ()

    cluster: Cluster | None = None
    cluster_age: float = 0.0
    # Whether a Node proves that this API server is that of the managed cluster.
    cluster_confirmed: bool = True
    deleted_with_crd: str = ""
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
    devices: DeviceSight | None = None
    gpu_short_since: float | None = None
    workloads: Workloads | None = None
    diagnosis: Diagnosis | None = None
    counts: ClusterCounts = ClusterCounts()
    offers: tuple[Offer, ...] = ()
    ordered: bool = True
    scarce: str | None = ""

    @property
    def claim(self) -> NodeClaim | None:
        """The claim in charge of this key."""
        return self.claims[0] if self.claims else None

    @cached_property
    def live_nodes(self) -> tuple[Node, ...]:
        """The claim's Nodes without a deletionTimestamp.

        During a surge (AKS upgrades a pool by adding a machine) two Nodes can belong to one claim.
        """
        claim = self.claim
        return tuple(n for n in self.nodes if claim is not None and belongs(n, claim) and not n.deleting)

    @cached_property
    def node(self) -> Node | None:
        """The claim's Node, or None if there is none, or more than one and none of them is known already.

        The one in the status of the claim remains its Node while it exists.
        """
        found, claim = self.live_nodes, self.claim
        known = next((n for n in found if claim is not None and n.name == claim.status.node_name), None)
        return known or (found[0] if len(found) == 1 else None)

    @cached_property
    def unrelated_nodes(self) -> tuple[Node, ...]:
        """Nodes with this pool's label that were not created for the claim in charge."""
        claim = self.claim
        return tuple(n for n in self.nodes if claim is None or not belongs(n, claim))

    def drain_of(self, node: Node) -> Drain:
        """What is known of this Node's drain."""
        return self.drains.get(node.uid, NOT_DRAINED)

    @property
    def cluster_running(self) -> bool:
        """Whether the managed cluster is known to be running."""
        return self.cluster is not None and self.cluster.running
