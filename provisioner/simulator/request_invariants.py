"""Checks the requests of a controller: how often it sends them, on which conditions, and with what knowledge.

Source: docs/references/rules.md#invariants.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from provisioner.api import labels

from .audit_log import Call, current_write
from .azure.agentpool import Pool
from .snapshot import Snapshot, annotations_of, deleting, has_finalizer, pool_mark

Json = dict[str, Any]
Violated = Callable[[str, str], None]
# Whether an answer that was sent has arrived, or can: its connection is neither held nor closed.
Delivered = Callable[[], bool]

# A retry comes after 5 s or later, and a read that shows a deletion after a minute or sooner.
MOST_A_MINUTE, MOST_DELETES, ACCEPTED_SECONDS = 30, 6, 60.0
# A NodeClaim is read at most so long before its agent pool is requested; the request may wait for its turn.
READ_SECONDS = 60.0
# A request that was sent takes effect so late at most; what arrives later cannot be waited for.
EFFECT_SECONDS = 60.0
# An answer takes so long at most to arrive.
ANSWER_SECONDS = 0.1
# Of the cluster, what a controller deletes or evicts by its UID.
BY_UID = frozenset({"pods", "nodes", "nodeclaims"})
_KINDS = {"nodes": "node", "nodeclaims": "claim"}


class RequestInvariants:
    """`violated(invariant, what)` is called for each violation. `time`: the loop's."""

    def __init__(self, snapshot: Snapshot, violated: Violated, *, time: Callable[[], float]) -> None:
        self._snapshot = snapshot
        self._violated = violated
        self._time = time
        # The last writes of each caller, verb and pool; those of the kind DELETE since the deletion began.
        self._pool_writes: dict[tuple[str, str, str], deque[Call]] = {}
        # The UIDs of claims that have had the finalizer, and when claims were deleted.
        self._held: set[str] = set()
        self._deleted: dict[str, float] = {}
        # The UIDs of claims whose finalizer a controller has removed.
        self._released: set[str] = set()
        # Whose machine a claim is to adopt, and has been since its creation; "" for others. By UID.
        self._adopts: dict[str, str] = {}
        # The write that changed each Node and claim last, None for one of somebody else, and its answer.
        self._changed: dict[tuple[str, str], Call | None] = {}
        self._answers: dict[Call, tuple[float, Delivered]] = {}
        # The last change that the sender of a write has had the answer of, by the number of the write.
        self._known: dict[int, Call] = {}

    def called(self, call: Call) -> None:
        """A controller sends a request: what it lists or watches anew may be older than its own writes."""
        if call.verb in ("LIST", "WATCH") and call.target.kind in _KINDS:
            changed = self._changed.items()
            for one in [one for (kind, _), one in changed if kind == call.target.kind and one is not None]:
                if one.who == call.who:
                    self._answers.pop(one, None)

    def arrived(self, call: Call, headers: Mapping[str, str]) -> None:
        """I10 and I28, before a write of a controller is served: it is repeated, or would strike whatever is there."""
        if call.target.kind == "pools":
            self._check_repetition(call)
            needed = {"PUT": ("If-None-Match", "If-Match"), "DELETE": ("If-Match",)}.get(call.verb, ())
            if needed and not call.target.subresource and not any(headers.get(name) for name in needed):
                self._violated(
                    "I28", f"{call.who} sent a {call.verb} of pool {call.target.name} unconditionally: {call}"
                )
        last = self._changed.get((call.target.kind, call.target.name))
        if last is None or last.who != call.who or last not in self._answers:
            return
        at, delivered = self._answers[last]
        if call.at - at > ANSWER_SECONDS and delivered():
            self._known[call.number] = last

    def answered(self, call: Call, status: int, body: bytes, delivered: Delivered) -> None:
        """I28 and I30, after a write of a controller to the cluster was served with this body."""
        kind, name, subresource = call.target
        known = self._known.pop(call.number, None)
        if call.system != "kube":
            return
        if self._changed.get((kind, name)) is call:
            self._answers[call] = self._time(), delivered
        if kind in BY_UID and (call.verb == "DELETE" or subresource == "eviction"):
            sent: Json = msgspec.json.decode(body) if body else {}
            options = sent.get("deleteOptions") or {} if subresource == "eviction" else sent
            if not (options.get("preconditions") or {}).get("uid"):
                self._violated("I28", f"{call.who} deleted one of the {kind}, {name}, by its name alone: {call}")
        conflicts = status == 409 and call.verb in ("PUT", "PATCH")
        if conflicts and known is not None and self._changed.get((kind, name)) is known:
            self._violated("I30", f"{call.who} did not know its own write #{known.number} of {kind}/{name}: {call}")

    def object_changed(self, kind: str, obj: Json, *, gone: bool) -> None:
        """A Node or NodeClaim was created, changed or deleted."""
        name = obj["metadata"]["name"]
        before, self._changed[kind, name] = self._changed.get((kind, name)), current_write(_KINDS[kind], name)
        if before is not None:
            self._answers.pop(before, None)
        if kind == "nodeclaims":
            uid = obj["metadata"]["uid"]
            wanted = annotations_of(obj).get(labels.ADOPT, "")
            # Of one that is annotated later, the request may be on its way.
            if gone or self._adopts.setdefault(uid, "" if uid in self._snapshot.claims else wanted) != wanted:
                self._adopts[uid] = ""
            if has_finalizer(obj):
                self._held.add(uid)
            if gone or deleting(obj):
                self._deleted.setdefault(uid, self._time())

    def claim_released(self, claim: Json) -> None:
        """A controller removed the finalizer of this claim."""
        self._released.add(claim["metadata"]["uid"])

    def pool_created(self, call: Call, pool: Pool) -> None:
        """I2 and I29: a request of a controller to create a pool took effect."""
        uid = pool_mark(pool)
        if not uid:
            return
        if uid in self._released and self._time() - call.at <= EFFECT_SECONDS:
            self._violated("I2", f"the claim of pool {pool.name} was released while it was being requested: {call}")
        if uid not in self._held:
            self._violated("I29", f"{call.who} created pool {pool.name}, whose claim has had no finalizer: {call}")
        owner = self._snapshot.claims.get(self._adopts.get(uid, ""))
        if owner is not None and not deleting(owner) and owner["metadata"]["uid"] != uid:
            name = owner["metadata"]["name"]
            self._violated("I29", f"{call.who} created pool {pool.name}, whose claim is to adopt that of {name}")
        ago = call.at - self._deleted.get(uid, call.at)
        if ago > READ_SECONDS:
            self._violated(
                "I29", f"{call.who} created pool {pool.name}, whose claim was deleted {ago:.0f} s ago: {call}"
            )

    def deletion_ended(self, name: str) -> None:
        """The pool is gone, or is not being deleted."""
        for key in [key for key in self._pool_writes if key[1:] == ("DELETE", name)]:
            del self._pool_writes[key]

    def _check_repetition(self, call: Call) -> None:
        verb, name = call.verb, call.target.name
        before = self._pool_writes.setdefault((call.who, verb, name), deque(maxlen=MOST_A_MINUTE))
        if len(before) == MOST_A_MINUTE and call.at - before[0].at < 60.0:
            self._violated(
                "I10", f"{call.who} sent {MOST_A_MINUTE} times {verb} for pool {name} within a minute: {call}"
            )
        pool = self._snapshot.pools.get(name)
        going = verb == "DELETE" and pool is not None and pool.state == "Deleting"
        known = any(one.status == 202 and call.at - one.at > ACCEPTED_SECONDS for one in before)
        if going and (known or sum(one.status in {202, 409} for one in before) >= MOST_DELETES):
            self._violated("I10", f"{call.who} deleted pool {name} again, which is being deleted: {call}")
        before.append(call)
