"""What every reason that the program writes means, what to look at, and what to do about it.

One row for each name of `provisioner.api.reasons` and each condition that bears it, with every status that it
comes with; a story that shows another combination fails (`tests/world/messages.py`).

    row.py          Reason, Notice
    launching.py    Launched and Ready
    refusals.py     Launched: what our own validation has against a claim
    serving.py      Registered and Initialized
    leaving.py      Drained, VolumesDetached, InstanceTerminating
    notices.py      Events that no condition carries
"""

from .launching import LAUNCHING
from .leaving import LEAVING
from .notices import NOTICES
from .refusals import REFUSALS
from .row import Notice, Reason
from .serving import SERVING

REASONS: tuple[Reason, ...] = (*LAUNCHING, *REFUSALS, *SERVING, *LEAVING)

__all__ = ["NOTICES", "REASONS", "Notice", "Reason"]
