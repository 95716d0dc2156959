"""What is judged of a key before its step is chosen: candidate for garbage collection, unhealthy Node, missing GPUs.

Pure functions of Facts, which carry the first sights that the passes before have remembered. The reconciler remembers
the result; `with_judgements` lays it into the Facts for `plan`.
"""

import msgspec

from controllers.garbagecollection import candidates, garbage
from controllers.model.facts import Candidate, ClusterCounts, Facts, FirstSights, Offer, Unhealthy
from controllers.model.steps import Step
from controllers.node.health import repair
from controllers.nodeclaim.lifecycle import initialization
from provisioner.api.time import shifted


def evaluate(f: Facts) -> FirstSights:
    """The judgements of this pass, each with its first sight."""
    return FirstSights(candidate=candidate(f), unhealthy=_unhealthy(f), gpu_short_since=_gpu_short_since(f))


def candidate(f: Facts) -> Candidate | None:
    """Whether this key is a candidate for removal by inference; another cause begins anew."""
    cause = candidates.candidate_cause(f)
    if cause is None:
        return None
    since = f.candidate.since if f.candidate is not None and f.candidate.cause == cause else f.loop_now
    return Candidate(cause=cause, since=since, claim_uid=candidates.claim_uid(f))


def _unhealthy(f: Facts) -> Unhealthy | None:
    """The time counts only while cluster and pool run undisturbed: a Node that was stopped needs time to return."""
    node, known = repair.unhealthy_node(f), f.unhealthy
    if node is None:
        return None
    if known is None or known.node_uid != node.uid:
        since = f.loop_now - repair.reported_seconds(f, node)
        lost = node not in f.nodes
        known = Unhealthy(node_uid=node.uid, since=since, observed_since=f.loop_now, lost=lost)
    if garbage.in_maintenance(f):
        return msgspec.structs.replace(known, since=f.loop_now, observed_since=f.loop_now, replaced_at=None)
    if known.lost and known.replaced_at is None:
        watch_left = f.policy.node_lost_watch_seconds - known.observed_age(f.loop_now)
        left = max(f.policy.node_lost_seconds - known.age(f.loop_now), watch_left)
        known = msgspec.structs.replace(known, replaced_at=shifted(f.now, left))
    return known


def _gpu_short_since(f: Facts) -> float | None:
    if not initialization.gpu_short(f):
        return None
    return f.loop_now if f.gpu_short_since is None else f.gpu_short_since


def repair_waits_for(f: Facts, seen: FirstSights) -> Step | None:
    """What the repair of an unhealthy Node waits for, the counts over all keys aside; None if it is due."""
    return repair.not_yet(msgspec.structs.replace(f, unhealthy=seen.unhealthy)) if seen.unhealthy is not None else None


def with_judgements(f: Facts, seen: FirstSights, *, counts: ClusterCounts, offers: tuple[Offer, ...] = ()) -> Facts:
    """The Facts for `plan`."""
    return msgspec.structs.replace(
        f,
        candidate=seen.candidate,
        unhealthy=seen.unhealthy,
        gpu_short_since=seen.gpu_short_since,
        counts=counts,
        offers=offers,
    )
