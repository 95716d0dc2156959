"""The controller of NodePools as a pure function: from one NodePool to the next write.

Only NodePools that refer to an AgentPoolNodeClass are written; others are another controller's. NodeClaims are created
only for NodePools that are Ready.

Source: docs/references/karpenter.md#nodepool.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Literal

import msgspec

from cloudprovider.cloud import Cloud
from controllers.model.conditions import ConditionUpdate
from controllers.model.object_conditions import root, updated, warnings
from controllers.model.pool_steps import AnnotateNodeClaim, AnnotateNodePool, PatchNodePoolStatus, PoolStep
from provisioner.api import labels, reasons
from provisioner.api.conditions import DRIFTED, READY
from provisioner.api.field_error import FieldError
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass, is_own
from provisioner.api.nodepool import NodePool

from . import budgets, cost_limit, validation
from .cost_limit import Cost
from .hash import HASH_VERSION, hash_annotations
from .static_capacity import beyond_limit

Outcome = Literal["registered", "failed"]
# Karpenter's: of the last 4 launches, 2 failures are unhealthy.
OUTCOMES_KEPT, FAILURES_MOST = 4, 2


class NodePoolFacts(msgspec.Struct, frozen=True, kw_only=True):
    """`node_class` None: it does not exist. `outcomes`: of the last launches, oldest first, of this generation.

    `resources`: what its machines use together. `claims()`: those of its machines. `cost`: of its machines, None if it
    is not limited, or prices are not known yet.
    """

    node_pool: NodePool
    now: datetime
    node_class: AgentPoolNodeClass | None = None
    resources: Mapping[str, str]
    claims: Callable[[], Iterable[NodeClaim]] = tuple
    outcomes: tuple[Outcome, ...] = ()
    cost: Cost | None = None
    cloud: Cloud


def is_ours(pool: NodePool) -> bool:
    """Whether this controller provisions for the NodePool."""
    return is_own(pool.spec.template.spec.node_class_ref)


def errors(pool: NodePool, cloud: Cloud) -> Iterator[FieldError]:
    """The errors for which the NodePool is not Ready: of its template, its limits and its budgets."""
    yield from validation.errors(pool, cloud)
    yield from budgets.errors(pool)


def notes(pool: NodePool) -> Iterator[str]:
    """What is valid and keeps the NodePool from creating machines."""
    zero = ", ".join(f"spec.limits[{resource}]" for resource in validation.exhausted_limits(pool))
    if zero:
        yield f"{zero} is 0, so no NodeClaim is created; raise it to use this NodePool"
    elif beyond := beyond_limit(pool):
        yield beyond


def plan(f: NodePoolFacts) -> PoolStep | None:
    """The next write; None if the NodePool is another controller's, is being deleted, or is as it should be."""
    pool = f.node_pool
    if not is_ours(pool) or pool.metadata.deleting:
        return None
    wanted = hash_annotations(pool)
    if (behind := _other_version(f)) is not None:
        # Claims first: once the NodePool has the version, the hashes of its claims are compared with its own.
        kept = () if behind.condition(DRIFTED) is None else (labels.NODEPOOL_HASH,)
        annotations = {key: value for key, value in wanted.items() if key not in kept}
        return AnnotateNodeClaim(claim=behind, annotations=annotations)
    if any(pool.metadata.annotations.get(key) != value for key, value in wanted.items()):
        return AnnotateNodePool(node_pool=pool, annotations=wanted)
    valid, class_ready = _valid(f), _class_ready(f)
    updates = {reasons.VALIDATION_SUCCEEDED: valid, reasons.NODECLASS_READY: class_ready}
    updates[READY] = root(updates, *updates)
    updates[reasons.REGISTRATION_HEALTHY] = _registration_health(f)
    conditions = updated(pool.status.conditions, updates, generation=pool.metadata.generation, now=f.now)
    nodes, resources = int(f.resources["nodes"]), {**f.resources, **_cost(f)}
    generation = f.node_class.metadata.generation if f.node_class is not None else 0
    counted = (pool.status.nodes, dict(pool.status.resources), pool.status.node_class_observed_generation)
    if conditions == pool.status.conditions and counted == (nodes, resources, generation):
        return None
    # Null removes a resource that no machine has any longer.
    gone = dict.fromkeys(pool.status.resources.keys() - resources.keys())
    fields: dict[str, object] = {
        "nodes": nodes,
        "resources": {**gone, **resources},
        "nodeClassObservedGeneration": generation,
    }
    events = warnings(pool.status.conditions, conditions)
    return PatchNodePoolStatus(node_pool=pool, conditions=conditions, fields=fields, events=events)


