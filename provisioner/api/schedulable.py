"""The fields of a Pod that scheduling uses; others are dropped when decoding.

Source: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/.
"""

from collections.abc import Mapping

import msgspec

from .deviceclaim import ClaimName
from .meta import EMPTY, ObjectMeta, Struct, Time
from .pod import Toleration, Volume
from .requirements import Requirement

Quantities = Mapping[str, str | int | float]


class LabelSelector(Struct, frozen=True, kw_only=True):
    match_labels: Mapping[str, str] = EMPTY
    match_expressions: tuple[Requirement, ...] = ()


class NodeSelectorTerm(Struct, frozen=True, kw_only=True):
    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeSelector(Struct, frozen=True, kw_only=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredNodeTerm(Struct, frozen=True, kw_only=True):
    weight: int = 1
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Struct, frozen=True, kw_only=True):
    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredNodeTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Struct, frozen=True, kw_only=True):
    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class PreferredPodTerm(Struct, frozen=True, kw_only=True):
    weight: int = 1
    pod_affinity_term: PodAffinityTerm


class PodAffinity(Struct, frozen=True, kw_only=True):
    """Pod affinity or pod anti-affinity."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[PreferredPodTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Struct, frozen=True, kw_only=True):
    node_affinity: NodeAffinity = NodeAffinity()
    pod_affinity: PodAffinity = PodAffinity()
    pod_anti_affinity: PodAffinity = PodAffinity()


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
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class Container(Struct, frozen=True, kw_only=True):
    resources: Resources = Resources()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""


class SchedulingGate(Struct, frozen=True, kw_only=True):
    name: str = ""


class PodResourceClaim(Struct, frozen=True, kw_only=True):
    """Devices that are allocated by dynamic resource allocation: of a claim, or of a template for one of its own."""

    name: str = ""
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class ClaimStatus(Struct, frozen=True, kw_only=True):
    """The claim that was created from a template for the pod."""

    name: str = ""
    resource_claim_name: str = ""


class SchedulablePodSpec(Struct, frozen=True, kw_only=True):
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
    volumes: tuple[Volume, ...] = ()
    priority: int | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()


class PodCondition(Struct, frozen=True, kw_only=True):
    type: str
    status: str = ""
    reason: str = ""


class SchedulablePodStatus(Struct, frozen=True, kw_only=True):
    """`nominated_node_name`: the Node on which kube-scheduler makes room for the pod by preemption."""

    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()
    nominated_node_name: str = ""
    start_time: Time | None = None
    resource_claim_statuses: tuple[ClaimStatus, ...] = ()


class SchedulablePod(Struct, frozen=True, kw_only=True):
    api_version: str = "v1"
    kind: str = "Pod"
    metadata: ObjectMeta = ObjectMeta()
    spec: SchedulablePodSpec = SchedulablePodSpec()
    status: SchedulablePodStatus = SchedulablePodStatus()

    @property
    def name(self) -> str:
        """`namespace/name`."""
        return f"{self.metadata.namespace or 'default'}/{self.metadata.name}"

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
        """What its devices are claimed by."""
        namespace = self.metadata.namespace or "default"
        generated = {one.name: one.resource_claim_name for one in self.status.resource_claim_statuses}
        return tuple(
            ClaimName(
                claim=f"{namespace}/{one.resource_claim_name}" if one.resource_claim_name else "",
                template=f"{namespace}/{one.resource_claim_template_name}" if one.resource_claim_template_name else "",
                generated=f"{namespace}/{name}" if (name := generated.get(one.name)) else "",
            )
            for one in self.spec.resource_claims
        )


class PodTemplate(Struct, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: SchedulablePodSpec = SchedulablePodSpec()


class DaemonSetSpec(Struct, frozen=True, kw_only=True):
    template: PodTemplate = PodTemplate()


class DaemonSet(Struct, frozen=True, kw_only=True, weakref=True):
    api_version: str = "apps/v1"
    kind: str = "DaemonSet"
    metadata: ObjectMeta = ObjectMeta()
    spec: DaemonSetSpec = DaemonSetSpec()
