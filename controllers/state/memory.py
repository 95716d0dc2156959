"""What is remembered of a key between two passes: how fresh our knowledge is, what failed, what was refused.

Nothing here matters after a restart (docs/references/rules.md#deterministic-names): losing it costs a read or a wait,
never a pool. All moments are loop times in seconds; None means never.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from cloudprovider.errors import CloudError, NoCapacity, Rejected, Retryable
from cloudprovider.interface import Failure
from controllers.model.facts import Asked, Drain, Failed, Held, Remedy, Volumes, metadata_text
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.pod import Pod
from provisioner.api.volume import VolumeAttachment

Kind = Literal["claim", "node"]

RETRY_FIRST_SECONDS, RETRY_MOST_SECONDS = 5.0, 30.0
CAPACITY_FIRST_SECONDS, CAPACITY_MOST_SECONDS = 30.0, 600.0
REJECTED_FIRST_SECONDS, REJECTED_MOST_SECONDS = 300.0, 3600.0
# An API server that has just started forbids everything for a second or two, until it has read its own roles.
FORBIDDEN_FIRST_SECONDS = 5.0


@dataclass(slots=True)
class Expectation:
    """Our last write on this key: no plan before the cache has seen it; `gone`: has lost the object."""

    kind: Kind
    name: str
    uid: str
    resource_version: str
    at: float
    gone: bool = False


@dataclass(slots=True)
class FailureMemory:
    """Failures in a row of one kind of cloud step."""

    kind: str
    reason: str
    message: str
    times: int
    at: float
    delay: float | None
    uncertain: bool
    unanswered: bool
    within: float | None
    for_uid: str
    for_metadata: str

    def as_fact(self, now: float) -> Failed:
        return Failed(
            kind=self.kind,
            reason=self.reason,
            message=self.message,
            times=self.times,
            age=now - self.at,
            delay=self.delay,
            uncertain=self.uncertain,
            unanswered=self.unanswered,
            within=self.within,
            for_uid=self.for_uid,
            for_metadata=self.for_metadata,
        )


@dataclass(slots=True)
class Refusal:
    """The API server refused a step `at` that moment: it is passed by for `seconds`, or until its object changes."""

    about: Kind
    version: str
    at: float
    seconds: float
    said: str = ""


@dataclass(slots=True)
class UnhealthyMemory:
    """A Node that is not Ready: since when, since when we look, and what AKS was last read to do about it."""

    node_uid: str
    since: float
    watched_at: float
    remedies: tuple[Remedy, ...] | None = ()
    remedies_read_at: float | None = None


@dataclass(slots=True)
class HeldMemory:
    """Something that the API server would not do, `times` in a row, last `at` that moment."""

    words: str
    asked: Asked
    times: int
    at: float
    seconds: float

    def as_fact(self, now: float) -> Held:
        return Held(words=self.words, asked=self.asked, holds_for=max(0.0, self.at + self.seconds - now))


@dataclass(slots=True)
class DrainMemory:
    """One Node's drain, `began_at` its first reading."""

    began_at: float
    pods: tuple[Pod, ...] = ()
    read_at: float | None = None
    had_evictable: bool = False
    evicted: frozenset[str] = frozenset()
    held: dict[str, HeldMemory] = field(default_factory=dict)
    attachments: tuple[VolumeAttachment, ...] = ()
    kept: frozenset[str] = frozenset()
    attached_at: float | None = None
    unread: HeldMemory | None = None
    attached_unread: HeldMemory | None = None

    def as_fact(self, now: float) -> Drain:
        volumes = Volumes(
            attachments=self.attachments,
            kept=self.kept,
            age=age(self.attached_at, now),
            unread=self.attached_unread.as_fact(now) if self.attached_unread is not None else None,
        )
        return Drain(
            pods=self.pods,
            age=age(self.read_at, now),
            since=now - self.began_at,
            had_evictable=self.had_evictable,
            evicted=self.evicted,
            held={uid: held.as_fact(now) for uid, held in self.held.items()},
            volumes=volumes,
            unread=self.unread.as_fact(now) if self.unread is not None else None,
        )


