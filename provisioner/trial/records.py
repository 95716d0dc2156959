"""The objects that `gpu-provisioner try -o json` prints, one on each line.

`gpu-provisioner try --help` lists the kinds and their fields from here. Every field is present in every object.
Timestamps are UTC with whole seconds; `at_seconds` counts from the start.
"""

import msgspec


class Record(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """What all lines share."""


class Begun(Record, tag="begun", frozen=True, kw_only=True):
    """First, once: where cluster and Azure answer."""

    kubeconfig: str
    api_server: str
    arm: str


class Event(Record, tag="event", frozen=True, kw_only=True):
    """Something happened: to which claim ("" for none), who did or has it (Node, NodeClaim, AgentPool, ARM, Event)."""

    at_seconds: float
    claim: str
    who: str
    text: str


class ClaimNow(Record, tag="claim", frozen=True, kw_only=True):
    """A claim's row of the table changed; it has been in `phase` since `since`."""

    at_seconds: float
    claim: str
    size: str
    phase: str
    since: str
    gpus_seen: int
    gpus_expected: int


class Ended(Record, tag="ended", frozen=True, kw_only=True):
    """Last, once, unless it is killed. `stopped`: by a signal; `missing`: what was announced and not seen."""

    ok: bool
    stopped: bool
    missing: tuple[str, ...]
    arm_calls: int
    arm_lists: int


RECORDS: tuple[type[Record], ...] = (Begun, Event, ClaimNow, Ended)


def documented() -> list[str]:
    """A line for each kind, with its fields."""
    return [f"{record.__struct_config__.tag}: {', '.join(record.__struct_fields__)}" for record in RECORDS]
