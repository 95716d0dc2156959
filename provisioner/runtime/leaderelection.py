"""Leader election with a Lease, as client-go's `leaderelection` does it, on the clock of the event loop.

`remaining()` is never longer than the time that other replicas still wait: it counts from before the request that
renewed the Lease, they count from when they observe the renewal. Wall clocks of two machines are never compared for it.
A leader that cannot renew stops while `retry_period_seconds` are left, so that its work has ended before another
replica may start. On shutdown the work stops first; then the Lease is released, unless it was lost or a cancelled write
may still be applied (then it expires). If the work fails, so does the election. A Lease that was deleted counts as held
until the term that was observed last ends; its holder creates it again.

A Lease that moved to another namespace has a `former` one: where it exists, the work starts only once it is held as
well, so that a version that knows only one of the two never leads at the same time.

Source: docs/references/reliability.md#lease-rules, docs/references/reliability.md#leadership-and-time,
docs/references/kubernetes.md#leases-and-leader-election.
"""

import asyncio
import math
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime
from random import Random  # noqa: TID251 - the type; the caller seeds it
from typing import Any, NoReturn, TypeVar

import msgspec
from prometheus_client import Gauge

from .clock import Clock
from .kube import KubeError
from .logs import get_logger
from .metrics import Metrics
from .objects import Lease, LeaseSpec
from .resourcelock import LeaseLock

R = TypeVar("R")
Work = Callable[[], Coroutine[Any, Any, R]]

log = get_logger("leaderelection")


class LeadershipLost(Exception):
    """The Lease was not renewed in time, or another replica holds it. The work has been stopped."""


class _Observed(msgspec.Struct, frozen=True, kw_only=True):
    """A term of a Lease. `term_seconds`: for how long it is respected from when it was observed."""

    uid: str
    holder: str
    renew_time: str
    transitions: int
    term_seconds: float


