"""Claims, Nodes, pools and facts for plan tables: a healthy machine by default, changed by keyword."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from cloudprovider.interface import Cluster, Gpus, Instance, InstanceState, Offering
from controllers.model import steps
from controllers.model.diagnosis import Workloads
from controllers.model.facts import Facts, Offer
from controllers.model.policy import Policy
from controllers.model.steps import Step
from controllers.planner.plan import plan
from provisioner.api import labels
from provisioner.api.conditions import DISRUPTION_REASON, ConditionSet
from provisioner.api.meta import ObjectMeta, OwnerReference, Taint
from provisioner.api.node import Node, NodeCondition, NodeSpec, NodeStatus
from provisioner.api.nodeclaim import (
    NodeClaim,
    NodeClaimSpec,
    NodeClaimStatus,
    NodeClassReference,
    ResourceRequirements,
)
from provisioner.api.requirements import Requirement

BORN = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
NOW = BORN + timedelta(minutes=10)
KEY = "ws3f2a91c0d"
UID = "uid-1"
SIZE = "Standard_NC24ads_A100_v4"
SCALE_SET = f"aks-{KEY}-12345678-vmss"
NODE = f"{SCALE_SET}000000"
PROVIDER_ID = (
    "azure:///subscriptions/s/resourceGroups/mc_rg/providers/Microsoft.Compute/virtualMachineScaleSets"
    f"/{SCALE_SET}/virtualMachines/0"
)

KAITO_LABELS = {labels.NODEPOOL: "kaito", labels.KAITO_WORKSPACE: "w", "kaito.sh/workspacenamespace": "default"}
UP = ("Launched", "Registered", "Initialized")
COLUMNS = {labels.INSTANCE_TYPE: SIZE, labels.CAPACITY_TYPE: "on-demand"}


def claim(
    *,
    up: tuple[str, ...] = (),
    down: dict[str, str] | None = None,
    finalizers: tuple[str, ...] = (labels.FINALIZER,),
    deleting: bool = False,
    name: str = KEY,
    uid: str = UID,
    more_labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    requests: dict[str, str] | None = None,
    node_name: str = "",
    startup_taints: tuple[Taint, ...] = (),
) -> NodeClaim:
    """A KAITO claim; `up` names conditions that are True, `down` maps others to the reason of their False."""
    made = NodeClaim(
        metadata=ObjectMeta(
            name=name,
            uid=uid,
            resource_version="10",
            generation=1,
            creation_timestamp=BORN,
            deletion_timestamp=NOW - timedelta(seconds=30) if deleting else None,
            labels={**KAITO_LABELS, **(more_labels or {})},
            annotations=annotations or {},
            finalizers=finalizers,
        ),
        spec=NodeClaimSpec(
            node_class_ref=NodeClassReference(group="kaito.sh", kind="KaitoNodeClass", name="default"),
            taints=(Taint(key="sku", value="gpu", effect="NoSchedule"),),
            startup_taints=startup_taints,
            requirements=(Requirement(key=labels.INSTANCE_TYPE, operator="In", values=(SIZE,)),),
            resources=ResourceRequirements(requests=requests or {"storage": "1024Gi"}),
        ),
        status=NodeClaimStatus(node_name=node_name),
    )
    if not up and not down:
        return made
    conditions = ConditionSet.of(made, BORN)
    for name_up in up:
        conditions = conditions.set_true(name_up, BORN + timedelta(minutes=5))
    for name_down, reason in (down or {}).items():
        conditions = conditions.set(name_down, "False", reason=reason, message="because", now=BORN)
    return msgspec.structs.replace(
        made, status=NodeClaimStatus(node_name=node_name, conditions=conditions.items, provider_id="", image_id="")
    )


def with_reason(one: NodeClaim, reason: str) -> NodeClaim:
    """The NodeClaim with the condition of a command that was begun for this reason."""
    conditions = ConditionSet.of(one, NOW).set(DISRUPTION_REASON, "True", reason=reason, message=reason, now=NOW)
    return msgspec.structs.replace(one, status=msgspec.structs.replace(one.status, conditions=conditions.items))


def node(
    *,
    ready: str = "True",
    gpus: str = "1",
    registered: bool = True,
    initialized: bool = True,
    finalizers: tuple[str, ...] = (labels.FINALIZER,),
    deleting: bool = False,
    uid_label: str = UID,
    name: str = NODE,
    taints: tuple[Taint, ...] = (Taint(key="sku", value="gpu", effect="NoSchedule"),),
    more_labels: dict[str, str] | None = None,
    age_seconds: float = 600.0,
) -> Node:
    """A Ready, registered and initialized Node of the claim, its GPU allocatable."""
    owner = OwnerReference(api_version="karpenter.sh/v1", kind="NodeClaim", name=KEY, uid=uid_label)
    own = {labels.AKS_AGENTPOOL: KEY, labels.AGENTPOOL: KEY, labels.INSTANCE_TYPE: SIZE, **(more_labels or {})}
    if uid_label:
        own[labels.CLAIM_UID] = uid_label
    if registered:
        own[labels.REGISTERED] = "true"
    if initialized:
        own[labels.INITIALIZED] = "true"
    return Node(
        metadata=ObjectMeta(
            name=name,
            uid=f"node-{name}",
            resource_version="20",
            creation_timestamp=NOW - timedelta(seconds=age_seconds),
            labels=own,
            annotations={"a": "b"},
            finalizers=finalizers,
            owner_references=(owner,) if registered and uid_label else (),
            deletion_timestamp=NOW if deleting else None,
        ),
        spec=NodeSpec(provider_id=PROVIDER_ID, taints=taints),
        status=NodeStatus(
            allocatable={"cpu": "24", "nvidia.com/gpu": gpus},
            conditions=(NodeCondition(type="Ready", status=ready, reason="KubeletNotReady", last_transition_time=NOW),),
        ),
    )


def instance(
    state: InstanceState = InstanceState.RUNNING,
    *,
    uid: str = UID,
    raw_state: str = "Succeeded",
    priority: str = "Regular",
    power_state: str = "Running",
    more_labels: dict[str, str] | None = None,
    **fields: Any,
) -> Instance:
    """Our pool, running."""
    made = Instance(
        name=KEY,
        state=state,
        raw_state=raw_state,
        etag="e1",
        size=SIZE,
        priority=priority,
        power_state=power_state,
        claim_uid=uid,
        claim_name=KEY,
        label_uid=uid,
        put_time=BORN,
        labels=more_labels or {},
    )
    return msgspec.structs.replace(made, **fields)


def offer(available_in: float = 0.0, *, size: str = SIZE, failed_age: float = math.inf, **fields: Any) -> Offer:
    """An offering of the claim that may be requested, or rests after a failure."""
    offering = Offering(size=size, zone=fields.get("zone", ""))
    rests = available_in > 0 or failed_age < math.inf
    stated: dict[str, Any] = {"reason": "QuotaExceeded", "message": f"no cores for {size}"} if rests else {}
    age = min(failed_age, 1.0) if rests else math.inf
    return Offer(offering=offering, available_in=available_in, failed_age=age, failed=rests, **stated)


def facts(**fields: Any) -> Facts:
    """Facts of a running cluster, synced caches, one A100 expected; everything else as given."""
    made = Facts(
        key=KEY,
        now=NOW,
        policy=Policy(),
        gpus=Gpus(resource="nvidia.com/gpu", count=1),
        cluster=Cluster(running=True),
        absence="present" if fields.get("instance") else "unknown",
        # Without the permission, missing GPUs need no further read.
        workloads=Workloads(since=BORN, forbidden=True),
    )
    return msgspec.structs.replace(made, **fields)


def after(made: NodeClaim, *done: Step) -> NodeClaim:
    """The claim after these writes."""
    for step in done:
        if isinstance(step, steps.PatchStatus):
            made = msgspec.structs.replace(
                made, status=msgspec.structs.replace(made.status, conditions=step.conditions)
            )
        if isinstance(step, steps.PatchClaim):
            notes = {**made.metadata.annotations, **step.annotations}
            kept = {key: value for key, value in notes.items() if value is not None}
            made = msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, annotations=kept))
    return made


def written(known: Facts) -> tuple[Step, Step]:
    """The write of the conditions, and the step after it."""
    first = plan(known)
    return first, plan(msgspec.structs.replace(known, claims=(after(known.claims[0], first),)))
