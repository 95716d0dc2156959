"""Recent repairs, as one leader leaves them to the next.

Wire format: the Lease's annotation `labels.RECENT_REPAIRS`, whose value is `[{"claimUID":"5e3c…","size":"Standard_…",
"image":"AKSUbuntu-…","stage":"NotRegistered","owner":"NodePool gpu","at":"2026-03-01T13:00:00Z"}]`.
"""

from datetime import datetime
from typing import Annotated

import msgspec

# Of machines that have in common what no node image explains.
ANY_IMAGE = "*"


class RepairStage(msgspec.Struct, frozen=True, kw_only=True):
    """What machines have in common that fail in the same way: size, node image ("": unknown; `ANY_IMAGE`) and group of
    signals.

    `young`: the machine failed soon after its creation, or was never usable.
    """

    size: str
    image: str
    stage: str
    young: bool = True

    def has_image(self, image: str) -> bool:
        """Whether a machine with this node image is one of them."""
        return self.image in (ANY_IMAGE, image)

    def is_alike(self, other: "RepairStage") -> bool:
        """Whether machines failed in the same way, at whatever age."""
        return (self.size, self.image, self.stage) == (other.size, other.image, other.stage)


class RecentRepair(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`claim_uid`: the claim that was deleted, of this `owner`, which creates another ("": none); `at`: when.

    `owner_only`: a machine of another owner was usable since, so that the repair counts for its own owner only.
    `lived`: the age of the machine in seconds, 0 if it is not known; `ended_by`: the claim of a newer machine that
    became nearly as old, "" if there is none.
    """

    claim_uid: str = msgspec.field(name="claimUID")
    size: str
    image: str
    stage: str
    young: bool = True
    owner: str = ""
    owner_only: bool = msgspec.field(name="ownerOnly", default=False)
    lived: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    ended_by: str = msgspec.field(name="endedBy", default="")
    at: Annotated[datetime, msgspec.Meta(tz=True)]

    @property
    def of(self) -> RepairStage:
        """What other machines have to share with this one."""
        return RepairStage(size=self.size, image=self.image, stage=self.stage, young=self.young)


def encode(repairs: tuple[RecentRepair, ...]) -> str:
    """The annotation's value."""
    return msgspec.json.encode(repairs).decode()


def decode(text: str) -> tuple[RecentRepair, ...] | None:
    """The repairs in an annotation's value; None if the value is invalid."""
    try:
        return msgspec.json.decode(text, type=tuple[RecentRepair, ...])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
