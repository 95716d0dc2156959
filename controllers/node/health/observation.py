"""What is observed of one machine's health: the signals that are present, each with its own first sight, and the one
whose repair is due first.

A group of signals counts from our first observation of any of them, and stops when none is present. After a restart it
counts from what claim and Node state. The time counts only while cluster and pool run undisturbed: a Node that was
stopped needs time to return.

Source: docs/references/karpenter.md#node-repair.
"""

import math
from typing import NamedTuple

from msgspec.structs import replace

from controllers.garbagecollection import garbage
from controllers.model.facts import Facts, Sight, Unhealthy
from controllers.model.recent_repairs import ANY_IMAGE, RepairStage
from controllers.model.reported import reported
from provisioner.api import labels, reasons
from provisioner.api.conditions import NODE_HEALTHY
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.repair_policy import (
    GPU_GONE,
    GPU_PARTIAL,
    NOT_READY,
    STARTING,
    RepairPolicy,
)
from provisioner.api.time import shifted

from . import limits, observed_before, signals


def observed(f: Facts) -> Unhealthy | None:
    """The health of the claim's machine; None if no signal is present. `f.unhealthy` is that of the pass before."""
    claim, node = f.claim, f.node
    if claim is None or claim.deleting or (node is None and f.live_nodes):
        return None
    found = signals.present(f, claim, node)
    if not found:
        return None
    subject = claim.uid if node is None else node.uid
    before = f.unhealthy if f.unhealthy is not None and f.unhealthy.node_uid == subject else None
    sights = _sights(f, claim, node, found, before)
    assessed = [_assessed(f, claim, node, row, sights[row.group]) for row in found]
    chosen = min(assessed, key=lambda one: _rank(f, one))
    policy, sight = chosen.row, chosen.sight
    made = replace(
        before or Unhealthy(node_uid=subject, lost=node is None and policy.signal == NOT_READY),
        since=chosen.since,
        observed_since=sight.observed_since,
        seconds_before=sight.seconds_before,
        closed_before=sight.closed_before,
        policy=policy,
        replaces=chosen.replaces,
        sights=tuple(sights.values()),
        acting=tuple(dict.fromkeys(one.row.group for one in assessed if one.acts)),
        cordon_at=min((_cordon_at(f, one) for one in assessed), default=math.inf) if node is not None else math.inf,
        only_lost_gpus=_only_lost_gpus(assessed),
        some_gpus=sight.some_gpus,
        present=tuple(row.name for row in found),
        stage=_stage(f, claim, node, chosen),
        allowed=limits.allowed(f, claim),
        disturbed=garbage.in_maintenance(f),
    )
    made = replace(made, kept=states_suspension(claim, made))
    return _with_deadline(f, made) if made.lost else made


class _Assessed(NamedTuple):
    """A row whose signal is present. `since`: that signal, and what confirms it; `acts`: it is confirmed, and its
    action is to cordon or to replace."""

    row: RepairPolicy
    sight: Sight
    since: float
    acts: bool

    @property
    def serves(self) -> bool:
        return self.row.serves or self.sight.some_gpus

    @property
    def replaces(self) -> bool:
        return self.acts and self.row.action == "Replace"


def _assessed(f: Facts, claim: NodeClaim, node: Node | None, row: RepairPolicy, sight: Sight) -> _Assessed:
    confirmed = signals.confirmed_since(f, claim, node, row)
    acts = confirmed < math.inf and row.action in ("Cordon", "Replace")
    return _Assessed(row, sight, max(sight.since, confirmed) if acts else sight.since, acts)


def _rank(f: Facts, one: _Assessed) -> tuple[bool, bool, bool, float, float, str]:
    """The row that replaces first. A machine that runs no pods does not wait for them because of another signal."""
    left = signals.seconds(f, one.row) - (f.loop_now - one.since)
    return (not one.replaces, not one.acts, one.row.works, round(left), one.row.pods_seconds, one.row.name)


