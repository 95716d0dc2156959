"""How often machines were bought for pods that did not take them: the records of the purchase brake, as pure values.

A record is of one NodePool and one shape of pods, or of all shapes of a namespace where these are many. It is in the
status of the node class, so that a restart, another leader and the removal of the machines lose nothing of it. It ends
when the NodePool's template or its node class changes, when a user annotates the NodePool, when such a pod runs on a
machine that was bought later and no other is counted, or a day after the last machine if no counted pod exists.

Source: docs/adr/0063-purchase-brake.md.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from provisioner.api import labels
from provisioner.api.canonical import digest
from provisioner.api.conditions import truncate
from provisioner.api.meta import ZERO_TIME
from provisioner.api.nodeclass import AgentPoolNodeClass, Misfit
from provisioner.api.nodepool import NodePool

# Machines that become Ready for one pod before it runs.
MACHINES_MAX = 2
FIRST_WAIT, LONGEST_WAIT = timedelta(minutes=10), timedelta(hours=6)
KEPT = timedelta(days=1)
PODS_MAX, TYPES_MAX, MACHINES_KEPT = 100, 20, 4

Misfits = Sequence[Misfit]


class Strike(NamedTuple):
    """A machine did not take the pods of a shape that it was bought for; shape "": they were gone when it was Ready.

    `uids`: the pods that still wait. `instance_type`: "" if the machine's type is not the cause. `round_end`: when the
    last NodeClaim was created that was bought for such pods until now. `cause`: the verdict of `fit`.
    """

    node_pool: str
    namespace: str
    shape: str
    pod: str
    uids: tuple[str, ...]
    claim_uid: str
    created: datetime
    instance_type: str
    message: str
    round_end: datetime
    cause: str


class Ran(NamedTuple):
    """The newest machine of a NodePool on which a pod runs that it was bought for: its creation and its type."""

    created: datetime
    instance_type: str


def short(uid: str) -> str:
    """A digest of a UID, 8 digits."""
    return hashlib.sha256(uid.encode()).hexdigest()[:8]


def revision(pool: NodePool, node_class: AgentPoolNodeClass) -> str:
    """Changes with the template of the NodePool, the node class, and the value of the NodePool's retry annotation."""
    retry = pool.metadata.annotations.get(labels.RETRY, "")
    return digest((pool.metadata.uid, pool.spec.template, node_class.spec, retry))


def current(records: Misfits, revisions: Mapping[str, str]) -> Misfits:
    """The records of NodePools that have not changed since. `revisions`: by NodePool."""
    return [one for one in records if revisions.get(one.node_pool) == one.revision]


class Index:
    """The records that concern a pod: of its shape, of its namespace, and of all namespaces."""

    def __init__(self, records: Iterable[Misfit] = ()) -> None:
        self._shapes: dict[str, list[Misfit]] = {}
        self._wide: dict[str, list[Misfit]] = {}
        for one in records:
            found = self._shapes if one.shape else self._wide
            found.setdefault(one.shape or one.namespace, []).append(one)

    def __bool__(self) -> bool:
        return bool(self._shapes or self._wide)

    def of_shape(self, shape: str) -> Misfits:
        """Those of this shape, one for each NodePool."""
        return self._shapes.get(shape, ())

    def wide(self, namespace: str) -> Misfits:
        """Those of all shapes of the namespace, then those of all namespaces."""
        own = self._wide.get(namespace, []) if namespace else []
        return [*own, *self._wide.get("", ())]

    def states(self, shape: str, namespace: str, pods: Iterable[str], machine: str) -> bool:
        """Whether a machine is counted for all of these pods. `pods` and `machine`: digests."""
        records = [*self.of_shape(shape), *self.wide(namespace)]
        return bool(records) and all(any(machine in one.pods.get(pod, ()) for one in records) for pod in pods)

    def is_news(self, strike: Strike) -> bool:
        """Whether a strike changes what is recorded."""
        own = [one for one in self.of_shape(strike.shape) if one.node_pool == strike.node_pool]
        wide = [one for one in self.wide(strike.namespace) if one.node_pool == strike.node_pool]
        last = max((one.round_end for one in own or wide), default=None)
        if last is None or strike.created > last:
            return True
        machine = short(strike.claim_uid)
        full = any(strike.created <= one.uncounted_until for one in (*own, *wide))
        return not full and not all(
            any(
                machine in found or len(found) >= MACHINES_KEPT
                for found in (one.pods.get(pod, ()) for one in own + wide)
            )
            for pod in map(short, strike.uids)
        )


