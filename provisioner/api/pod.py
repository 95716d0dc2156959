"""Pods: the one form in which all controllers and commands read them. Undeclared fields are dropped when decoding.

Neither images, commands, environments nor volumes of other kinds are declared: of a pod nothing reads them, and any
tenant may write megabytes of them. They are read of the templates of workloads only (`workload.py`). What a cache or a
list keeps of a pod is decided by its user, in a function next to it.

Source: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/,
docs/references/karpenter.md#pods.
"""

from collections.abc import Mapping

import msgspec

from .affinity import Affinity, LabelSelector
from .deviceclaim import ClaimName
from .meta import EMPTY, ObjectMeta, Struct, Time, condition_of

TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})
Quantities = Mapping[str, str | int | float]


class Toleration(Struct, frozen=True, kw_only=True):
    """`operator` is Equal (default) or Exists; an empty key with Exists tolerates everything."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class TopologySpreadConstraint(Struct, frozen=True, kw_only=True):
    topology_key: str
    max_skew: int = 1
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()


class Resources(Struct, frozen=True, kw_only=True):
    requests: Quantities = EMPTY
    limits: Quantities = EMPTY


class ContainerPort(Struct, frozen=True, kw_only=True):
    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class Container(Struct, frozen=True, kw_only=True):
    resources: Resources = Resources()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""


class ClaimedVolume(Struct, frozen=True, kw_only=True):
    claim_name: str = ""


class EphemeralVolume(Struct, frozen=True, kw_only=True):
    """A volume whose PersistentVolumeClaim is named `<pod>-<volume>`."""


class Volume(Struct, frozen=True, kw_only=True):
    """A volume of a pod; only these two kinds have a PersistentVolumeClaim."""

    name: str = ""
    persistent_volume_claim: ClaimedVolume | None = None
    ephemeral: EphemeralVolume | None = None


class SchedulingGate(Struct, frozen=True, kw_only=True):
    name: str = ""


class PodResourceClaim(Struct, frozen=True, kw_only=True):
    """Devices that are allocated by dynamic resource allocation: of a claim, or of a template for one of its own."""

    name: str = ""
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class PodSpec(Struct, frozen=True, kw_only=True):
    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    node_selector: Mapping[str, str] = EMPTY
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: Resources | None = None
    overhead: Quantities = EMPTY
    host_network: bool = False
    volumes: tuple[Volume, ...] = ()
    priority: int | None = None
    priority_class_name: str = ""
    termination_grace_period_seconds: int | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()


class ContainerWaiting(Struct, frozen=True, kw_only=True):
    reason: str = ""
    message: str = ""


class ContainerTerminated(Struct, frozen=True, kw_only=True):
    reason: str = ""
    exit_code: int = 0


class ContainerRunning(Struct, frozen=True, kw_only=True):
    started_at: Time | None = None


class ContainerState(Struct, frozen=True, kw_only=True):
    """At most one member is set; none: the container waits for an unknown reason."""

    running: ContainerRunning | None = None
    waiting: ContainerWaiting | None = None
    terminated: ContainerTerminated | None = None


class ContainerStatus(Struct, frozen=True, kw_only=True):
    name: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()


class PodCondition(Struct, frozen=True, kw_only=True):
    """Of a pod, or of a Job, whose conditions have the same fields."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class ClaimStatus(Struct, frozen=True, kw_only=True):
    """The claim that was created from a template for the pod."""

    name: str = ""
    resource_claim_name: str = ""


class PodStatus(Struct, frozen=True, kw_only=True):
    """`nominated_node_name`: the Node on which kube-scheduler makes room for the pod by preemption."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    start_time: Time | None = None
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    nominated_node_name: str = ""
    resource_claim_statuses: tuple[ClaimStatus, ...] = ()


class Pod(Struct, frozen=True, kw_only=True):
    api_version: str = "v1"
    kind: str = "Pod"
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def name(self) -> str:
        """`namespace/name`, unique in the cluster at one time."""
        return f"{self.metadata.namespace or 'default'}/{self.metadata.name}"

    def condition(self, kind: str, *statuses: str) -> PodCondition | None:
        """The condition of this type, if it has one of these statuses (any if none is given)."""
        return condition_of(self.status.conditions, kind, *statuses)

    @property
    def ended(self) -> bool:
        """Whether no container of the pod runs again."""
        return self.status.phase in TERMINAL_PHASES

    @property
    def volume_claims(self) -> tuple[str, ...]:
        """The PersistentVolumeClaims of its volumes as `namespace/name`, ephemeral ones included."""
        found = []
        for one in self.spec.volumes:
            if one.persistent_volume_claim is not None:
                found.append(f"{self.metadata.namespace or 'default'}/{one.persistent_volume_claim.claim_name}")
            elif one.ephemeral is not None:
                found.append(f"{self.name}-{one.name}")
        return tuple(dict.fromkeys(found))

    @property
    def device_claims(self) -> tuple[ClaimName, ...]:
        """What its devices are claimed by. A status without a name says that its template needs no claim."""
        namespace = self.metadata.namespace or "default"
        generated = {one.name: one.resource_claim_name for one in self.status.resource_claim_statuses}
        return tuple(
            ClaimName(
                claim=f"{namespace}/{one.resource_claim_name}" if one.resource_claim_name else "",
                template=f"{namespace}/{one.resource_claim_template_name}" if one.resource_claim_template_name else "",
                generated=f"{namespace}/{name}" if (name := generated.get(one.name)) else "",
            )
            for one in self.spec.resource_claims
            if one.resource_claim_name or generated.get(one.name) != ""
        )
