"""The objects that `gpu-provisioner try` writes with `-o json` and `-o yaml`, distinguished by `kind`.

`gpu-provisioner try --help` lists the kinds and their fields from here. Every object has all the fields of its kind.
Times are UTC with whole seconds; `at_seconds` is the time since the start.
"""

from collections.abc import Mapping

import msgspec


class Record(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """The base of all records."""


class StartedRecord(Record, tag="started", frozen=True, kw_only=True):
    """The first record: where the simulated API server and ARM listen."""

    kubeconfig: str
    api_server: str
    arm: str
    metrics: str


class EventRecord(Record, tag="event", frozen=True, kw_only=True):
    """An event of a claim or a pod ("" for none); `source`: Node, NodeClaim, AgentPool, Pod, ARM, Event or user."""

    at_seconds: float
    claim: str
    source: str
    text: str


class ClaimRecord(Record, tag="claim", frozen=True, kw_only=True):
    """The state of a claim after a change; it has been in `phase` since `since`.

    `price`: of its size in USD an hour, with --pods; null if it is not known.
    """

    at_seconds: float
    claim: str
    size: str
    phase: str
    since: str
    gpus_allocatable: int
    gpus_expected: int
    price: float | None


class FinishedRecord(Record, tag="finished", frozen=True, kw_only=True):
    """The last record. `stopped`: by a signal; `missing`: what was expected and not observed.

    `ready_seconds`: from the creation of each claim until it was Ready.
    """

    ok: bool
    stopped: bool
    missing: tuple[str, ...]
    ready_seconds: Mapping[str, float]
    arm_calls: int
    arm_lists: int


RECORDS: tuple[type[Record], ...] = (StartedRecord, EventRecord, ClaimRecord, FinishedRecord)


def documented() -> list[str]:
    """A line for each kind, with its fields."""
    return [f"{record.__struct_config__.tag}: {', '.join(record.__struct_fields__)}" for record in RECORDS]
