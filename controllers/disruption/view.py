"""What consolidation reads: the observed cluster, the machines of the NodePools, and what their budgets allow."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from controllers.provisioning.instances import InstanceTypes
from controllers.provisioning.observed import Observed
from provisioner.api.meta import EMPTY

from .machine import Machine

# A machine is divided into several cheaper ones if they save at least this part of its price.
SPLIT_MARGIN = 0.2


class View(msgspec.Struct, frozen=True, kw_only=True):
    """`machines`: all of the NodePools in `observed`, each with its pods as in `observed`.

    `budgets`: how many more machines of each NodePool may be disrupted as Underutilized, None without a limit; a
    NodePool that is missing allows none. `split_margin`: the part of the old prices that a command with several
    replacements saves at least. `waiting`: the machines that are not replaced for now because a replacement was undone,
    and why, by the UID of the NodeClaim.
    """

    observed: Observed
    types: InstanceTypes
    machines: Sequence[Machine]
    budgets: Mapping[str, int | None]
    now: datetime
    split_margin: float = SPLIT_MARGIN
    waiting: Mapping[str, str] = EMPTY
