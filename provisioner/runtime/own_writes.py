"""The own writes that a cache shows and its watch has not delivered yet: what is older must not replace them. No I/O.

A write to an object is known by its name and version until an event of that name, or a list, has reached the version.
An object that a write removed is known by its UID, since the answer lacks the version of the deletion: until its
DELETED event, or a list without it, but for no longer than a minute, so that nothing stays hidden.

resourceVersions are compared as numbers if both are numeric, otherwise only for equality.

Source: https://github.com/kubernetes/enhancements/issues/5504 (resourceVersions are officially comparable since
Kubernetes 1.35; earlier versions behave the same).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from .objects import KubeObject, key_of
from .watch import EventType

T = TypeVar("T", bound=KubeObject)
GONE_SECONDS = 60.0
# A uint64 has at most 20; a CRD of another version can keep any text in `metadata` of its objects.
DIGITS_MAX = 20


def older(version: str, than: str) -> bool:
    """Whether `version` is older; False if they cannot be compared."""
    return _number(version) and _number(than) and int(version) < int(than)


def reached(seen: str, version: str) -> bool:
    """Whether a cache at version `seen` contains `version`."""
    if _number(seen) and _number(version):
        return int(seen) >= int(version)
    return bool(seen) and seen == version


def _number(version: str) -> bool:
    return version.isascii() and version.isdigit() and len(version) <= DIGITS_MAX


@dataclass(frozen=True, slots=True)
class _Update:
    uid: str
    version: str


@dataclass(frozen=True, slots=True)
class _Removal:
    """`version`: one that the object had; `until`: loop time in seconds."""

    version: str
    until: float


class OwnWrites(Generic[T]):
    """Times are loop times in seconds."""

    def __init__(self) -> None:
        self._updates: dict[str, _Update] = {}
        self._removals: dict[str, _Removal] = {}

    def updated(self, found: T, held: T | None, watched: str, now: float) -> bool:
        """Whether this answer of a write is news to the cache, which shows it then.

        `held`: the cached object of that name. `watched`: the version that the watch has reached; an object that the
        cache lacks nevertheless was deleted since.
        """
        uid, version = found.metadata.uid, found.metadata.resource_version
        lacks = held is None or held.metadata.uid != uid
        ahead = held is not None and reached(held.metadata.resource_version, version)
        if ahead or self.is_gone(uid, now) or (lacks and reached(watched, version)):
            return False
        self._updates[key_of(found)] = _Update(uid, version)
        return True

    def removed(self, last: T, now: float) -> None:
        """The cache no longer shows this object, which a write has removed."""
        self._removals = {uid: one for uid, one in self._removals.items() if now < one.until}
        self._removals[last.metadata.uid] = _Removal(last.metadata.resource_version, now + GONE_SECONDS)
        self._updates.pop(key_of(last), None)

    def pending(self, key: str, uid: str) -> bool:
        """Whether the watch has not delivered the last write to this object."""
        update = self._updates.get(key)
        return uid in self._removals or (update is not None and update.uid == uid)

    def is_gone(self, uid: str, now: float) -> bool:
        """Whether a write has removed this object, and neither watch nor list have shown that."""
        removal = self._removals.get(uid)
        return removal is not None and now < removal.until

    def delivers(self, kind: EventType, found: T, now: float) -> tuple[bool, bool]:
        """Whether the event is news to the cache, and whether it is the first to reach an own write.

        Events of another object of the same name are older, too: it was there before.
        """
        key, meta = key_of(found), found.metadata
        if self.is_gone(meta.uid, now):
            ended = kind == EventType.DELETED
            if ended:
                del self._removals[meta.uid]
            return False, ended
        update = self._updates.get(key)
        if update is None:
            return True, False
        if older(meta.resource_version, update.version):
            return False, False
        del self._updates[key]
        return True, True

    def lost(self, watched: str) -> str:
        """The name of an object whose own write the watch has passed without an event of it; "" if there is none.

        The watch lost the event, or the API server the write: only a list shows what is there.
        """
        return next((key for key, one in self._updates.items() if reached(watched, one.version)), "")

    def merged(self, listed: Iterable[T], version: str, cached: Callable[[str], T | None], now: float) -> list[T]:
        """The objects of a list at this version, with the writes that are newer."""
        found = {key_of(one): one for one in listed}
        uids = {one.metadata.uid for one in found.values()}
        self._removals = {
            uid: one
            for uid, one in self._removals.items()
            if now < one.until and (uid in uids or not reached(version, one.version))
        }
        self._updates = {key: one for key, one in self._updates.items() if older(version, one.version)}
        kept = {key: one for key, one in found.items() if one.metadata.uid not in self._removals}
        kept |= {key: own for key in self._updates if (own := cached(key)) is not None}
        return list(kept.values())

    def clear(self) -> None:
        """Nothing that was written counts any more."""
        self._updates, self._removals = {}, {}
