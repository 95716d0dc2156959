"""Recorder of Kubernetes Events, which `kubectl describe` shows.

`record` neither waits nor fails; Events beyond the rate limit are dropped and counted. The same message about the same
object is one Event with a count. Its name is a hash of them, so the count continues after a restart. Messages are
redacted, printable and at most 1024 bytes long.

Source: docs/references/karpenter.md#events,
https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/ (message 1024 bytes, reason 128).
"""

import asyncio
import hashlib
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, Never

from provisioner.api.text import printable
from provisioner.api.time import rfc3339

from .clock import Clock
from .kube import Kube, KubeError
from .logs import get_logger
from .metrics import EventMetrics, Metrics
from .objects import ObjectReference, Recordable
from .redaction import redact
from .resources import EVENTS

EventKind = Literal["Normal", "Warning"]

COMPONENT = "gpu-provisioner"
SERIES_SECONDS = 120.0
MESSAGE_BYTES = 1024
REASON_CHARACTERS = 128
QUEUED_MAX = 500
WRITTEN_MAX = 4096
ATTEMPTS = 3
RETRY_SECONDS_MAX = 30.0

log = get_logger("events")


@dataclass(frozen=True, slots=True)
class _Pending:
    subject: ObjectReference
    type: EventKind
    reason: str
    message: str
    first: datetime
    last: datetime
    times: int


@dataclass(frozen=True, slots=True)
class _Written:
    count: int
    at: float


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
        self._queued: dict[str, _Pending] = {}
        self._written: dict[str, _Written] = {}
        self._wake = asyncio.Event()

    def record(
        self,
        about: Recordable | ObjectReference,
        type: EventKind,  # noqa: A002
        reason: str,
        message: str,
        *,
        reserve: int = 0,
    ) -> bool:
        """Queue an Event about this object; False if it is dropped.

        It is also dropped if fewer than `reserve` further Events would be possible: for Events that come in bulk.
        """
        subject = about if isinstance(about, ObjectReference) else _reference(about)
        text = _message(message)
        name = _name(subject, type, reason, text)
        now = self._clock.now()
        if (queued := self._queued.get(name)) is not None:
            self._queued[name] = replace(queued, last=now, times=queued.times + 1)
            return True
        if len(self._queued) >= QUEUED_MAX - reserve or not self._take_token(reserve):
            self._metrics.dropped.inc()
            return False
        self._queued[name] = _Pending(subject, type, reason[:REASON_CHARACTERS], text, now, now, 1)
        self._wake.set()
        return True

    async def record_now(self, about: Recordable, type: EventKind, reason: str, message: str) -> None:  # noqa: A002
        """Write one Event before returning, for actions that require a record. Raises KubeError."""
        subject, text, now = _reference(about), _message(message), self._clock.now()
        pending = _Pending(subject, type, reason[:REASON_CHARACTERS], text, now, now, 1)
        await self._create_or_count(_name(subject, type, reason, text), pending)

    async def run(self) -> Never:
        """Write queued Events in order until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queued:
                name, pending = next(iter(self._queued.items()))
                del self._queued[name]
                await self._write(name, pending)

    async def _write(self, name: str, pending: _Pending) -> None:
        for attempt in range(ATTEMPTS):
            try:
                await self._create_or_count(name, pending)
            except KubeError as error:
                if not error.retryable or attempt == ATTEMPTS - 1:
                    self._metrics.dropped.inc()
                    log.warning("dropped event", reason=pending.reason, object=pending.subject.name, error=str(error))
                    return
                await asyncio.sleep(min(error.retry_after or 2.0**attempt, RETRY_SECONDS_MAX))
            else:
                self._metrics.sent.inc()
                return

    async def _create_or_count(self, name: str, pending: _Pending) -> None:
        written = self._written.get(name)
        if written is not None and self._now() - written.at < SERIES_SECONDS:
            try:
                await self._count(name, pending, written.count)
            except KubeError as error:
                if not error.not_found:
                    raise
            else:
                return
        try:
            await self._kube.create(EVENTS, self._body(name, pending), namespace=_namespace(pending.subject))
            self._note_written(name, pending.times)
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
        self._note_written(name, count)

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

    def _note_written(self, name: str, count: int) -> None:
        self._written.pop(name, None)
        self._written[name] = _Written(count, self._now())
        if len(self._written) > WRITTEN_MAX:
            del self._written[next(iter(self._written))]

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


def _reference(about: Recordable) -> ObjectReference:
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


def _name(subject: ObjectReference, kind: EventKind, reason: str, message: str) -> str:
    identity = "\0".join((subject.kind, subject.namespace, subject.name, subject.uid, kind, reason, message))
    digest = hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest()[:16]
    return f"{subject.name[:200].rstrip('.-')}.{digest}"
