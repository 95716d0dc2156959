"""The rows of the table: a pure function of claims, Nodes, agent pools and the last events.

A row keeps the time at which its phase began. It shows what its claim waits for: the first condition that is not True,
or the last event if there is none. The row of a deleted claim stays for `TERMINATED_SECONDS`, so that its end can be
seen.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import msgspec

from controllers.planner.plan import phase_of
from provisioner.api import labels
from provisioner.api.conditions import READY
from provisioner.api.nodeclaim import NodeClaim, Phase
from provisioner.api.reasons import AWAITING
from provisioner.api.text import printable
from provisioner.operator.azure import CLOUD
from provisioner.simulator.azure.agentpool import Pool
from provisioner.simulator.snapshot import allocatable, labels_of, pool_mark

Json = dict[str, Any]
TERMINATED_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class Moment:
    """A time: `at` in seconds since the start, for durations; `time` in UTC, for display."""

    at: float
    time: datetime


@dataclass(frozen=True, kw_only=True)
class Row:
    """One claim. `entered`: when its phase began; `size`: of its machine, or the first one that it requests.

    `created`: seconds since the start; `ready_seconds`: from then until the claim was Ready first, None before;
    `price`: of its size in USD an hour, None if prices are not shown or not known.
    """

    name: str
    uid: str
    size: str
    phase: Phase
    entered: Moment
    gpus_allocatable: int
    gpus_expected: int
    status: str
    created: float = 0.0
    ready_seconds: float | None = None
    price: float | None = None


def rows(
    before: Iterable[Row],
    claims: Iterable[Json],
    nodes: Iterable[Json],
    pools: Iterable[Pool],
    *,
    events: Mapping[str, str],
    now: Moment,
    prices: Mapping[str, float],
) -> tuple[Row, ...]:
    """The rows at `now`: the previous ones in their order, then new claims. `events`: the last ones, by claim name."""
    known = {row.uid: row for row in before}
    node_of = {uid: node for node in nodes if (uid := labels_of(node).get(labels.CLAIM_UID, ""))}
    pool_of = {uid: pool for pool in pools if (uid := pool_mark(pool))}
    found = {}
    for claim in claims:
        uid = claim["metadata"]["uid"]
        row = _row(claim, node_of.get(uid), pool_of.get(uid), known.get(uid), events=events, now=now)
        found[uid] = replace(row, price=prices.get(row.size.lower()))
    names = {row.name for row in found.values()}
    deleted = [row for uid, row in known.items() if uid not in found and row.name not in names]
    terminated = [_terminated(row, events, now) for row in deleted]
    kept = {row.uid: row for row in terminated if now.at - row.entered.at < TERMINATED_SECONDS} | found
    return tuple(kept[uid] for uid in dict.fromkeys((*known, *found)) if uid in kept)


def _row(
    claim: Json,
    node: Json | None,
    pool: Pool | None,
    before: Row | None,
    *,
    events: Mapping[str, str],
    now: Moment,
) -> Row:
    size = _size(claim, node, pool)
    expected = CLOUD.gpus_of(size)
    gpus = allocatable(node, expected.resource)
    read = msgspec.convert(claim, NodeClaim)
    phase = phase_of(read)
    created = before.created if before is not None else now.at
    ready = before.ready_seconds if before is not None else None
    return Row(
        name=claim["metadata"]["name"],
        uid=claim["metadata"]["uid"],
        size=size,
        phase=phase,
        entered=before.entered if before is not None and before.phase == phase else now,
        gpus_allocatable=gpus,
        gpus_expected=expected.count,
        status=printable(_cause(read)) or events.get(read.name, ""),
        created=created,
        ready_seconds=now.at - created if ready is None and phase is Phase.READY else ready,
    )


def _cause(claim: NodeClaim) -> str:
    """The first condition that is not True, other than those that await the others; "" if there is none."""
    waits = (c for c in claim.status.conditions if c.status != "True" and c.type != READY and c.reason != AWAITING)
    return next((f"{c.reason}: {c.message}" for c in waits), "")


def _terminated(row: Row, events: Mapping[str, str], now: Moment) -> Row:
    return replace(
        row,
        phase=Phase.TERMINATED,
        entered=row.entered if row.phase is Phase.TERMINATED else now,
        gpus_allocatable=0,
        price=None,
        status=events.get(row.name, "") or row.status,
    )


def _size(claim: Json, node: Json | None, pool: Pool | None) -> str:
    if pool is not None:
        return pool.size
    if node is not None and (size := labels_of(node).get(labels.INSTANCE_TYPE)):
        return size
    wanted = (r.get("values") for r in claim["spec"].get("requirements", ()) if r["key"] == labels.INSTANCE_TYPE)
    return printable(next(iter(next(wanted, None) or ()), ""))
