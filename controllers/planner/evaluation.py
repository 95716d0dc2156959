"""What is judged of a key before its step is chosen: candidate for garbage collection, unhealthy Node, missing GPUs.

Pure functions of Facts, which carry the first sights that the passes before have remembered. The reconciler remembers
the result; `with_judgements` lays it into the Facts for `plan`. `in_flight_seconds` judges how soon the key needs a
LIST.
"""

import math

import msgspec

from controllers.garbagecollection import candidates, garbage
from controllers.model.conditions import launched
from controllers.model.facts import Candidate, ClusterCounts, DeviceSight, Facts, FirstSights, Offer
from controllers.model.ownership import belongs
from controllers.model.steps import Step
from controllers.node.health import diagnosis_reads, observation, repair
from controllers.nodeclaim.lifecycle import gpu_sights
from provisioner.api.node import Node


def evaluate(f: Facts) -> FirstSights:
    """The judgements of this pass, each with its first sight."""
    devices = gpu_sights.device_sight(f)
    seen = msgspec.structs.replace(f, devices=devices)
    seen = msgspec.structs.replace(seen, gpu_short_since=gpu_sights.gpu_short_since(seen, _short_since(f, devices)))
    seen = msgspec.structs.replace(seen, diagnosis=diagnosis_reads.diagnosis(seen))
    seen = msgspec.structs.replace(seen, devices=diagnosis_reads.blamed(seen))
    return FirstSights(
        candidate=candidate(f),
        unhealthy=observation.observed(seen),
        devices=seen.devices,
        gpu_short_since=seen.gpu_short_since,
    )


def _short_since(f: Facts, devices: DeviceSight | None) -> float | None:
    """Since when devices of this Node are missing by the pass before; None if it saw none missing, or another Node.

    A lack that a setting explained says nothing about how long devices have been missing, nor does the condition of the
    claim, which is as old: the lack without that explanation begins now.
    """
    if devices is None or f.devices is None or devices.node_uid != f.devices.node_uid:
        return None
    return f.gpu_short_since if devices.misconfigured == f.devices.misconfigured else f.loop_now


def candidate(f: Facts) -> Candidate | None:
    """Whether this key is a candidate for removal by inference; another cause begins anew."""
    cause = candidates.candidate_cause(f)
    if cause is None:
        return None
    since = f.candidate.since if f.candidate is not None and f.candidate.cause == cause else f.loop_now
    return Candidate(cause=cause, since=since, claim_uid=candidates.claim_uid(f))


def repair_waits_for(f: Facts, seen: FirstSights) -> Step | None:
    """What the repair of an unhealthy Node waits for, the counts over all keys aside; None if it is due."""
    if seen.unhealthy is None:
        return None
    current = msgspec.structs.replace(
        f,
        diagnosis=diagnosis_reads.diagnosis(f),
        unhealthy=seen.unhealthy,
        devices=seen.devices,
        gpu_short_since=seen.gpu_short_since,
    )
    return repair.not_yet(current)


def with_judgements(
    f: Facts,
    seen: FirstSights,
    *,
    counts: ClusterCounts,
    offers: tuple[Offer, ...] = (),
    ordered: bool = True,
    scarce: str | None = "",
) -> Facts:
    """The Facts for `plan`."""
    return msgspec.structs.replace(
        f,
        diagnosis=diagnosis_reads.diagnosis(f),
        candidate=seen.candidate,
        unhealthy=seen.unhealthy,
        devices=seen.devices,
        gpu_short_since=seen.gpu_short_since,
        counts=counts,
        offers=offers,
        ordered=ordered,
        scarce=scarce,
    )


def in_flight_seconds(f: Facts) -> float:
    """For how long the key needs the short interval between LISTs of agent pools because of its claim or Node.

    It does while the next answer can change the plan; 0 if it does not. A claim that waits for capacity or for a user
    costs no reads (docs/references/rules.md#arm-request-budget). The inventory itself knows of pools in transition.
    """
    claim = f.claim
    if f.candidate is not None:
        return 0.0 if garbage.needs_confirmation(f) else math.inf
    if claim is None:
        return 0.0
    if claim.deleting:
        # A drain waits for pods. After it, the pool is in deletion or gone, or its DELETE failed.
        return math.inf if f.instance is None or f.delete_failed is not None else 0.0
    if launched(claim) and not claim.status.node_name:
        return math.inf
    return max((_unwell_seconds(f, node) for node in f.nodes if belongs(node, claim)), default=0.0)


def _unwell_seconds(f: Facts, node: Node) -> float:
    """A Node that is not ready: a read of its pool precedes its repair, so that no LIST is awaited after some time."""
    if node.deleting:
        return math.inf
    if node.ready:
        return 0.0
    ready = node.ready_condition
    since = ready.last_transition_time if ready is not None else None
    age = (f.now - (since or node.metadata.creation_timestamp)).total_seconds()
    return max(0.0, f.policy.repair_seconds - age)
