"""Observations of agent pools: merging a LIST into the cache, and when a 404 proves that a pool is absent.

Pure. A LIST never overrides an observation that is newer than its start, nor a write that the LIST does not show yet.

Source: docs/references/rules.md#absence-needs-proof, docs/references/agent-pools.md#not-found.
"""

from collections.abc import Container, Iterable, Mapping
from types import MappingProxyType
from typing import Literal

import msgspec

from .interface import Instance, InstanceState

Absence = Literal["absent", "unsettled", "present", "unknown"]

TRANSIENT = (InstanceState.CREATING, InstanceState.DELETING)
NO_DELETES: Mapping[str, str] = MappingProxyType({})


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """The newest observation of one pool. `at`: loop time of the start of the request."""

    instance: Instance | None
    at: float


class MergeResult(msgspec.Struct, frozen=True, kw_only=True):
    """The cache after a LIST, and the keys that the LIST changed."""

    observations: Mapping[str, Observation]
    changed: tuple[str, ...]


class Tally(msgspec.Struct):
    """Sums over the instances that the newest observations show, and the names of ours in a transition."""

    pools: int = 0
    foreign: int = 0
    nodes: int = 0
    transient: set[str] = msgspec.field(default_factory=set)

    def replace(self, name: str, old: Instance | None, new: Instance | None) -> None:
        """Another observation of this name."""
        self.transient.discard(name)
        for instance, sign in ((old, -1), (new, 1)):
            if instance is not None:
                self.pools += sign
                self.foreign += sign * instance.foreign
                self.nodes += sign * instance.count
        if new is not None and new.state in TRANSIENT and not new.foreign:
            self.transient.add(name)


def merge(
    observations: Mapping[str, Observation],
    listed: Iterable[Instance],
    *,
    started_at: float,
    recent_puts: Container[str] = (),
    recent_deletes: Mapping[str, str] = NO_DELETES,
) -> MergeResult:
    """Merge a LIST that was sent at `started_at`. Observations at or after that time are kept.

    Reads may lag behind writes (docs/references/agent-pools.md#not-found). Two kinds of older observations are kept as
    well: a pool of `recent_puts` that no LIST has shown since, and a pool of `recent_deletes` (name to the ETag of the
    DELETE) that the LIST still shows with that ETag.
    """
    by_name = {instance.name: instance for instance in listed}
    after = {name: observation for name, observation in observations.items() if observation.at >= started_at}
    for name, observation in observations.items():
        not_yet_listed = name not in by_name and name in recent_puts and observation.instance is not None
        still_listed = name in by_name and name in recent_deletes and by_name[name].etag == recent_deletes[name]
        if not_yet_listed or still_listed:
            after[name] = observation
    for name, instance in by_name.items():
        after.setdefault(name, Observation(instance=instance, at=started_at))
    names = dict.fromkeys((*observations, *by_name))
    changed = tuple(n for n in names if instance_of(observations.get(n)) != instance_of(after.get(n)))
    return MergeResult(observations=after, changed=changed)


def instance_of(observation: Observation | None) -> Instance | None:
    """The instance of an observation; None if there is none."""
    return observation.instance if observation is not None else None


def settles_in(
    *, now: float, seen_at: float | None, put_at: float | None, leading_since: float, settle_seconds: float
) -> float:
    """Seconds until a 404 proves absence; 0 if it does now.

    A 404 proves absence if the pool, which is being deleted, was seen after the last PUT attempt, or `settle_seconds`
    after that attempt or after this process became leader, whichever is later: a previous leader may have sent a PUT
    until then.
    """
    if seen_at is not None and (put_at is None or seen_at >= put_at):
        return 0.0
    latest = max(put_at if put_at is not None else leading_since, leading_since)
    return max(0.0, latest + settle_seconds - now)