def counted(before: Misfit, strike: Strike, now: datetime) -> Misfit:
    """The record with one more machine; each NodeClaim counts once for each pod."""
    machine, pods, left = short(strike.claim_uid), dict(before.pods), False
    for uid in map(short, strike.uids):
        if uid in pods or len(pods) < PODS_MAX:
            found = pods.get(uid, ())
            pods[uid] = found if machine in found else (*found, machine)[:MACHINES_KEPT]
        else:
            left = True
    types = dict.fromkeys((*before.instance_types, *filter(None, (strike.instance_type,))))
    later = strike.created > before.round_end
    return msgspec.structs.replace(
        before,
        pod=strike.pod,
        pods=pods,
        instance_types=tuple(types)[-TYPES_MAX:],
        rounds=_lasting(before, now) + 1 if later else before.rounds,
        round_end=max(strike.round_end, strike.created) if later else before.round_end,
        last_time=now,
        uncounted_until=max(before.uncounted_until, strike.created) if left else before.uncounted_until,
        message=truncate(strike.message),
    )


def _lasting(before: Misfit, now: datetime) -> int:
    """The rounds that still count: one is over after each longest wait without another."""
    return max(0, before.rounds - int((now - before.last_time) / LONGEST_WAIT))


def pruned(records: Misfits, *, uids: Collection[str], ran: Mapping[tuple[str, str], Ran], now: datetime) -> Misfits:
    """The records without what is over.

    `uids`: of the pods that exist and wait. `ran`: by NodePool and shape.
    """
    if not records:
        return records
    pods = set(map(short, uids))
    kept = list[Misfit]()
    for one in records:
        waiting = {uid: machines for uid, machines in one.pods.items() if uid in pods}
        found = msgspec.structs.replace(one, pods=waiting)
        if not waiting and now - one.last_time > KEPT:
            continue
        served, until = ran.get((one.node_pool, one.shape)), retry_at((one,))
        if served is not None and served.created > one.round_end and (until is None or now >= until):
            found = _lifted(found, served)
            if not found.pods and not found.instance_types:
                continue
        kept.append(found)
    return kept


def _lifted(one: Misfit, served: Ran) -> Misfit:
    """The record once a pod of the shape runs: each pod that waits may get one more machine after the wait.

    Without such pods, only the instance types that did not take the shape are kept.
    """
    return msgspec.structs.replace(
        one,
        pods={uid: machines[: MACHINES_MAX - 1] for uid, machines in one.pods.items()},
        instance_types=tuple(name for name in one.instance_types if name != served.instance_type),
        rounds=one.rounds if one.pods else 0,
        uncounted_until=ZERO_TIME,
    )


def bought(records: Misfits, uid: str, created: datetime) -> int:
    """How many machines did not take this pod; one of too many to be recorded counts as those that are."""
    wanted, found, others = short(uid), set[str](), 0
    for one in records:
        known = one.pods.get(wanted)
        if known is not None:
            found.update(known)
        elif created <= one.uncounted_until:
            others = max(others, max(map(len, one.pods.values()), default=MACHINES_MAX))
    return max(len(found), others)


def retry_at(records: Misfits) -> datetime | None:
    """Until when no machine is bought for a shape after two rounds of machines. `records`: those of the shape."""
    rounds = sum(one.rounds for one in records)
    return _after(rounds - MACHINES_MAX, records, LONGEST_WAIT)


def _after(excess: int, records: Misfits, longest: timedelta) -> datetime | None:
    if excess < 0 or not records:
        return None
    wait: timedelta = min(FIRST_WAIT * 2 ** min(excess, 10), longest)
    return max(one.last_time for one in records) + wait


# Rounds of machines that the pods of one namespace may cost, each with another shape, before new shapes wait.
ROUNDS_MAX = 5


def retry_scope_at(one: Misfit) -> datetime | None:
    """Until when a NodePool buys nothing for new shapes of a namespace, or of any namespace, after many rounds.

    The namespaces of others are not kept waiting for longer than the first wait.
    """
    return _after(one.rounds - ROUNDS_MAX, (one,), LONGEST_WAIT if one.namespace else FIRST_WAIT)
