"""Checks how a controller requests again what Azure had no capacity for: later each time, and for one claim (I33).

An offering is a size with a capacity type and zones. Requests count that one process sent after it had seen the failure
before, which it has when it deletes the failed agent pool of a claim that exists. An agent pool that runs, or a Node
that registers, whatever its offering, ends all of it: Azure has capacity again.

Source: docs/references/rules.md#unavailable-offerings.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from .audit_log import Call
from .azure.agentpool import Pool
from .snapshot import Snapshot, deleting, pool_mark

Json = dict[str, Any]
Violated = Callable[[str, str], None]

# The delays after the failures in a row, in seconds: the first one, which doubles, and the longest one.
FIRST_SECONDS, MOST_SECONDS = 30.0, 300.0
# A row without a failure for so long begins anew, and a request is waited for by other claims for so long.
FORGOTTEN_SECONDS, WAIT_SECONDS = 3600.0, 500.0
CODES = ("ZonalAllocationFailed", "OverconstrainedZonalAllocationRequest", "AllocationFailed", "SkuNotAvailable")
# The process, the size, the capacity type and the zones.
Offering = tuple[str, str, str, tuple[str, ...]]


class _Request(msgspec.Struct, frozen=True):
    """An agent pool that a controller created at `at` for the claim of this UID, and that is not known to run."""

    offering: Offering
    at: float
    claim: str


class _Row(msgspec.Struct):
    """Failures in a row, which the process has seen. `failed_at`: of the last one; `known_at`: when that was seen."""

    count: int
    failed_at: float
    known_at: float


class OfferingInvariants:
    """`violated(invariant, what)` is called for each violation. `time`: the loop's."""

    def __init__(self, snapshot: Snapshot, violated: Violated, *, time: Callable[[], float]) -> None:
        self._snapshot = snapshot
        self._violated = violated
        self._time = time
        self._requests: dict[str, _Request] = {}
        # When the pool of a request failed, and for which of `CODES`.
        self._failed: dict[str, tuple[float, str]] = {}
        self._rows: dict[tuple[Offering, str], _Row] = {}

    def node_created(self) -> None:
        """A Node registered: a controller may know from it that its machine runs."""
        self._rows.clear()

    def pool_changed(self, pool: Pool, event: str, call: Call | None) -> None:
        """An agent pool was created, changed or deleted; `call`: by this request of a controller.

        I33: a controller created it too soon, or while another claim tries the offering.
        """
        name, now = pool.name, self._time()
        if event == "creating" and call is not None:
            request = _Request((call.who, pool.size, pool.priority, pool.zones), now, pool_mark(pool))
            self._check(request, pool)
            self._requests[name] = request
            self._failed.pop(name, None)
        elif pool.state == "Succeeded":
            self._requests.pop(name, None)
            self._rows.clear()
        elif event == "failed" and name in self._requests and not pool.machines:
            code = next((one for one in CODES if one in str(pool.error)), "")
            self._failed.setdefault(name, (now, code))
        elif event in ("deleting", "gone"):
            self._ended(name, call)

    def _ended(self, name: str, call: Call | None) -> None:
        request, (failed_at, code) = self._requests.pop(name, None), self._failed.pop(name, (0.0, ""))
        if request is None or call is None or call.who != request.offering[0] or not code or self._is_left(request):
            return
        key, now = (request.offering, code), self._time()
        row = self._rows.get(key)
        if row is None or now - row.failed_at > FORGOTTEN_SECONDS:
            self._rows[key] = _Row(1, failed_at, now)
        elif request.at > row.known_at:
            self._rows[key] = _Row(row.count + 1, failed_at, now)

    def _check(self, request: _Request, pool: Pool) -> None:
        for (offering, code), row in self._rows.items():
            ago = request.at - row.failed_at
            if offering != request.offering or ago > FORGOTTEN_SECONDS:
                continue
            words = f"{offering[0]} created pool {pool.name} of {pool.size}"
            # One less than there were: what ends the row can be seen after the next failure.
            least = min(FIRST_SECONDS * 2 ** (row.count - 2), MOST_SECONDS) if row.count > 1 else 0.0
            if ago < least:
                self._violated("I33", f"{words} {ago:.0f} s after its failure ({code}), the {row.count}th in a row")
            for other, before in self._requests.items():
                under_way = other not in self._failed and row.known_at < before.at > request.at - WAIT_SECONDS
                if before.offering == offering and other != pool.name and under_way and not self._is_left(before):
                    self._violated("I33", f"{words} after a failure ({code}), and {other} is being tried")

    def _is_left(self, request: _Request) -> bool:
        """Whether no claim needs it any more."""
        claim = self._snapshot.claims.get(request.claim)
        return claim is None or deleting(claim)
