"""What a claim is at, in a word or two: a pure function of the claim, its Node and its agent pool.

Every claim is in exactly one phase, from `accepted` to `ready` on its way up and from `draining` to `gone` on
its way down; it is read off what is there, so a restart of anything changes no phase.
"""

from typing import Literal

from provisioner.simulator.azure.state import Pool
from provisioner.simulator.scene import condition, deleting

from .changes import conditions
from .claims import Json
from .printing import Tone

Phase = Literal[
    "accepted", "launching", "refused", "creating", "registering", "starting", "waiting for GPUs", "initializing",
    "ready", "not ready", "draining", "detaching", "deleting pool", "releasing", "gone",
]  # fmt: skip
TONES: dict[Phase, Tone] = {"ready": "good", "gone": "quiet", "refused": "bad", "not ready": "bad"}


def phase_of(claim: Json, node: Json | None, pool: Pool | None, *, gpus_missing: bool) -> Phase:
    """`gpus_missing`: the size promises more than the Node shows."""
    if deleting(claim):
        return _down(claim, node, pool)
    said = {c["type"]: c for c in conditions(claim)}
    launched, registered, initialized, ready = (
        said.get(kind, {}).get("status", "") for kind in ("Launched", "Registered", "Initialized", "Ready")
    )
    if ready == "True":
        return "ready"
    if launched == "False":
        return "refused"
    if launched != "True":
        if pool is not None:
            return "creating"
        return (
            "launching"
            if said.get("Launched", {}).get("reason") not in (None, "AwaitingReconciliation")
            else "accepted"
        )
    if registered != "True":
        return "registering"
    if initialized == "False":
        return "not ready"
    if node is None or condition(node, "Ready") != "True":
        return "starting"
    return "waiting for GPUs" if gpus_missing else "initializing"


def _down(claim: Json, node: Json | None, pool: Pool | None) -> Phase:
    """A Node is drained before its pool goes; what has no Node needs no drain."""
    if pool is None:
        return "releasing"
    if pool.state == "Deleting" or node is None:
        return "deleting pool"
    if condition(claim, "Drained") != "True":
        return "draining"
    return "detaching" if condition(claim, "VolumesDetached") == "Unknown" else "deleting pool"
