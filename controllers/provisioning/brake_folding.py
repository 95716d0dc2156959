"""Bounds the records of the purchase brake: the shapes of one namespace become one record, then those of namespaces.

A pod that waits stays counted. What is lost is which instance types did not take a shape, and, beyond thousands of
pods, which of them were counted: those that were created before the last machine then count as the others.

Source: docs/adr/0063-purchase-brake.md.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

import msgspec

from provisioner.api.meta import ZERO_TIME
from provisioner.api.nodeclass import Misfit

from .brake_records import MACHINES_KEPT, Misfits, Strike, counted

# Of one NodePool and namespace; of one node class; pods in all of its records.
SHAPES_MAX, RECORDS_MAX, PODS_IN_ALL = 20, 200, 8_000

Scope = tuple[str, str, str]


def with_strikes(records: Misfits, strikes: Iterable[Strike], revisions: Mapping[str, str], now: datetime) -> Misfits:
    """The records with these strikes counted, within the bounds; by NodePool, namespace and shape."""
    found = {_scope(one): one for one in records}
    for strike in strikes:
        key = strike.node_pool, strike.namespace, strike.shape
        before = found.get(key) or Misfit(
            node_pool=strike.node_pool,
            namespace=strike.namespace,
            shape=strike.shape,
            revision=revisions.get(strike.node_pool, ""),
        )
        found[key] = counted(before, strike, now)
    return sorted(_folded([*found.values()]), key=_scope)


def by_namespace(records: Misfits) -> dict[tuple[str, str], Misfit]:
    """What all records of a NodePool and a namespace state together; namespace "": of all namespaces."""
    return {key: merged(group, key[1]) for key, group in _groups(records).items()}


def merged(group: Collection[Misfit], namespace: str) -> Misfit:
    """One record instead of several of a NodePool: of all shapes of a namespace, or of all namespaces."""
    newest = max(group, key=lambda one: one.last_time)
    pods, rounds, until = dict[str, tuple[str, ...]](), 0, ZERO_TIME
    for one in sorted(group, key=lambda one: one.round_end):
        # Machines that were bought before the last strike are of the same round.
        rounds = rounds + one.rounds if one.round_end > until else max(rounds, one.rounds)
        until = max(until, one.last_time)
        for uid, machines in one.pods.items():
            pods[uid] = tuple(dict.fromkeys((*pods.get(uid, ()), *machines)))[:MACHINES_KEPT]
    return msgspec.structs.replace(
        newest,
        namespace=namespace,
        shape="",
        instance_types=(),
        pods=pods,
        rounds=rounds,
        round_end=max(one.round_end for one in group),
        uncounted_until=max(one.uncounted_until for one in group),
    )


def _scope(one: Misfit) -> Scope:
    return one.node_pool, one.namespace, one.shape


def _groups(records: Iterable[Misfit]) -> dict[tuple[str, str], list[Misfit]]:
    found: dict[tuple[str, str], list[Misfit]] = {}
    for one in records:
        found.setdefault((one.node_pool, one.namespace), []).append(one)
    return found


def _folded(records: list[Misfit]) -> list[Misfit]:
    found = _per_namespace(records, SHAPES_MAX)
    if len(found) > RECORDS_MAX:
        found = _per_namespace(found, 1)
    if len(found) > RECORDS_MAX:
        found = _per_node_pool(found)
    number = sum(len(one.pods) for one in found)
    return [_with_fewer(one, PODS_IN_ALL // len(found)) for one in found] if number > PODS_IN_ALL else found


def _per_namespace(records: Iterable[Misfit], most: int) -> list[Misfit]:
    """One record of each namespace with more than so many shapes."""
    found = list[Misfit]()
    for (_, namespace), group in _groups(records).items():
        many = sum(1 for one in group if one.shape) > most
        found += [merged(group, namespace)] if many else group
    return found


def _per_node_pool(records: Iterable[Misfit]) -> list[Misfit]:
    """The newest records of each NodePool, and one for all others."""
    pools: dict[str, list[Misfit]] = {}
    for one in sorted(records, key=lambda one: (one.namespace != "", one.last_time), reverse=True):
        pools.setdefault(one.node_pool, []).append(one)
    share, found = max(1, RECORDS_MAX // len(pools)), list[Misfit]()
    for group in pools.values():
        kept = group if len(group) <= share else group[: share - 1]
        found += kept
        if len(kept) < len(group):
            found.append(merged(group[len(kept) :], ""))
    return found


def _with_fewer(one: Misfit, most: int) -> Misfit:
    if len(one.pods) <= most:
        return one
    kept = dict([*one.pods.items()][:most])
    return msgspec.structs.replace(one, pods=kept, uncounted_until=max(one.uncounted_until, one.round_end))
