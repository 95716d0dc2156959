"""Checks that only the leader writes: each write of a controller is made by a holder of a Lease, within its term, and
while the term lasts as long as the request may take.

Source: docs/references/rules.md#invariants.
"""

from collections.abc import Callable, Container
from typing import Any

from .audit_log import CURRENT_CALL, Call

Json = dict[str, Any]
Violated = Callable[[str, str], None]


# How long a request of each system may take, less what one that nothing delays takes to arrive.
REQUEST_SECONDS = {"arm": 14.0, "kube": 9.0}


class LeaseInvariants:
    """`violated(invariant, what)` is called for each violation. `time`: the loop's; `controllers`: who is checked.

    `delayed(call)`: whether the network may have held this request back.
    """

    def __init__(
        self,
        violated: Violated,
        *,
        time: Callable[[], float],
        controllers: Container[str],
        delayed: Callable[[Call], bool],
    ) -> None:
        self._violated = violated
        self._time = time
        self._controllers = controllers
        self._delayed = delayed
        # The Leases of controllers, each with its holder, "" for none, and the end of its term.
        self._leases: dict[tuple[str, str], tuple[str, float]] = {}
        self._writer = ""

    def written(self, call: Call) -> None:
        """I6: a controller sends a write, which is about to be served."""
        if not self._leases:
            return
        now, until = self._time(), max((end for who, end in self._leases.values() if who == call.who), default=None)
        # Of several Leases (a version that keeps it in another place), each can have a holder: one of them may write.
        others = {who for who, end in self._leases.values() if who not in ("", call.who) and now <= end}
        if until is None:
            holder = next((who for who, _ in self._leases.values() if who), "")
            self._violated("I6", f"{call.who} wrote while {holder or 'no process'} held the lease: {call}")
        elif now > until:
            self._violated("I6", f"{call.who} wrote {now - until:.3f} s after its lease had expired: {call}")
        elif until - now < REQUEST_SECONDS[call.system] and not self._delayed(call):
            self._violated("I6", f"{call.who} wrote {until - now:.3f} s before its lease expires: {call}")
        elif self._writer in others:
            self._violated("I6", f"{call.who} wrote while {self._writer} led by another lease: {call}")
        self._writer = call.who

    def lease_changed(self, lease: Json, before: Json | None, *, gone: bool) -> None:
        """A Lease was created, changed or deleted."""
        if gone or (before is not None and _term(lease) == _term(before)):
            return  # the holder cannot know that its Lease was deleted, and its term is not renewed
        key, call = (lease["metadata"].get("namespace", ""), lease["metadata"]["name"]), CURRENT_CALL.get()
        who = call.who if call is not None else ""
        if who in self._controllers or key in self._leases:
            spec = lease.get("spec") or {}
            seconds = float(spec.get("leaseDurationSeconds") or 0)
            self._leases[key] = (who if spec.get("holderIdentity") else "", self._time() + seconds)


def _term(lease: Json) -> tuple[object, ...]:
    spec = lease.get("spec") or {}
    return tuple(spec.get(field) for field in ("holderIdentity", "renewTime", "leaseDurationSeconds"))
