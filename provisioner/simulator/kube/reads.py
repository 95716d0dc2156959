"""Reads of a store: current objects, pages of a consistent list, or the past state of a lagging server.

Every read states its revision. All pages of a list have one revision; a token, or an exact revision, outside the
window is a 410. `freeze` stops cached reads (watches and lists) at a revision, as an API server with a slow watch
cache does; a GET without resourceVersion reads etcd and is always current. `lose` makes watches skip a write.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions,
https://kubernetes.io/docs/reference/using-api/api-concepts/#retrieving-large-results-sets-in-chunks.
"""

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from .errors import ApiError, bad_request, expired
from .objects import Key, Record
from .selectors import Predicate
from .store import Store
from .watch_cache import Collection

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter."
)


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The query parameters of a list. `revision` is resourceVersion as sent; `limit` 0 means all."""

    namespace: str = ""
    chosen: Predicate | None = None
    limit: int = 0
    token: str = ""
    revision: str = ""
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """Objects at `revision`, and the continue token; `remaining` is None if unknown."""

    records: list[Record]
    revision: int
    token: str = ""
    remaining: int | None = None


class _Token(msgspec.Struct, frozen=True):
    v: str
    rv: int
    start: tuple[str, str]


class View:
    """The reading side of a store.

    `consistent_lists` exempts lists without a resourceVersion from a freeze; `consistent_selections` only those of them
    that have a selector: consistent reads of a controller, as opposed to the lists of its reflectors.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._limit: int | None = None
        self._frozen: frozenset[str] = frozenset()
        self._lost: set[int] = set()
        self.consistent_lists = False
        self.consistent_selections = False

    def horizon(self, collection: Collection) -> int:
        """The newest revision that cached reads of this kind show."""
        if self._limit is None or (self._frozen and collection.resource.key not in self._frozen):
            return self._store.revision
        return min(self._limit, self._store.revision)

    def freeze(
        self,
        revision: int,
        *,
        consistent_lists: bool = False,
        consistent_selections: bool = False,
        kinds: Iterable[str] = (),
    ) -> None:
        """Show nothing newer than `revision`, of these kinds (none: of all)."""
        self._limit, self._frozen = revision, frozenset(kinds)
        self.consistent_lists, self.consistent_selections = consistent_lists, consistent_selections

    def thaw(self) -> None:
        """Show the current state again."""
        self._limit = None

    def lose(self, revision: int) -> None:
        """No watch delivers this write; lists show it."""
        self._lost.add(revision)

    def is_lost(self, revision: int) -> bool:
        """Whether watches skip this write."""
        return revision in self._lost

    def objects(self, collection: Collection) -> dict[Key, Record]:
        """All objects of a kind as cached reads show them."""
        return self._at(collection, self.horizon(collection))

    def _at(self, collection: Collection, revision: int) -> dict[Key, Record]:
        if revision >= self._store.revision:
            return collection.objects
        return collection.history.rebuild(collection.objects, revision)

    def get(self, collection: Collection, key: Key, revision: str) -> Record | None:
        """One object; current, unless a resourceVersion allows a cached read."""
        if not revision:
            return collection.objects.get(key)
        self._await(collection, revision_number(revision))
        return self.objects(collection).get(key)

    def page(self, collection: Collection, options: ListOptions) -> Page:
        """One page of a list."""
        revision, start = self._begin(collection, options)
        found = self._at(collection, revision)
        keys = [k for k in sorted(found) if k > start and (not options.namespace or k[0] == options.namespace)]
        chosen, records = options.chosen, list[Record]()
        limit = options.limit if options.revision != "0" else 0
        for position, key in enumerate(keys):
            record = found[key]
            if chosen is not None and not chosen(record.obj):
                continue
            if limit and len(records) == limit:
                remaining = len(keys) - position if chosen is None else None
                last = keys[position - 1]
                token = base64.urlsafe_b64encode(msgspec.json.encode(_Token("meta.k8s.io/v1", revision, last)))
                return Page(records, revision, token.decode().rstrip("="), remaining)
            records.append(record)
        return Page(records, revision)

    def _begin(self, collection: Collection, options: ListOptions) -> tuple[int, Key]:
        """The revision to list at, and the key to start after."""
        start: Key = ("", "")
        if options.token:
            if options.revision:
                raise bad_request("specifying resource version is not allowed when using continue")
            token = _decoded(options.token)
            if token.rv < collection.history.floor:
                raise expired(_TOO_OLD)
            return token.rv, token.start
        if not options.revision:
            fresh = self.consistent_lists or (self.consistent_selections and options.chosen is not None)
            return (self._store.revision if fresh else self.horizon(collection)), start
        requested = revision_number(options.revision)
        self._await(collection, requested)
        if not options.exact:
            return self.horizon(collection), start
        if requested < collection.history.floor:
            raise expired(
                f"The resourceVersion for the provided list is too old: {requested} ({collection.history.floor})"
            )
        return requested, start

    def _await(self, collection: Collection, revision: int) -> None:
        """kube-apiserver waits some seconds for its cache; the simulator responds at once."""
        if revision > self.horizon(collection):
            message = f"Timeout: Too large resource version: {revision}, current: {self.horizon(collection)}"
            cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
            raise ApiError(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})


def revision_number(text: str) -> int:
    """A resourceVersion as a number. Raises ApiError 400."""
    if not text.isdigit():
        words = f'Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise bad_request(f"invalid resource version: resourceVersion: {words}")
    return int(text)


def _decoded(token: str) -> _Token:
    try:
        raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        return msgspec.json.decode(raw, type=_Token)
    except (ValueError, binascii.Error, msgspec.DecodeError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from error
