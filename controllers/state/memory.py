"""What is remembered of one key between two passes: failures, refusals, fresh reads, first sights.

Nothing here matters after a restart (docs/references/rules.md#deterministic-names): its loss costs a read or a wait,
never an agent pool. All moments are loop times in seconds; None means never.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from cloudprovider.errors import CloudError, NoCapacity, Rejected, Retryable
from cloudprovider.interface import Failure
from controllers.model.diagnosis import Workloads
from controllers.model.drains import Drain
from controllers.model.facts import FirstSights
from controllers.model.failures import CloudFailure, metadata_digest, version_of
from controllers.model.results import Kind
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass

RETRY_FIRST_SECONDS, RETRY_MOST_SECONDS = 5.0, 30.0
CAPACITY_FIRST_SECONDS, CAPACITY_MOST_SECONDS = 30.0, 300.0
REJECTED_FIRST_SECONDS, REJECTED_MOST_SECONDS = 300.0, 3600.0
# An API server answers 403 to everything for a second or two after its start, until it has read its RBAC roles.
FORBIDDEN_FIRST_SECONDS = 5.0


@dataclass(slots=True)
class NodeWrite:
    """An own write to a Node, sent at `at`. Once watch or list deliver it, the Nodes are known as of then."""

    name: str
    uid: str
    resource_version: str
    at: float


@dataclass(slots=True)
class Refusal:
    """The API server refused a step at `at`: it is skipped for `seconds`, or until its object changes."""

    about: Kind
    version: str
    at: float
    seconds: float
    message: str = ""


@dataclass(slots=True)
class Deletion:
    """An accepted DELETE of the pool with this ETag and this time of PUT; `failed`: the failures of those before."""

    etag: str
    put_time: datetime | None
    failed: CloudFailure | None = None


@dataclass(slots=True)
class CrdRead:
    """The CRD with which this deleting claim was deleted, by a fresh read; "": by none."""

    for_uid: str = ""
    deleted_with: str = ""


@dataclass(slots=True)
class Memory:
    """One key's memory. Frozen values in it are laid into Facts as they are."""

    # Whether the next step follows at once from the write that is under way, or was the last one.
    leads: bool = False
    create_failed: CloudFailure | None = None
    delete_failed: CloudFailure | None = None
    deletion: Deletion | None = None
    read_failed: CloudFailure | None = None
    failed_etag: str = ""
    # Why the pool of that PUT failed, as its operation says; a pool that failed does not always carry the cause.
    cause: tuple[datetime | None, Failure] | None = None
    versions: Mapping[str, str] = field(default_factory=lambda: {"claim": "", "node": ""})
    refused: dict[str, Refusal] = field(default_factory=dict)
    refusals: int = 0
    stale_writes: int = 0
    forbidden: dict[str, int] = field(default_factory=dict)
    failed_in_row: dict[str, int] = field(default_factory=dict)
    first_sights: FirstSights = field(default_factory=FirstSights)
    pool_read_at: float | None = None
    claim_read_at: float | None = None
    claim_read: NodeClaim | None = None
    crd_read: CrdRead = field(default_factory=CrdRead)
    nodes_known_at: float | None = None
    node_write: NodeWrite | None = None
    nodes_read_at: float | None = None
    nodes_read: tuple[Node, ...] = ()
    proof_at: float | None = None
    workloads: Workloads | None = None
    drains: dict[str, Drain] = field(default_factory=dict)


def age(at: float | None, now: float) -> float:
    """Seconds since that moment, inf if it is None."""
    return math.inf if at is None else now - at


def _bounds(kind: str) -> tuple[float, float]:
    """The shortest and the longest delay after a failure of that kind, in seconds."""
    return {
        NoCapacity.kind: (CAPACITY_FIRST_SECONDS, CAPACITY_MOST_SECONDS),
        Rejected.kind: (REJECTED_FIRST_SECONDS, REJECTED_MOST_SECONDS),
    }.get(kind, (RETRY_FIRST_SECONDS, RETRY_MOST_SECONDS))


def backoff(kind: str, times: int, *, after: float | None, final: bool = False) -> float | None:
    """Seconds until the next attempt after `times` failures in a row; None: no further attempt.

    `after`, the delay that the cloud requests, replaces the first delay. It is taken as it is for a retryable error. An
    unavailable offering never waits longer than `CAPACITY_MOST_SECONDS`: quota is raised within minutes.
    """
    if final:
        return None
    first, _ = _bounds(kind)
    if after is not None and kind == Retryable.kind:
        return after
    grown = (after if after is not None else first) * 2.0 ** min(times - 1, 16)
    return min(grown, _longest(kind, after))


def _longest(kind: str, after: float | None) -> float:
    """The longest delay after a failure of that kind, however often it recurs, in seconds."""
    most = _bounds(kind)[1]
    return most if kind == NoCapacity.kind else max(most, after or 0.0)


def remember_failure(
    before: CloudFailure | None,
    error: CloudError,
    *,
    now: float,
    claim: NodeClaim | None,
    node_class: AgentPoolNodeClass | None = None,
) -> CloudFailure:
    """The failure; `times` continues that of `before` for the same kind and claim.

    A rejection also keeps the digest of the claim's labels and annotations and the version of its node class: an edit
    of them allows the next attempt.
    """
    for_uid = claim.uid if claim is not None else ""
    same = before is not None and before.kind == error.kind and before.for_uid == for_uid
    times = before.times + 1 if before is not None and same else 1
    final = isinstance(error, Rejected) and error.final
    rejected_claim = claim if isinstance(error, Rejected) else None
    unanswered = error.status == 0 or error.status >= 500 or error.status == 408
    conflict = isinstance(error, Retryable) and error.conflict
    return CloudFailure(
        kind=error.kind,
        reason=error.reason,
        message=error.message,
        times=times,
        at=now,
        delay=backoff(error.kind, times, after=error.after, final=final),
        uncertain=(unanswered or conflict) and not final,
        unanswered=unanswered and not final,
        within=None if final else _longest(error.kind, error.after),
        for_uid=for_uid,
        for_metadata=metadata_digest(rejected_claim) if rejected_claim is not None else "",
        for_class=version_of(node_class) if rejected_claim is not None else "",
    )
