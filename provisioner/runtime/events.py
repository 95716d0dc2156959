"""Recorder of Kubernetes Events, which `kubectl describe` shows.

`record` neither waits nor fails; Events beyond the rate limit are dropped and counted. The Event states when the same
is recorded again, as in Karpenter; a new process may repeat it once. The same message about the same object is one
Event with a count. Its name is a hash of them, so the count continues after a restart. Messages are redacted,
printable and at most 1024 bytes long.

Source: docs/references/karpenter.md#events,
https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/ (message 1024 bytes, reason 128).
"""

import asyncio
import hashlib
import math
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Never

from provisioner.api.text import printable
from provisioner.api.time import rfc3339

from .clock import Clock
from .kube import Kube, KubeError
from .logs import get_logger
from .metrics import EventMetrics, Metrics
from .objects import EVENT_TTL_SECONDS, EventContent, ObjectReference, Recordable
from .redaction import redact
from .resources import EVENTS

COMPONENT = "gpu-provisioner"
MESSAGE_BYTES = 1024
REASON_CHARACTERS = 128
QUEUED_MAX = 500
RECORDED_MAX = 16_384
ATTEMPTS = 3
RETRY_SECONDS_MAX = 30.0

log = get_logger("events")


@dataclass(frozen=True, slots=True)
class _Pending:
    key: int
    subject: ObjectReference
    type: str
    reason: str
    message: str
    first: datetime
    last: datetime
    times: int


@dataclass(frozen=True, slots=True)
class _Recorded:
    """`at`: the loop time of the last record; `count`: of the Event as it was written, 0 before that.

    `last`: of a reason, the key of the Event that was recorded last.
    """

    at: float
    count: int = 0
    last: int = 0


