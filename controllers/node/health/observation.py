"""What is observed of one machine's health: the signals that are present, each with its own first sight, and the one
whose repair is due first.

A group of signals counts from our first observation of any of them, and stops when none is present. After a restart it
counts from what claim and Node state. The time counts only while cluster and pool run undisturbed: a Node that was
stopped needs time to return.

Source: docs/references/karpenter.md#node-repair.
"""

from msgspec.structs import replace

from controllers.garbagecollection import garbage
from controllers.model.facts import Facts, Sight, Unhealthy
from controllers.model.node_for_claim import live_nodes, node_for_claim
from controllers.model.recent_repairs import RepairStage
from provisioner.api import labels, reasons
from provisioner.api.conditions import NODE_HEALTHY
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.repair_policy import (
    GPU_GONE,
    GPU_PARTIAL,
    NOT_INITIALIZED,
    NOT_READY,
    NOT_REGISTERED,
    READINESS_TIMEOUT,
    RepairPolicy,
)
from provisioner.api.time import shifted

from . import signals

# Signals of machines that were never usable.
STARTING = (NOT_REGISTERED, NOT_INITIALIZED, READINESS_TIMEOUT)


def observed(f: Facts) -> Unhealthy | None:
    """The health of the claim's machine; None if no signal is present. `f.unhealthy` is that of the pass before."""
    claim, node = f.claim, node_for_claim(f)
    if claim is None or claim.deleting or (node is None and live_nodes(f)):
        return None
    found = signals.present(f, claim, node)
    if not found:
        return None
    subject = claim.uid if node is None else node.uid
    before = f.unhealthy if f.unhealthy is not None and f.unhealthy.node_uid == subject else None
    sights = _sights(f, claim, node, found, before)
    policy = min(found, key=lambda row: _rank(f, claim, node, row, sights[row.group]))
    sight = sights[policy.group]
    made = replace(
        before or Unhealthy(node_uid=subject, lost=node is None and policy.signal == NOT_READY),
        since=sight.since,
        observed_since=sight.observed_since,
        policy=policy,
        replaces=_replaces(f, claim, node, policy),
        sights=tuple(sights.values()),
        present=tuple(row.name for row in found),
        stage=_stage(f, claim, node, policy, sight),
    )
    made = replace(made, kept=_states_suspension(claim, made))
    return _with_deadline(f, made) if made.lost else made


def _rank(f: Facts, claim: NodeClaim, node: Node | None, row: RepairPolicy, sight: Sight) -> tuple[bool, float, str]:
    left = signals.seconds(f, row) - (f.loop_now - sight.since)
    return (not _replaces(f, claim, node, row), left, row.name)


def _replaces(f: Facts, claim: NodeClaim, node: Node | None, row: RepairPolicy) -> bool:
    return row.action == "Replace" and signals.agrees(f, claim, node, row)


def _sights(
    f: Facts, claim: NodeClaim, node: Node | None, found: tuple[RepairPolicy, ...], before: Unhealthy | None
) -> dict[str, Sight]:
    known = {sight.group: sight for sight in before.sights} if before is not None else {}
    disturbed = garbage.in_maintenance(f)
    sights = dict[str, Sight]()
    for row in found:
        if row.group in known and not disturbed:
            sights[row.group] = known[row.group]
            continue
        reported = signals.reported_seconds(f, claim, node, row) if before is None or _has_own_date(row) else 0.0
        since = f.loop_now if disturbed else f.loop_now - reported
        other = sights.get(row.group)
        if other is None or since < other.since:
            began = shifted(f.now, since - f.loop_now)
            sights[row.group] = Sight(group=row.group, since=since, observed_since=f.loop_now, began=began)
    return sights


def _has_own_date(row: RepairPolicy) -> bool:
    """Whether the signal counts from a moment that is known, whoever observes it."""
    return row.signal in (*STARTING, GPU_GONE, GPU_PARTIAL)


def _with_deadline(f: Facts, made: Unhealthy) -> Unhealthy:
    """Of a Node that is gone: by when its claim is deleted, computed once."""
    if garbage.in_maintenance(f):
        return replace(made, replaced_at=None)
    if made.replaced_at is not None:
        return made
    watch_left = f.policy.node_lost_watch_seconds - made.observed_age(f.loop_now)
    left = max(f.policy.node_lost_seconds - made.age(f.loop_now), watch_left)
    return replace(made, replaced_at=shifted(f.now, left))


def _stage(f: Facts, claim: NodeClaim, node: Node | None, row: RepairPolicy, sight: Sight) -> RepairStage | None:
    """What the machine has in common with others that fail in the same way.

    None of one that served for long, and of one whose repair a user allows whatever happened to others.
    """
    if claim.metadata.annotations.get(labels.REPAIR) == "enabled":
        return None
    age = (sight.began - claim.metadata.creation_timestamp).total_seconds()
    if age > f.policy.repair_young_seconds and row.signal not in STARTING:
        return None
    of_node = node.metadata.labels.get(labels.AKS_IMAGE_VERSION, "") if node is not None else ""
    of_pool = f.instance.image_version if f.instance is not None else ""
    size = f.instance.size if f.instance is not None else claim.metadata.labels.get(labels.INSTANCE_TYPE, "")
    return RepairStage(size=size, image=of_node or of_pool, stage=row.group)


def _states_suspension(claim: NodeClaim, made: Unhealthy) -> bool:
    """Whether the claim states that machines with this image are kept: until the image changes, or a user decides."""
    stated = claim.condition(NODE_HEALTHY, "False")
    suspended = stated is not None and stated.reason == reasons.REPAIR_SUSPENDED
    return suspended and stated is not None and made.stage is not None and made.stage.image in stated.message
