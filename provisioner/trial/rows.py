"""The table's rows: pure, from claims, Nodes, agent pools and what was told last.

A row changes only when something about its claim did; the moment at which a phase began is carried over from
the rows before. A claim that is gone keeps its row, so that its end is seen, until many others have gone after it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from cloudprovider.azure.instance_types import gpus_of
from controllers.planner.plan import Phase
from provisioner.api import labels
from provisioner.simulator.azure.agentpool import Pool
from provisioner.simulator.snapshot import labels_of, pool_mark

from .changes import gpus
from .claims import Json
from .phases import phase_of

MOST_GONE = 50
# In these a claim's own words say why, and what happens around it does not.
TELLING = frozenset({Phase.FAILED, Phase.NOT_READY})


@dataclass(frozen=True, kw_only=True)
class Moment:
    """Now, twice: `at` in seconds since the trial began, for durations; `time` for people, in UTC."""

    at: float
    time: datetime


@dataclass(frozen=True, kw_only=True)
class Told:
    """What was told last about a claim, and what last by itself."""

    last: str
    own: str


UNTOLD = Told(last="", own="")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One claim. `entered`: when its phase began; `size`: of its machine, or the first that it asks for."""

    name: str
    uid: str
    size: str
    phase: Phase
    entered: Moment
    gpus_seen: int
    gpus_expected: int
    last_event: str


def rows(
    before: Iterable[Row],
    claims: Iterable[Json],
    nodes: Iterable[Json],
    pools: Iterable[Pool],
    *,
    told: Mapping[str, Told],
    now: Moment,
) -> tuple[Row, ...]:
    """The rows as of now: those before in their order, then new claims as they are handed in.

    `told`: what was said of each claim, by its name.
    """
    known = {row.uid: row for row in before}
    node_of = {uid: node for node in nodes if (uid := labels_of(node).get(labels.CLAIM_UID, ""))}
    pool_of = {uid: pool for pool in pools if (uid := pool_mark(pool))}
    found = {}
    for claim in claims:
        uid = claim["metadata"]["uid"]
        found[uid] = _row(claim, node_of.get(uid), pool_of.get(uid), known.get(uid), told=told, now=now)
    names = {row.name for row in found.values()}
    ended = {uid: _ended(row, told, now) for uid, row in known.items() if uid not in found and row.name not in names}
    late = sorted(ended.values(), key=lambda row: row.entered.at)[-MOST_GONE:]
    kept = {row.uid: row for row in late} | found
    return tuple(kept[uid] for uid in dict.fromkeys((*known, *found)) if uid in kept)


def _row(
    claim: Json, node: Json | None, pool: Pool | None, before: Row | None, *, told: Mapping[str, Told], now: Moment
) -> Row:
    size = _size(claim, node, pool)
    promised = gpus_of(size)
    seen = gpus(node, promised.resource)
    phase = phase_of(claim)
    words = told.get(claim["metadata"]["name"], UNTOLD)
    return Row(
        name=claim["metadata"]["name"],
        uid=claim["metadata"]["uid"],
        size=size,
        phase=phase,
        entered=before.entered if before is not None and before.phase == phase else now,
        gpus_seen=seen,
        gpus_expected=promised.count,
        last_event=(phase in TELLING and words.own) or words.last,
    )


def _ended(row: Row, told: Mapping[str, Told], now: Moment) -> Row:
    return Row(
        name=row.name,
        uid=row.uid,
        size=row.size,
        phase=Phase.TERMINATED,
        entered=row.entered if row.phase is Phase.TERMINATED else now,
        gpus_seen=0,
        gpus_expected=row.gpus_expected,
        last_event=told.get(row.name, UNTOLD).last or row.last_event,
    )


def _size(claim: Json, node: Json | None, pool: Pool | None) -> str:
    if pool is not None:
        return pool.size
    if node is not None and (size := labels_of(node).get(labels.INSTANCE_TYPE)):
        return size
    wanted = (r.get("values") for r in claim["spec"].get("requirements", ()) if r["key"] == labels.INSTANCE_TYPE)
    return next(iter(next(wanted, None) or ()), "")