class EventRecorder:
    """At most `per_second` Events on average and `burst` at once; more are dropped. `run` writes them."""

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        *,
        component: str = COMPONENT,
        instance: str = "",
        per_second: float = 10.0,
        burst: int = 100,
        metrics: EventMetrics | None = None,
    ) -> None:
        self._kube = kube
        self._clock = clock
        self._component = component
        self._instance = instance or component
        self._per_second = per_second
        self._burst = burst
        self._metrics = metrics or Metrics().events()
        self._tokens = float(burst)
        self._tokens_at: float | None = None
        self._queued: dict[int, _Pending] = {}
        # By the hash of what is the same, so that an entry is small; the oldest one is the first.
        self._recorded: dict[int, _Recorded] = {}
        self._wake = asyncio.Event()

    def record(self, about: Recordable | ObjectReference, event: EventContent, *, reserve: int = 0) -> bool:
        """Queue an Event about this object; False if it is dropped, or was recorded shortly before.

        It is also dropped if fewer than `reserve` further Events would be possible: for Events that come in bulk.
        """
        subject, now = _reference(about), self._now()
        key, topic = _key(subject, event.type, event.reason, event.message), _key(subject, event.reason)
        # Of messages that alternate, each is recorded again once another one is the last.
        lasts = not event.apart_seconds or self._recorded.get(topic, _Recorded(now, last=key)).last == key
        if (lasts and now - self._at(key) < event.repeat_seconds) or now - self._at(topic) < event.apart_seconds:
            return False
        if (queued := self._queued.get(key)) is not None:
            self._queued[key] = replace(queued, last=self._clock.now(), times=queued.times + 1)
        elif len(self._queued) < QUEUED_MAX - reserve and self._take_token(reserve):
            self._queued[key] = self._pending(key, subject, event)
            self._wake.set()
        else:
            self._metrics.dropped.inc()
            return False
        for one in (key, topic) if event.apart_seconds else (key,):
            self._note_recorded(one, now, key)
        return True

    def recorded_at(self, about: Recordable, event: EventContent) -> float:
        """The loop time at which this Event was recorded last; -inf if it was not, or long ago."""
        return self._at(_key(_reference(about), event.type, event.reason, event.message))

    async def record_now(self, about: Recordable, event: EventContent) -> None:
        """Write one Event before returning, for actions that require a record. Raises KubeError."""
        await self._create_or_count(self._pending(0, _reference(about), event))

    async def run(self) -> Never:
        """Write queued Events in order until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queued:
                await self._write(self._queued.pop(next(iter(self._queued))))

    def _pending(self, key: int, subject: ObjectReference, event: EventContent) -> _Pending:
        text, now = _message(event.message), self._clock.now()
        return _Pending(key, subject, event.type, event.reason[:REASON_CHARACTERS], text, now, now, 1)

    async def _write(self, pending: _Pending) -> None:
        for attempt in range(ATTEMPTS):
            try:
                await self._create_or_count(pending)
            except KubeError as error:
                if not error.retryable or attempt == ATTEMPTS - 1:
                    self._metrics.dropped.inc()
                    log.warning("dropped event", reason=pending.reason, object=pending.subject.name, error=str(error))
                    return
                await asyncio.sleep(min(error.retry_after or 2.0**attempt, RETRY_SECONDS_MAX))
            else:
                self._metrics.sent.inc()
                return

    async def _create_or_count(self, pending: _Pending) -> None:
        name, recorded = _name(pending), self._recorded.get(pending.key)
        if recorded is not None and recorded.count:
            try:
                await self._count(name, pending, recorded.count)
            except KubeError as error:
                if not error.not_found:
                    raise
            else:
                return
        try:
            await self._kube.create(EVENTS, self._body(name, pending), namespace=_namespace(pending.subject))
            self._note_count(pending.key, pending.times)
        except KubeError as error:
            if not error.conflict:
                raise
            # A previous process wrote it, and it has not expired; usually Events do after an hour.
            existing = await self._kube.get(EVENTS, name, namespace=_namespace(pending.subject))
            await self._count(name, pending, existing.count)

    async def _count(self, name: str, pending: _Pending, before: int) -> None:
        count = before + pending.times
        body = {"count": count, "lastTimestamp": rfc3339(pending.last)}
        await self._kube.patch(EVENTS, name, body, patch_type="merge", namespace=_namespace(pending.subject))
        self._note_count(pending.key, count)

    def _body(self, name: str, pending: _Pending) -> dict[str, Any]:
        subject = pending.subject
        return {
            "metadata": {"name": name, "namespace": _namespace(subject)},
            "involvedObject": {
                "apiVersion": subject.api_version,
                "kind": subject.kind,
                "name": subject.name,
                "namespace": subject.namespace,
                "uid": subject.uid,
                "resourceVersion": subject.resource_version,
            },
            "type": pending.type,
            "reason": pending.reason,
            "message": pending.message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
            "firstTimestamp": rfc3339(pending.first),
            "lastTimestamp": rfc3339(pending.last),
            "count": pending.times,
        }

    def _at(self, key: int) -> float:
        recorded = self._recorded.get(key)
        return recorded.at if recorded is not None else -math.inf

    def _note_recorded(self, key: int, now: float, last: int) -> None:
        before = self._recorded.pop(key, None)
        self._recorded[key] = _Recorded(now, before.count if before is not None else 0, last)
        while len(self._recorded) > RECORDED_MAX or now - self._at(next(iter(self._recorded))) > EVENT_TTL_SECONDS:
            del self._recorded[next(iter(self._recorded))]

    def _note_count(self, key: int, count: int) -> None:
        if (recorded := self._recorded.get(key)) is not None:
            self._recorded[key] = replace(recorded, count=count)

    def _take_token(self, reserve: int) -> bool:
        now = self._now()
        since = now - self._tokens_at if self._tokens_at is not None else 0.0
        self._tokens = min(float(self._burst), self._tokens + since * self._per_second)
        self._tokens_at = now
        if self._tokens < 1.0 + reserve:
            return False
        self._tokens -= 1.0
        return True

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _message(text: str) -> str:
    return truncate(printable(redact(text)), MESSAGE_BYTES)


def truncate(text: str, bytes_max: int) -> str:
    """The text, truncated to `bytes_max` bytes of UTF-8 with an ellipsis at the end."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= bytes_max:
        return raw.decode("utf-8")
    return raw[: bytes_max - 3].decode("utf-8", "ignore") + "…"


def _reference(about: Recordable | ObjectReference) -> ObjectReference:
    if isinstance(about, ObjectReference):
        return about
    meta = about.metadata
    return ObjectReference(
        api_version=about.api_version,
        kind=about.kind,
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )


def _namespace(subject: ObjectReference) -> str:
    return subject.namespace or "default"


def _identity(subject: ObjectReference, *words: str) -> tuple[str, ...]:
    return subject.kind, subject.namespace, subject.name, subject.uid, *words


def _key(subject: ObjectReference, *words: str) -> int:
    return hash(_identity(subject, *words))


def _name(pending: _Pending) -> str:
    identity = "\0".join(_identity(pending.subject, pending.type, pending.reason, pending.message))
    digest = hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest()[:16]
    return f"{pending.subject.name[:200].rstrip('.-')}.{digest}"
