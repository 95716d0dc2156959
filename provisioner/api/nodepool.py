"""The NodePool (`karpenter.sh/v1`): the fields that provisioning uses.

Source: docs/references/karpenter.md#nodepool.
"""

from collections.abc import Mapping

from .meta import EMPTY, Condition, ObjectMeta, Struct, Taint, TemplateMetadata, condition_of
from .nodeclaim import NodeClassReference
from .requirements import Requirement


class TemplateSpec(Struct, frozen=True, kw_only=True):
    requirements: tuple[Requirement, ...] = ()
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    node_class_ref: NodeClassReference = NodeClassReference()
    termination_grace_period: str | None = None
    expire_after: str | None = None


class NodeClaimTemplate(Struct, frozen=True, kw_only=True):
    metadata: TemplateMetadata = TemplateMetadata()
    spec: TemplateSpec = TemplateSpec()


class Budget(Struct, frozen=True, kw_only=True):
    """`nodes`: a number, or a percentage of the machines. `reasons`: those it limits, () for all.

    `schedule` (cron, UTC) and `duration` are set together: the budget is active for so long after each time.
    """

    nodes: str = "10%"
    reasons: tuple[str, ...] = ()
    schedule: str | None = None
    duration: str | None = None


class Disruption(Struct, frozen=True, kw_only=True):
    """`consolidate_after`: how long a machine is empty before it is removed, or Never.

    `consolidation_policy` None: WhenEmpty for machines with GPUs, WhenEmptyOrUnderutilized for others.
    """

    consolidate_after: str = "0s"
    consolidation_policy: str | None = None
    budgets: tuple[Budget, ...] = (Budget(),)


class NodePoolSpec(Struct, frozen=True, kw_only=True):
    """`limits` are over all machines of the pool; its key `nodes` counts machines. `replicas`: a static pool."""

    template: NodeClaimTemplate = NodeClaimTemplate()
    limits: Mapping[str, str | int | float] = EMPTY
    weight: int | None = None
    replicas: int | None = None
    disruption: Disruption = Disruption()


class NodePoolStatus(Struct, frozen=True, kw_only=True):
    """`node_class_observed_generation`: that of the node class when the registrations began to count."""

    conditions: tuple[Condition, ...] = ()
    nodes: int = 0
    resources: Mapping[str, str | int | float] = EMPTY
    node_class_observed_generation: int = 0


class NodePool(Struct, frozen=True, kw_only=True):
    api_version: str = "karpenter.sh/v1"
    kind: str = "NodePool"
    metadata: ObjectMeta = ObjectMeta()
    spec: NodePoolSpec = NodePoolSpec()
    status: NodePoolStatus = NodePoolStatus()

    @property
    def name(self) -> str:
        return self.metadata.name

    def condition(self, kind: str, *statuses: str) -> Condition | None:
        """The condition of this type, if it has one of these statuses (any if none is given)."""
        return condition_of(self.status.conditions, kind, *statuses)
