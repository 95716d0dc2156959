"""The phase of a claim as `try` shows it: the controllers' own, computed from the claim's JSON."""

import msgspec

from controllers.planner import plan
from controllers.planner.plan import Phase
from provisioner.api.nodeclaim import NodeClaim

from .claims import Json
from .printing import Tone

TONES: dict[Phase, Tone] = {
    Phase.READY: "good",
    Phase.TERMINATED: "quiet",
    Phase.FAILED: "bad",
    Phase.NOT_READY: "bad",
}


def phase_of(claim: Json) -> Phase:
    """The phase of a claim that exists; a claim that is gone is `Phase.TERMINATED`."""
    return plan.phase_of(msgspec.convert(claim, NodeClaim))
