"""Machines of static NodePools."""

from datetime import timedelta
from typing import Any

import msgspec

from controllers.nodepool.static_capacity import Replica
from tests.unit.builders import BORN, claim

READY = ("Launched", "Registered", "Initialized", "Ready")


def replica(
    name: str, *, ready: bool = True, deleting: bool = False, replaced: bool = False, age: int = 0, **known: Any
) -> Replica:
    """A machine that is `age` minutes old."""
    up = (*(READY if ready else ()), *(("DisruptionReason",) if replaced else ()))
    made = claim(name=name, uid=name, up=up, deleting=deleting)
    meta = msgspec.structs.replace(made.metadata, creation_timestamp=BORN - timedelta(minutes=age))
    return Replica(claim=msgspec.structs.replace(made, metadata=meta), **known)
