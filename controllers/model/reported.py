"""What the conditions of a claim report, as values: the annotation `labels.REPORTED`, for the next pass and leader.

Messages are for people, and no rule reads them. The annotation is written after the conditions, only once one of them
reports something that is to be known later. One that is missing or cannot be decoded states nothing.

Wire format: `{"overdue":["Launched"],"failure":{"reason":"QuotaExceeded","message":"...","exhausted":true}}`.
"""

from typing import Annotated

import msgspec

from cloudprovider.errors import Scope
from provisioner.api import labels
from provisioner.api.nodeclaim import NodeClaim

# Users can change annotations, and Azure demands no longer delay.
LONGEST_SECONDS = 3600.0
# What every offering needs, and the cluster or its subnet lacks.
OF_CLUSTER = ("cluster", "subnet")


class LaunchFailure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why the offerings of a claim are unavailable. `exhausted`: each of them has failed for want of capacity.

    `scope` is what lacks capacity, `after` the delay in seconds before a retry.
    """

    reason: str
    message: str
    scope: Scope = "size"
    after: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_SECONDS)] | None = None
    exhausted: bool = False


class Reported(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """`overdue`: the types of the conditions that report a passed deadline.

    `failure`: of Launched while no offering is available; `first_choice`: the reason for which the first offering
    failed, while another one is created. `suspended_image`: the node image whose machines NodeHealthy reports as kept.
    `fault`: the cause by which Initialized blames the machine for missing GPUs.
    """

    overdue: tuple[str, ...] = ()
    failure: LaunchFailure | None = None
    first_choice: str = ""
    suspended_image: str | None = None
    fault: str = ""


NOTHING = Reported()


def reported(claim: NodeClaim) -> Reported:
    """What is known of the reports of this claim."""
    text = claim.metadata.annotations.get(labels.REPORTED, "")
    if not text:
        return NOTHING
    try:
        return msgspec.json.decode(text, type=Reported)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return NOTHING
