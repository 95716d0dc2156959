"""What a LIST makes of what is known, and when a 404 is proof: the inventory's judgements, pure.

No answer is ever overridden by a LIST that was sent before it; reads that lag behind writes undo nothing.

Source: docs/references/rules.md#absence-needs-proof, docs/references/agent-pools.md#not-found.
"""

from collections.abc import Container, Iterable, Mapping
from types import MappingProxyType
from typing import Literal

import msgspec

from .interface import Instance

Absence = Literal["absent", "unsettled", "present", "unknown"]

NOTHING_DELETED: Mapping[str, str] = MappingProxyType({})


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The newest thing known of one pool. `at`: loop time of the start of the request that said it."""

    instance: Instance | None
    at: float


class Merged(msgspec.Struct, frozen=True, kw_only=True):
    """What a LIST makes of the cache, and which keys it changed."""

    answers: Mapping[str, Answer]
    changed: tuple[str, ...]


def merge(
    answers: Mapping[str, Answer],
    listed: Iterable[Instance],
    *,
    started_at: float,
    put_lately: Container[str] = (),
    deleted_lately: Mapping[str, str] = NOTHING_DELETED,
) -> Merged:
    """The cache after a LIST that was sent at `started_at`. Answers at or after that moment stand.

    Reads may lag behind writes (docs/references/agent-pools.md#not-found), so two older answers stand as well: a pool
    of `put_lately` that no list has shown since, and one of `deleted_lately` (name to the ETag it was deleted with)
    that it still shows.
    """
    seen = {instance.name: instance for instance in listed}
    after = {name: answer for name, answer in answers.items() if answer.at >= started_at}
    for name, answer in answers.items():
        unseen = name not in seen and name in put_lately and answer.instance is not None
        undone = name in seen and name in deleted_lately and seen[name].etag == deleted_lately[name]
        if unseen or undone:
            after[name] = answer
    for name, instance in seen.items():
        after.setdefault(name, Answer(instance=instance, at=started_at))
    names = dict.fromkeys((*answers, *seen))
    changed = tuple(n for n in names if shown(answers.get(n)) != shown(after.get(n)))
    return Merged(answers=after, changed=changed)


def shown(answer: Answer | None) -> Instance | None:
    """The instance that an answer shows, if any."""
    return answer.instance if answer is not None else None


def settles_in(
    *, now: float, seen_at: float | None, put_at: float | None, leading_since: float, settle_seconds: float
) -> float:
    """Seconds until a 404 may be believed; 0 if it may be now.

    It may if the pool was seen after the last PUT attempt, or once `settle_seconds` have passed since that attempt, or
    since this process began to lead (before which somebody else may have sent one).
    """
    if seen_at is not None and (put_at is None or seen_at >= put_at):
        return 0.0
    latest = max(put_at if put_at is not None else leading_since, leading_since)
    return max(0.0, latest + settle_seconds - now)