def _cost(f: NodePoolFacts) -> dict[str, str]:
    """What its machines cost, if that is limited; as before while prices are not known."""
    if cost_limit.limit(f.node_pool) is None:
        return {}
    if f.cost is not None:
        return {labels.COST_PER_HOUR: f.cost.written}
    before = f.node_pool.status.resources.get(labels.COST_PER_HOUR)
    return {} if before is None else {labels.COST_PER_HOUR: str(before)}


def _other_version(f: NodePoolFacts) -> NodeClaim | None:
    """A claim whose hash another version computed, as long as the NodePool's is of another version too."""
    if f.node_pool.metadata.annotations.get(labels.NODEPOOL_HASH_VERSION) == HASH_VERSION:
        return None
    claims = sorted((claim for claim in f.claims() if not claim.deleting), key=lambda claim: claim.name)
    return next((c for c in claims if c.metadata.annotations.get(labels.NODEPOOL_HASH_VERSION) != HASH_VERSION), None)


def _valid(f: NodePoolFacts) -> ConditionUpdate:
    wrong = next(errors(f.node_pool, f.cloud), None)
    if wrong is not None:
        return ConditionUpdate(status="False", reason=reasons.NODEPOOL_INVALID, message=str(wrong))
    message = "; ".join(filter(None, (*notes(f.node_pool), cost_limit.note(f.node_pool, f.cost))))
    return ConditionUpdate(status="True", reason=reasons.VALIDATION_SUCCEEDED, message=message)


def _class_ready(f: NodePoolFacts) -> ConditionUpdate:
    name, found = f"AgentPoolNodeClass {f.node_pool.spec.template.spec.node_class_ref.name}", f.node_class
    if found is None:
        message = f"{name} does not exist: create it, or change spec.template.spec.nodeClassRef.name"
        return ConditionUpdate(status="False", reason=reasons.NODECLASS_NOT_FOUND, message=message)
    if found.metadata.deleting:
        message = f"{name} is being deleted: change spec.template.spec.nodeClassRef.name"
        return ConditionUpdate(status="False", reason=reasons.NODECLASS_TERMINATING, message=message)
    ready = found.condition(READY)
    if ready is None or ready.observed_generation != found.metadata.generation:
        message = f"waiting for the validation of {name}"
        return ConditionUpdate(status="False", reason=reasons.NODECLASS_READINESS_UNKNOWN, message=message)
    if ready.status != "True":
        return ConditionUpdate(status="False", reason=ready.reason, message=f"{name} is not Ready: {ready.message}")
    return ConditionUpdate(status="True", reason=reasons.NODECLASS_READY)


def _registration_health(f: NodePoolFacts) -> ConditionUpdate:
    """Unknown until a launch of this generation of NodePool and node class ended; information only."""
    recent = f.outcomes[-OUTCOMES_KEPT:]
    failures = recent.count("failed")
    if failures >= FAILURES_MOST:
        message = f"{failures} of the last {len(recent)} NodeClaims failed to launch: kubectl describe nodeclaims"
        return ConditionUpdate(status="False", reason=reasons.REGISTRATION_FAILED, message=message)
    if "registered" in recent:
        return ConditionUpdate(status="True", reason=reasons.REGISTRATION_HEALTHY)
    current = f.node_pool.condition(reasons.REGISTRATION_HEALTHY)
    seen = f.node_pool.status.node_class_observed_generation
    generation = f.node_class.metadata.generation if f.node_class is not None else 0
    kept = current is not None and current.observed_generation == f.node_pool.metadata.generation and seen == generation
    if current is not None and kept and current.status == "True":
        return ConditionUpdate(status="True", reason=current.reason, message=current.message)
    if current is not None and kept and current.status == "False":
        return ConditionUpdate(status="False", reason=current.reason, message=current.message)
    message = "no NodeClaim was launched since the NodePool or its node class changed"
    return ConditionUpdate(status="Unknown", reason=reasons.AWAITING_REGISTRATION, message=message)
