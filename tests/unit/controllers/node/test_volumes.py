"""Plan tables of volumes: which attachments are waited for, how long, and the condition."""

from datetime import timedelta

import msgspec
import pytest

from controllers.model import steps
from controllers.model.drains import Volumes
from controllers.model.failures import RequestFailure
from controllers.model.steps import DeleteInstance, ReadVolumes, Wait
from controllers.planner.plan import plan
from provisioner.api.meta import ObjectMeta
from provisioner.api.pod import EphemeralVolume, Pod, Volume
from tests.unit.builders import NODE, NOW, written

from .common import going, in_seconds
from .drains import EVERYTHING, attachment, emptying, pod, says, step


def on(*volumes: str, kept: tuple[str, ...] = ()) -> Volumes:
    return Volumes(attachments=tuple(attachment(name) for name in volumes), kept=frozenset(kept), read_at=-0.1)


HOLD = [
    ("nothing is attached", on(), False),
    ("a volume is attached", on("pv-1"), True),
    ("what is attached names no PersistentVolume", on(""), False),
    ("a pod that stays uses the volume", on("pv-1", kept=("pv-1",)), False),
    ("a pod that stays uses one of two", on("pv-1", "pv-2", kept=("pv-1",)), True),
    (
        "it is attached elsewhere",
        Volumes(attachments=(attachment("pv-1", "another-node"),), read_at=-0.1),
        False,
    ),
]


@pytest.mark.parametrize(("case", "volumes", "holds"), HOLD, ids=[row[0] for row in HOLD])
def test_attachments(case: str, volumes: Volumes, holds: bool) -> None:
    """An attachment is waited for if it can be detached before the machine is deleted."""
    assert isinstance(step(volumes=volumes), DeleteInstance) is not holds, case


def test_volume_claims_of_remaining_pods_are_read() -> None:
    """Named and ephemeral claims of pods that are not evicted; not those of other pods."""
    own = Volume(name="scratch", ephemeral=EphemeralVolume())
    agent = pod("agent", tolerations=EVERYTHING, volume="data")
    agent = msgspec.structs.replace(agent, spec=msgspec.structs.replace(agent.spec, volumes=(*agent.spec.volumes, own)))
    stuck = pod("stuck", going_in=-100.0, volume="logs")
    finished = pod("finished", phase="Succeeded", volume="results")
    found = step(agent, stuck, finished, volumes=Volumes())
    assert isinstance(found, ReadVolumes)
    assert found.claims == ("default/agent-scratch", "default/data", "default/logs")


def test_waiting_is_reported_with_names() -> None:
    """One write sets Drained to True, and VolumesDetached with the volumes."""
    known = emptying(volumes=on("pv-2", "pv-1"))
    assert says(known, "Drained") == ("True", "Drained", "")
    assert says(known, "VolumesDetached") == (
        "Unknown",
        "AwaitingVolumeDetachment",
        f"volumes are attached to Node {NODE}: pv-1; pv-2",
    )
    reported = plan(known)
    assert isinstance(reported, steps.PatchStatus)
    assert {"Drained", "VolumesDetached"} <= {c.type for c in reported.conditions}


def test_the_deadline_ends_the_wait() -> None:
    """The machine is deleted with its volumes, and the condition is Karpenter's."""
    late = going(by=in_seconds(-1))
    known = emptying(going=late, volumes=on("pv-1"))
    assert isinstance(plan(known), DeleteInstance)
    status, reason, message = says(known, "VolumesDetached")
    assert (status, reason) == ("False", "TerminationGracePeriodElapsed")
    assert "pv-1" in message


def test_the_wait_ends_at_the_deadline() -> None:
    """The wait ends at the deadline, not at the next poll."""
    known = emptying(going=going(by=in_seconds(2)), volumes=on("pv-1"), began_at=-100.0)
    known = msgspec.structs.replace(known, refused={"PatchStatus": "Invalid: no"})
    waiting = plan(known)
    assert isinstance(waiting, Wait)
    assert waiting.after == pytest.approx(2.0)


def test_volumes_that_stay_attached_are_overdue_once() -> None:
    """After six minutes the volumes are reported as overdue; nothing is deleted."""
    known = emptying(volumes=on("pv-1"))
    reported = plan(known)
    assert isinstance(reported, steps.PatchStatus)
    status = msgspec.structs.replace(known.claims[0].status, conditions=reported.conditions)
    standing = msgspec.structs.replace(known.claims[0], status=status)
    later = msgspec.structs.replace(known, claims=(standing,), now=NOW + timedelta(seconds=361))
    _, late = written(later)
    assert isinstance(late, steps.PatchClaim)
    assert late.overdue == ("detaching",)
    assert "pv-1" in says(later, "VolumesDetached")[2]
    assert "overdue" in says(later, "VolumesDetached")[2]


def test_a_failed_read_of_attachments_blocks_the_removal() -> None:
    """The failure is reported."""
    known = emptying(
        volumes=Volumes(read_failure=RequestFailure(message="403 Forbidden: no", verb="read", seconds=3.0))
    )
    assert not isinstance(plan(known), DeleteInstance)
    assert says(known, "VolumesDetached")[:2] == ("Unknown", "AwaitingVolumeDetachment")
    assert "403 Forbidden" in says(known, "VolumesDetached")[2]


def test_claim_name_of_an_ephemeral_volume() -> None:
    """It consists of the names of pod and volume."""
    own = Pod(
        metadata=ObjectMeta(name="agent", namespace="ns", uid="a"),
        spec=msgspec.structs.replace(
            pod(tolerations=EVERYTHING).spec, volumes=(Volume(name="v", ephemeral=EphemeralVolume()),)
        ),
    )
    found = step(own, volumes=Volumes())
    assert isinstance(found, ReadVolumes)
    assert found.claims == ("ns/agent-v",)
