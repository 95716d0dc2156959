"""The value that a rule computes for one condition, and predicates on a claim's conditions.

Messages put the cause first. The same state always has the same message, with absolute times, so that an unchanged
state is never written again.
"""

from datetime import datetime

import msgspec

from provisioner.api.conditions import INITIALIZED, LAUNCHED, MESSAGE_BYTES, Status, truncate
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.time import utc

from .reported import NOTHING, Reported


class ConditionUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """`recheck`: seconds until time alone changes this value; `overdue`: the name of a deadline that has passed.

    `usual`: a step of a healthy life, which gets no Event. `ending`: what follows the message, and is not cut.
    `reports`: what else is to be known of this report later. `kept`: the condition stays as it is, and so do these.
    """

    status: Status
    reason: str
    message: str = ""
    recheck: float | None = None
    warning: bool = False
    usual: bool = False
    overdue: str = ""
    ending: str = ""
    reports: Reported = NOTHING
    kept: bool = False

    @property
    def text(self) -> str:
        """The message of the condition."""
        return truncate(truncate(self.message, MESSAGE_BYTES - len(self.ending.encode())) + self.ending)


def clock_text(moment: datetime) -> str:
    """A time of day for messages: UTC, whole seconds."""
    return utc(moment).strftime("%H:%M:%SZ") if moment.year > 1 else "an unknown time"


def launched(claim: NodeClaim) -> bool:
    """Whether the claim's machine ran, and no attempt has failed since."""
    return claim.condition(LAUNCHED, "True") is not None


def was_usable(claim: NodeClaim) -> bool:
    """Whether this claim was ever Initialized: the condition never returns to Unknown."""
    return claim.condition(INITIALIZED, "True", "False") is not None
