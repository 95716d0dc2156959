"""The rows of the table: a pure function of claims, Nodes, agent pools and the last events.

A row changes only with its claim, and keeps the time at which its phase began. The row of a deleted claim stays, so
that its end can be seen, until `MAX_TERMINATED` later ones were deleted.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from cloudprovider.azure.instance_types import gpus_of
from controllers.planner.plan import Phase, phase_of
from provisioner.api import labels
from provisioner.api.nodeclaim import NodeClaim
from provisioner.simulator.azure.agentpool import Pool
from provisioner.simulator.snapshot import allocatable, labels_of, pool_mark

Json = dict[str, Any]
MAX_TERMINATED = 50
# Phases whose row shows the last event of the claim itself, not of its agent pool or Node.
OWN_EVENT_PHASES = frozenset({Phase.FAILED, Phase.NOT_READY})


@dataclass(frozen=True, kw_only=True)
class Moment:
    """A time: `at` in seconds since the start, for durations; `time` in UTC, for display."""

    at: float
    time: datetime


@dataclass(frozen=True, kw_only=True)
class LastEvent:
    """The last event of a claim, its Node, pool or requests; and the last one of the claim itself."""

    any: str
    own: str


NO_EVENT = LastEvent(any="", own="")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One claim. `entered`: when its phase began; `size`: of its machine, or the first one that it requests."""

    name: str
    uid: str
    size: str
    phase: Phase
    entered: Moment
    gpus_allocatable: int
    gpus_expected: int
    last_event: str


def rows(
    before: Iterable[Row],
    claims: Iterable[Json],
    nodes: Iterable[Json],
    pools: Iterable[Pool],
    *,
    events: Mapping[str, LastEvent],
    now: Moment,
) -> tuple[Row, ...]:
    """The rows at `now`: the previous ones in their order, then new claims. `events`: the last ones, by claim name."""
    known = {row.uid: row for row in before}
    node_of = {uid: node for node in nodes if (uid := labels_of(node).get(labels.CLAIM_UID, ""))}
    pool_of = {uid: pool for pool in pools if (uid := pool_mark(pool))}
    found = {}
    for claim in claims:
        uid = claim["metadata"]["uid"]
        found[uid] = _row(claim, node_of.get(uid), pool_of.get(uid), known.get(uid), events=events, now=now)
    names = {row.name for row in found.values()}
    deleted = [row for uid, row in known.items() if uid not in found and row.name not in names]
    terminated = [_terminated(row, events, now) for row in deleted]
    latest = sorted(terminated, key=lambda row: row.entered.at)[-MAX_TERMINATED:]
    kept = {row.uid: row for row in latest} | found
    return tuple(kept[uid] for uid in dict.fromkeys((*known, *found)) if uid in kept)


def _row(
    claim: Json,
    node: Json | None,
    pool: Pool | None,
    before: Row | None,
    *,
    events: Mapping[str, LastEvent],
    now: Moment,
) -> Row:
    size = _size(claim, node, pool)
    expected = gpus_of(size)
    gpus = allocatable(node, expected.resource)
    phase = phase_of(msgspec.convert(claim, NodeClaim))
    last = events.get(claim["metadata"]["name"], NO_EVENT)
    return Row(
        name=claim["metadata"]["name"],
        uid=claim["metadata"]["uid"],
        size=size,
        phase=phase,
        entered=before.entered if before is not None and before.phase == phase else now,
        gpus_allocatable=gpus,
        gpus_expected=expected.count,
        last_event=(phase in OWN_EVENT_PHASES and last.own) or last.any,
    )


def _terminated(row: Row, events: Mapping[str, LastEvent], now: Moment) -> Row:
    return Row(
        name=row.name,
        uid=row.uid,
        size=row.size,
        phase=Phase.TERMINATED,
        entered=row.entered if row.phase is Phase.TERMINATED else now,
        gpus_allocatable=0,
        gpus_expected=row.gpus_expected,
        last_event=events.get(row.name, NO_EVENT).any or row.last_event,
    )


def _size(claim: Json, node: Json | None, pool: Pool | None) -> str:
    if pool is not None:
        return pool.size
    if node is not None and (size := labels_of(node).get(labels.INSTANCE_TYPE)):
        return size
    wanted = (r.get("values") for r in claim["spec"].get("requirements", ()) if r["key"] == labels.INSTANCE_TYPE)
    return next(iter(next(wanted, None) or ()), "")