class LeaderElector:
    """`vacant_seconds` estimates how long there was no leader before this process acquired the Lease; 0 if not known.

    `on_new_leader` is called with the identity of a new holder, "" for none.

    Raises ValueError if the Lease is too short for two more renewals.
    """

    def __init__(
        self,
        lock: LeaseLock,
        clock: Clock,
        *,
        rng: Random,
        retry_period_seconds: float = 5.0,
        request_timeout_seconds: float = 4.0,
        metrics: Gauge | None = None,
        former: "LeaderElector | None" = None,
        on_new_leader: Callable[[str], None] = lambda _: None,
    ) -> None:
        if lock.lease_duration_seconds <= 2 * retry_period_seconds + request_timeout_seconds:
            raise ValueError(
                "lease_duration_seconds must exceed twice retry_period_seconds plus request_timeout_seconds"
            )
        self._lock = lock
        self._clock = clock
        self._rng = rng
        self._retry_period_seconds = retry_period_seconds
        self._request_timeout_seconds = request_timeout_seconds
        self._metrics = metrics or Metrics().leader(lock.name)
        self._former = former
        self._on_new_leader = on_new_leader
        self._annotating = asyncio.Lock()
        self._valid_until = -math.inf
        self._observed: _Observed | None = None
        self._observed_at = 0.0
        self._no_release_before = -math.inf
        self.holder = ""
        self.needed = False
        self.vacant_seconds = 0.0

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations of the Lease, as they were read or written last; those it lacks of the former one."""
        former = self._former.annotations if self._former is not None else {}
        return {**former, **self._lock.annotations}

    async def annotate(self, name: str, value: str) -> None:
        """Set an annotation of the Lease while leading; calls are applied in their order. Raises KubeError."""
        async with self._annotating:
            await self._lock.annotate(name, value)

    def delay_release(self, seconds: float) -> None:
        """Do not release the Lease for `seconds`: a write that was cancelled in flight may be applied until then."""
        self._no_release_before = max(self._no_release_before, self._now() + seconds)
        if self._former is not None:
            self._former.delay_release(seconds)

    def remaining(self) -> float:
        """Seconds for which no other replica can become leader; 0 when not leading."""
        own = max(0.0, self._valid_until - self._now())
        return min(own, self._former.remaining()) if self._former is not None and self._former.needed else own

    async def run(self, work: Work[R]) -> R:
        """Acquire the Lease, then run `work` while renewing it. Returns and raises what `work` does.

        Raises LeadershipLost once the work has been cancelled and has ended.
        """
        await self._acquire()
        try:
            return await self._work_and_renew(work)
        finally:
            self._metrics.set(0)
            await self._release()

    async def _work_and_renew(self, work: Work[R]) -> R:
        try:
            async with asyncio.TaskGroup() as group:
                renewals = group.create_task(self._renew_until_lost(), name="renew lease")
                working = group.create_task(self._with_former(work), name="lead")
                working.add_done_callback(lambda _: renewals.cancel())
        except BaseExceptionGroup as errors:
            _raise_single(errors)
        return working.result()

    async def _with_former(self, work: Work[R]) -> R:
        """Do the work, once the former Lease is held too if it exists."""
        if self._former is None or not await self._former.exists():
            return await work()
        self._former.needed = True
        return await self._former.run(work)

    async def exists(self) -> bool:
        """Whether the Lease exists, as soon as that can be read. A Lease that must not be read does not count."""
        while True:
            try:
                async with asyncio.timeout(self._request_timeout_seconds):
                    return await self._lock.read() is not None
            except (KubeError, TimeoutError) as error:
                log.warning("failed to read the former lease", lease=self._lock.name, error=str(error) or "timed out")
                if isinstance(error, KubeError) and error.status == 403:
                    return False
            await asyncio.sleep(self._retry_period_seconds)

    async def _acquire(self) -> None:
        while not await self._try_acquire():  # noqa: ASYNC110 - each round is a request to the API server
            await asyncio.sleep(self._retry_period_seconds * self._rng.uniform(0.8, 1.2))
        self._metrics.set(1)
        log.info("became leader", lease=self._lock.name, identity=self._lock.identity)

    async def _try_acquire(self) -> bool:
        try:
            async with asyncio.timeout(self._request_timeout_seconds):
                lease = await self._lock.read()
                if not self._can_acquire(lease):
                    return False
                vacant = self._vacant(lease)
                await self._hold(lease)
                self.vacant_seconds = vacant
                return True
        except (KubeError, TimeoutError) as error:
            log.warning("failed to acquire the lease", lease=self._lock.name, error=str(error) or "timed out")
            return False

    def _can_acquire(self, lease: Lease | None) -> bool:
        """A Lease that vanished is held until the term ends that was observed last: its holder may not know yet."""
        if lease is not None and not self._is_replacement(lease):
            self._observe(lease)
        if self._observed is None or self._observed.holder in {"", self._lock.identity}:
            return True
        # The lease duration counts from when the renewal was observed, which is never before it was made.
        return self._now() - self._observed_at >= self._observed.term_seconds

    def _is_replacement(self, lease: Lease) -> bool:
        """Whether another client deleted the observed Lease and created one without a holder: nobody released it."""
        observed = self._observed
        return observed is not None and lease.metadata.uid != observed.uid and not lease.spec.holder_identity

    def _observe(self, lease: Lease) -> None:
        spec = lease.spec
        seen = _Observed(
            uid=lease.metadata.uid,
            holder=spec.holder_identity or "",
            renew_time=spec.renew_time or "",
            transitions=spec.lease_transitions or 0,
            term_seconds=max(self._lock.lease_duration_seconds, float(spec.lease_duration_seconds or 0)),
        )
        if seen != self._observed:
            self._observed, self._observed_at = seen, self._now()
        if seen.holder != self.holder:
            self.holder = seen.holder
            log.info("new leader observed", lease=self._lock.name, holder=seen.holder or "none")
            self._on_new_leader(seen.holder)

    def _vacant(self, lease: Lease | None) -> float:
        """An estimate: it compares the wall clocks of two machines."""
        try:
            renewed = datetime.fromisoformat((lease.spec.renew_time if lease is not None else "") or "")
            return max(0.0, (self._clock.now() - renewed).total_seconds())
        except (TypeError, ValueError):
            return 0.0

    async def _renew_until_lost(self) -> NoReturn:
        while True:
            await asyncio.sleep(min(self._retry_period_seconds, max(0.0, self._renewable_seconds())))
            if self._renewable_seconds() <= 0:
                self._lose("it was not renewed in time")
            try:
                async with asyncio.timeout(min(self._request_timeout_seconds, self._renewable_seconds())):
                    await self._renew()
            except (KubeError, TimeoutError) as error:
                log.warning(
                    "failed to renew the lease",
                    lease=self._lock.name,
                    remaining_seconds=round(self.remaining(), 1),
                    error=str(error) or "timed out",
                )

    async def _renew(self) -> None:
        try:
            await self._hold(Lease(spec=LeaseSpec(holder_identity=self._lock.identity)))
        except KubeError as error:
            if not (error.conflict or error.not_found):
                raise
            # Another client wrote the Lease, or our last renewal was applied and its response was lost.
            lease = await self._lock.read()
            if lease is not None and lease.spec.holder_identity != self._lock.identity:
                self._lose(f"it is held by {lease.spec.holder_identity or 'no one'}")
            await self._hold(lease)

    def _renewable_seconds(self) -> float:
        return self._valid_until - self._now() - self._retry_period_seconds

    def _lose(self, reason: str) -> NoReturn:
        self._valid_until = -math.inf
        log.error("leader election lost", lease=self._lock.name, reason=reason)
        raise LeadershipLost(f"lease {self._lock.namespace}/{self._lock.name}: {reason}")

    async def _hold(self, held: Lease | None) -> None:
        """Acquire, renew or create the Lease. The term starts before the request."""
        started = self._now()
        await self._lock.hold(held)
        self._valid_until = started + self._lock.lease_duration_seconds

    async def _release(self) -> None:
        held = self._valid_until > self._now()
        self._valid_until = -math.inf
        if not held:
            return
        if self._now() < self._no_release_before:
            log.info(
                "not releasing the lease: a cancelled write may still be applied; it expires", lease=self._lock.name
            )
            return
        try:
            async with asyncio.timeout(self._request_timeout_seconds):
                await self._lock.release()
            log.info("released the lease", lease=self._lock.name)
        except (KubeError, TimeoutError) as error:
            log.warning("failed to release the lease", lease=self._lock.name, error=str(error) or "timed out")

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _raise_single(errors: BaseExceptionGroup[BaseException]) -> NoReturn:
    if len(errors.exceptions) == 1:
        raise errors.exceptions[0] from None
    raise errors