@dataclass(slots=True)
class CrdRead:
    """When somebody deleted the NodeClaim CRD, as read for this deleting claim; None: nobody has."""

    for_uid: str = ""
    deleted_at: datetime | None = None


@dataclass(slots=True)
class Memory:
    """One key's memory."""

    expectation: Expectation | None = None
    create_failed: FailureMemory | None = None
    delete_failed: FailureMemory | None = None
    read_failed: FailureMemory | None = None
    restriction_reported: bool = False
    failed_etag: str = ""
    cause: tuple[datetime | None, Failure] | None = None
    versions: Mapping[str, str] = field(default_factory=lambda: {"claim": "", "node": ""})
    refused: dict[str, Refusal] = field(default_factory=dict)
    refusals: int = 0
    behind: int = 0
    forbidden: dict[str, int] = field(default_factory=dict)
    candidate_seen: tuple[str, float] | None = None
    gpu_short_at: float | None = None
    unhealthy: UnhealthyMemory | None = None
    pool_read_at: float | None = None
    claim_read_at: float | None = None
    claim_read: NodeClaim | None = None
    crd_read: CrdRead = field(default_factory=CrdRead)
    nodes_known_at: float | None = None
    nodes_read_at: float | None = None
    nodes_read: tuple[Node, ...] = ()
    proof_at: float | None = None
    drains: dict[str, DrainMemory] = field(default_factory=dict)
    # What was told of an object (its UID) for a reason: the words, and when.
    told: dict[tuple[str, str], tuple[str, float]] = field(default_factory=dict)


def age(at: float | None, now: float) -> float:
    """Seconds since that moment, inf if it never was."""
    return math.inf if at is None else now - at


def _bounds(kind: str) -> tuple[float, float]:
    """The shortest and the longest wait after a failure of that kind, in seconds."""
    return {
        NoCapacity.kind: (CAPACITY_FIRST_SECONDS, CAPACITY_MOST_SECONDS),
        Rejected.kind: (REJECTED_FIRST_SECONDS, REJECTED_MOST_SECONDS),
    }.get(kind, (RETRY_FIRST_SECONDS, RETRY_MOST_SECONDS))


def backoff(kind: str, times: int, *, after: float | None, final: bool = False) -> float | None:
    """Seconds before the step is tried again after `times` failures in a row; None: never, until the claim changes.

    What the cloud asked for (`after`) is obeyed, and doubles like everything else when it does not help.
    """
    if final:
        return None
    first, most = _bounds(kind)
    if after is not None and kind == Retryable.kind:
        return after
    grown = (after if after is not None else first) * 2.0 ** min(times - 1, 16)
    return min(grown, max(most, after or 0.0))


def remember_failure(
    before: FailureMemory | None, error: CloudError, *, now: float, claim: NodeClaim | None
) -> FailureMemory:
    """The failure, counted on from the last one if it is of the same kind and for the same claim.

    What is refused as it stands may be corrected: then labels and annotations are remembered with it.
    """
    for_uid = claim.uid if claim is not None else ""
    same = before is not None and before.kind == error.kind and before.for_uid == for_uid
    times = before.times + 1 if before is not None and same else 1
    final = isinstance(error, Rejected) and error.final
    unanswered = error.status == 0 or error.status >= 500 or error.status == 408
    conflict = isinstance(error, Retryable) and error.conflict
    return FailureMemory(
        kind=error.kind,
        reason=error.reason,
        message=error.message,
        times=times,
        at=now,
        delay=backoff(error.kind, times, after=error.after, final=final),
        uncertain=(unanswered or conflict) and not final,
        unanswered=unanswered and not final,
        within=None if final else max(_bounds(error.kind)[1], error.after or 0.0),
        for_uid=for_uid,
        for_metadata=metadata_text(claim) if claim is not None and isinstance(error, Rejected) else "",
    )
