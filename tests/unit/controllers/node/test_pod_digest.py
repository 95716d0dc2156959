"""What a drain keeps of a pod: its rules decide the same of it, and its size is bounded."""

from typing import Any

import msgspec
import pytest

from controllers.node.termination.pod_digest import VOLUMES_MAX, drained
from controllers.node.termination.pod_predicates import (
    do_not_disrupt_until,
    grace_seconds,
    has_invalid_do_not_disrupt,
    is_drainable,
    is_evictable,
    is_waiting_eviction,
    terminates_by,
    tier,
)
from provisioner.api import labels
from provisioner.api.meta import OwnerReference
from provisioner.api.pod import ClaimedVolume, EphemeralVolume, Pod, Toleration, Volume
from tests.unit.builders import NOW

from .drains import EVERYTHING, pod

OTHERS = tuple(Toleration(key=f"k{number}", operator="Exists") for number in range(5_000))
TOLERATED = Toleration(key=labels.DISRUPTED_TAINT, operator="Exists")
PODS: dict[str, Pod] = {
    "plain": pod(),
    "daemon": pod(daemon=True),
    "critical daemon": pod(critical=True, daemon=True),
    "mirror": pod(mirror=True),
    "ending": pod(going_in=20.0),
    "stuck": pod(going_in=-61.0),
    "finished": pod(phase="Succeeded"),
    "without a grace period": pod(grace=None),
    "tolerates all": pod(tolerations=EVERYTHING),
    "tolerates the taint": pod(tolerations=(*OTHERS, TOLERATED)),
    "tolerates others": pod(tolerations=OTHERS),
    "with a volume": pod(volume="data"),
    "protected": pod(annotations={labels.DO_NOT_DISRUPT: "true", "x": "y"}),
    "protected for a time": pod(annotations={labels.DO_NOT_DISRUPT: "1h30m"}),
    "no longer protected": pod(annotations={labels.DO_NOT_DISRUPT: "1m"}),
    "with an invalid note": pod(annotations={labels.DO_NOT_DISRUPT: "soon" * 1_000}),
}


def answers(one: Pod) -> tuple[Any, ...]:
    about = (is_waiting_eviction, is_drainable, is_evictable)
    return (
        *(rule(one, NOW) for rule in about),
        do_not_disrupt_until(one),
        has_invalid_do_not_disrupt(one),
        tier(one),
        grace_seconds(one),
        terminates_by(one),
        one.volume_claims,
        (one.name, one.metadata.uid, one.spec.node_name, one.metadata.unreadable),
    )


@pytest.mark.parametrize("name", PODS)
def test_rules_decide_the_same(name: str) -> None:
    """Whatever is left out of the pod."""
    assert answers(drained(PODS[name])) == answers(PODS[name])


def test_megabytes_are_left_out() -> None:
    """Labels, owners, notes, tolerations and volumes; the pod says which part of it is not known."""
    many = [f"{number:06}" for number in range(20_000)]
    made = pod(annotations={labels.DO_NOT_DISRUPT: "x" * 200_000}, tolerations=OTHERS)
    volumes = [Volume(name=one, persistent_volume_claim=ClaimedVolume(claim_name=one)) for one in many]
    owners = [OwnerReference(api_version="apps/v1", kind="DaemonSet", name=one, uid=one) for one in many]
    meta = msgspec.structs.replace(made.metadata, labels=dict.fromkeys(many, ""), owner_references=tuple(owners))
    spec = msgspec.structs.replace(made.spec, volumes=tuple(volumes))
    found = drained(msgspec.structs.replace(made, metadata=meta, spec=spec))
    assert len(msgspec.json.encode(found)) < 20_000
    assert found.metadata.unreadable == (f"spec.volumes: at most {VOLUMES_MAX} are kept of one pod",)
    assert (tier(found), has_invalid_do_not_disrupt(found)) == (1, True)


def test_volumes_without_a_claim_and_repeated_ones_do_not_count() -> None:
    """Each claim is kept once; one whose name is too long cannot exist."""
    same = [Volume(name=f"v{number}", persistent_volume_claim=ClaimedVolume(claim_name="a")) for number in range(500)]
    own = [Volume(name=f"e{number}", ephemeral=EphemeralVolume()) for number in range(3)]
    strange = [Volume(name="s", persistent_volume_claim=ClaimedVolume(claim_name="x" * 100_000)), Volume(name="none")]
    made = pod()
    spec = msgspec.structs.replace(made.spec, volumes=(*same, *own, *strange))
    found = drained(msgspec.structs.replace(made, spec=spec))
    assert found.volume_claims == ("default/a", "default/p-e0", "default/p-e1", "default/p-e2")
    assert found.metadata.unreadable == ()
