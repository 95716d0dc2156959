"""Records all requests to the simulated cluster and Azure, and the changes of pools, Nodes and claims, in order.

A request is recorded on arrival, with the caller's name, and completed with its status (0: the connection ended
without a response). A change is attributed to a request if it happens in the request's context and to the object that
the request names; what garbage collectors and kubelets do in consequence has no request. Times are seconds of the
loop. The log is bounded: the oldest entries are dropped.
"""

import contextvars
import math
from collections import deque
from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from .azure import routing as calls
from .kube import requests

LIMIT = 200_000
WRITES = frozenset({"PUT", "POST", "PATCH", "DELETE"})
System = Literal["kube", "arm"]
Kind = Literal["pool", "node", "claim"]

# The request that is served in this context.
CURRENT_CALL: contextvars.ContextVar["Call | None"] = contextvars.ContextVar("served", default=None)


class Target(NamedTuple):
    """The object in a path. `kind`: the plural (`nodes`, `nodeclaims`, `pools`); `name`: "" for collections."""

    kind: str
    name: str = ""
    subresource: str = ""


def target_of(system: System, method: str, path: str) -> Target:
    """Parse a request's path; a path without an object has a kind of its own (`cluster`, `operation`, the path)."""
    if system == "kube":
        found = requests.target(path)
        if found is None:
            return Target(path)
        return Target(found.resource.partition(".")[0], found.name, found.subresource)
    route = calls.route(method, path)
    verb, name = route["verb"].lower(), route.get("pool", "")
    if name:
        return Target("pools", name, route.get("item", "") if verb in {"get", "put", "delete"} else verb)
    return Target("pools" if verb == "list" else verb)


@dataclass(slots=True, eq=False)
class Call:
    """One request. `verb` is GET, LIST, WATCH, PUT, POST, PATCH or DELETE; `status` is None until it is answered.

    `dry_run`: its query says that it changes nothing.
    """

    number: int
    at: float
    who: str
    system: System
    verb: str
    target: Target
    path: str
    status: int | None = None
    dry_run: bool = False

    @property
    def is_write(self) -> bool:
        return self.verb in WRITES and not self.dry_run

    @property
    def is_bookkeeping(self) -> bool:
        """The runtime's own writes: its Lease, Events, and reviews of its own permissions, which change nothing."""
        return self.target.kind in {"leases", "events", "selfsubjectaccessreviews"}

    def __str__(self) -> str:
        what = "/".join(part for part in self.target if part)
        answer = {None: "...", 0: "no response"}.get(self.status, self.status)
        return f"{self.at:10.3f}  #{self.number} {self.who} {self.system} {self.verb} {what} -> {answer}"


@dataclass(frozen=True, slots=True)
class Change:
    """A change of an object. `uid`: of the claim it belongs to, or ""; `call`: the request that made it."""

    at: float
    kind: Kind
    name: str
    what: str
    uid: str = ""
    call: Call | None = None

    def __str__(self) -> str:
        origin = f" (by #{self.call.number} of {self.call.who})" if self.call else ""
        return f"{self.at:10.3f}    {self.kind} {self.name} {self.what}{origin}"


class AuditLog:
    """The entries in order."""

    def __init__(self) -> None:
        self.entries: deque[Call | Change] = deque(maxlen=LIMIT)
        self._count = 0

    def arrive(
        self,
        at: float,
        who: str,
        system: System,
        method: str,
        path: str,
        *,
        watch: bool = False,
        dry_run: bool = False,
    ) -> Call:
        """Record a request; HTTP's GET becomes GET, LIST or WATCH."""
        self._count += 1
        target = target_of(system, method, path)
        verb = method
        if method == "GET" and not target.name and target.kind not in {"cluster", "operation", "result"}:
            verb = "WATCH" if watch else "LIST"
        call = Call(self._count, at, who, system, verb, target, path, dry_run=dry_run)
        self.entries.append(call)
        return call

    def change(self, at: float, kind: Kind, name: str, what: str, *, uid: str = "") -> Change:
        """Record a change of an object, attributed to the current request if it names that object."""
        change = Change(at, kind, name, what, uid, current_write(kind, name))
        self.entries.append(change)
        return change

    def calls(
        self,
        *,
        who: str | None = None,
        system: System | None = None,
        verb: str | None = None,
        kind: str | None = None,
        name: str | None = None,
    ) -> list[Call]:
        """The matching calls; None matches all. `kind` is the plural in the path (`pools`, `nodes`, `nodeclaims`)."""
        return [
            call
            for call in self._all_calls()
            if who in (None, call.who)
            and system in (None, call.system)
            and verb in (None, call.verb)
            and kind in (None, call.target.kind)
            and name in (None, call.target.name)
        ]

    def writes(self, *, who: str | None = None) -> list[Call]:
        """All writes except Leases and Events."""
        return [call for call in self.calls(who=who) if call.is_write and not call.is_bookkeeping]

    def changes(self, *, kind: Kind | None = None, uid: str | None = None) -> list[Change]:
        """The matching changes; None matches all. `uid` is a claim's."""
        return [
            entry
            for entry in self.entries
            if isinstance(entry, Change) and kind in (None, entry.kind) and uid in (None, entry.uid)
        ]

    def deletion_order(self, uid: str) -> list[Kind]:
        """The order in which the pools, Nodes and the claim of a UID were deleted; correct is pool, node, claim."""
        return [change.kind for change in self.changes(uid=uid) if change.what == "gone"]

    def last_write_at(self, callers: Container[str]) -> float:
        """When one of these callers last wrote, except Leases and Events; -inf if never."""
        for entry in reversed(self.entries):
            if isinstance(entry, Call) and entry.who in callers and entry.is_write and not entry.is_bookkeeping:
                return entry.at
        return -math.inf

    def tail(self, last: int = 120) -> str:
        """The last entries, one a line."""
        lines = [str(entry) for entry in list(self.entries)[-last:]]
        return "\n".join(lines)

    def _all_calls(self) -> Iterator[Call]:
        return (entry for entry in self.entries if isinstance(entry, Call))


_PLURALS = {"pool": "pools", "node": "nodes", "claim": "nodeclaims", "pod": "pods"}


def caller() -> str:
    """Who sent the request that is served in this context; "" without one."""
    call = CURRENT_CALL.get()
    return call.who if call is not None else ""


def current_write(kind: str, name: str) -> Call | None:
    """The write that is served in this context, if it names this object."""
    call = CURRENT_CALL.get()
    if call is None or call.status is not None or not call.is_write:
        return None
    return call if call.target[:2] == (_PLURALS[kind], name) else None