def _cordon_at(f: Facts, one: _Assessed) -> float:
    """When the Node is cordoned for this row: before its repair, and at once if some of its GPUs are lost.

    By then, other Nodes with the same signal are observed too.
    """
    if not one.acts or not one.serves:
        return math.inf
    due = one.since + (0.0 if one.row.signal == GPU_PARTIAL else signals.seconds(f, one.row))
    return max(due, one.sight.observed_since + f.policy.repair_watch_seconds)


def _only_lost_gpus(assessed: list[_Assessed]) -> bool:
    """Whether all that acts is the loss of some GPUs, or a condition that counts only together with it."""
    acting = [one for one in assessed if one.acts]
    lost = [one for one in acting if one.row.signal == GPU_PARTIAL or one.sight.some_gpus]
    return bool(lost) and all(one in lost or one.row.agreement == "GpuCount" for one in acting)


def _sights(
    f: Facts, claim: NodeClaim, node: Node | None, found: tuple[RepairPolicy, ...], before: Unhealthy | None
) -> dict[str, Sight]:
    known = {sight.group: sight for sight in before.sights} if before is not None else {}
    # No pass need have run since the operation began, so the time counts from the first one after its end.
    disturbed = garbage.in_maintenance(f) or (before is not None and before.disturbed)
    sights = dict[str, Sight]()
    for row in found:
        some_gpus = signals.some_gpus(f, claim, node, row)
        if row.group in known and not disturbed and known[row.group].some_gpus is some_gpus:
            sights[row.group] = known[row.group]
            continue
        reported = signals.reported_seconds(f, claim, node, row) if before is None or _has_own_date(row) else 0.0
        since = f.loop_now if disturbed else f.loop_now - reported
        other = sights.get(row.group)
        if other is None or since < other.since:
            sights[row.group] = _first_sight(f, claim, node, row, since, new=before is None)
    return sights


def _first_sight(f: Facts, claim: NodeClaim, node: Node | None, row: RepairPolicy, since: float, *, new: bool) -> Sight:
    """`new`: this process has observed no signal of this machine before."""
    began, subject = shifted(f.now, since - f.loop_now), claim.uid if node is None else node.uid
    seconds, closed = observed_before.read(f, claim, row.group, subject, began) if new else (0.0, 0.0)
    return Sight(
        group=row.group,
        since=since,
        observed_since=f.loop_now,
        began=began,
        some_gpus=signals.some_gpus(f, claim, node, row),
        seconds_before=seconds,
        closed_before=closed,
    )


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


def _stage(f: Facts, claim: NodeClaim, node: Node | None, one: _Assessed) -> RepairStage:
    """What the machine has in common with others that fail in the same way.

    With some of its GPUs from the start, the image does not count: the size itself may have fewer than was stated.
    """
    row = one.row
    age = (one.sight.began - claim.metadata.creation_timestamp).total_seconds()
    of_node = node.metadata.labels.get(labels.AKS_IMAGE_VERSION, "") if node is not None else ""
    of_pool = f.instance.image_version if f.instance is not None else ""
    size = f.instance.size if f.instance is not None else claim.metadata.labels.get(labels.INSTANCE_TYPE, "")
    young = age <= f.policy.repair_young_seconds or row.signal in STARTING
    image = ANY_IMAGE if one.sight.some_gpus else of_node or of_pool
    return RepairStage(size=size, image=image, stage=row.group, young=young)


def states_suspension(claim: NodeClaim, made: Unhealthy) -> bool:
    """Whether the claim states that machines with this image are kept: until the image changes, or a user decides.

    Of an unknown image, too.
    """
    stated, image = claim.condition(NODE_HEALTHY, "False"), reported(claim).suspended_image
    if made.stage is None or stated is None or stated.reason != reasons.REPAIR_SUSPENDED:
        return False
    return image is None or (image == made.stage.image and image != "")
