"""Meaning, diagnosis and remedy of every condition reason and Event that the controller writes.

There is one row for each name of `provisioner.api.reasons` and each condition with this reason, with all its statuses.
A test in `tests/world` that writes another combination fails.

    row.py               Reason, Event
    launch.py            Ready and Launched
    validation.py        Launched: NodeClaims that fail validation
    initialization.py    Registered and Initialized
    termination.py       Drained, VolumesDetached, InstanceTerminating
    disruption.py        Drifted, Consolidatable, DisruptionReason
    health.py            NodeHealthy
    nodepools.py         NodePools and AgentPoolNodeClasses
    events.py            Events without a change of a condition
"""

from .disruption import DISRUPTION
from .events import EVENTS
from .health import HEALTH
from .initialization import INITIALIZATION
from .launch import LAUNCH
from .nodepools import NODEPOOLS
from .row import Event, Reason
from .termination import TERMINATION
from .validation import VALIDATION

REASONS: tuple[Reason, ...] = (*LAUNCH, *VALIDATION, *INITIALIZATION, *TERMINATION, *DISRUPTION, *HEALTH, *NODEPOOLS)

__all__ = ["EVENTS", "REASONS", "Event", "Reason"]
