"""Structured logs in Karpenter's format: one JSON object per line, or colour on a terminal (NO_COLOR is honoured).

Keys are `level` (upper case), `time` (ISO 8601, milliseconds, UTC), `logger`, `message`, `commit` if known, `caller` at
debug level, then the context, then `error`. Every value is redacted, tracebacks included. Control and direction
characters are escaped, so that a name cannot forge a line. Libraries log from WARNING on.

Repeated lines are sampled as zap's sampler does it for Karpenter: of lines with the same level, logger and message the
first hundred of a second pass, then every hundredth. Lines about writes to the cluster and to Azure are an audit log
and always pass.

Source: docs/references/karpenter.md#process, docs/references/reliability.md#threats (audit).
"""

import json
import logging
import os
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor

from provisioner.api.text import printable

from .clock import Clock
from .redaction import MASK, is_secret, redact

FIRST_KEYS = ("level", "time", "logger", "message", "commit", "caller")
# Those of a reconcile follow, in Karpenter's order; context variables have none.
RECONCILE_KEYS = (
    "controller",
    "controllerGroup",
    "controllerKind",
    "NodeClaim",
    "namespace",
    "name",
    "reconcileID",
    "key",
)
ORDER = (*FIRST_KEYS, *RECONCILE_KEYS)
NESTING_MAX = 6
CALLSITE = structlog.processors.CallsiteParameterAdder(
    {structlog.processors.CallsiteParameter.MODULE, structlog.processors.CallsiteParameter.LINENO},
    additional_ignores=[__name__],
)
QUIET_LIBRARIES = ("azure", "aiohttp", "asyncio", "celpy", "kubernetes_asyncio", "msal")
FIRST, THEREAFTER = 100, 100
# The loggers of writes and of what they mean.
AUDIT = frozenset({"actuator", "cloudprovider", "lifecycle"})


def get_logger(name: str) -> Any:
    """A logger with `logger: name` in its lines. It may be created before `configure`."""
    return structlog.get_logger(name)


def configure(
    clock: Clock, *, level: str = "info", stream: TextIO | None = None, console: bool | None = None, commit: str = ""
) -> None:
    """Configure structlog and the standard library's logging for the process.

    `level` is debug, info, warning or error; `console` None means True if `stream` (stderr) is a terminal.
    """
    out = stream or sys.stderr
    threshold = logging.getLevelNamesMapping()[level.upper()]
    console_format = out.isatty() if console is None else console
    shared = _shared(clock, {"commit": commit} if commit else {})
    caller = [_caller] if threshold <= logging.DEBUG else []
    structlog.configure(
        processors=[*shared, Sampling(clock), *caller, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_rendering(console_format)],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(threshold)
    for library in QUIET_LIBRARIES:
        logging.getLogger(library).setLevel(max(threshold, logging.WARNING))


def safe(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """A structlog processor: redact all values, nested ones too, and mask values of secret keys."""
    return {key: MASK if is_secret(key) else _redacted(value, NESTING_MAX) for key, value in event.items()}


def _shared(clock: Clock, fields: Mapping[str, str]) -> list[Processor]:
    def stamp(_logger: Any, _method: str, event: EventDict) -> EventDict:
        event["time"] = clock.now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        event.update(fields)
        return event

    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        stamp,
        structlog.processors.format_exc_info,
    ]


def _caller(logger: Any, method: str, event: EventDict) -> EventDict:
    event = CALLSITE(logger, method, event)
    event["caller"] = f"{event.pop('module')}.py:{event.pop('lineno')}"
    return event


def _rendering(console: bool) -> list[Processor]:
    if console:
        return [
            safe,
            _printable,
            structlog.dev.ConsoleRenderer(
                colors=not os.environ.get("NO_COLOR"),
                timestamp_key="time",
                exception_formatter=structlog.dev.plain_traceback,
            ),
        ]
    return [_ordered, safe, structlog.processors.JSONRenderer(serializer=_one_line)]


def _ordered(_logger: Any, _method: str, event: EventDict) -> EventDict:
    event["message"] = event.pop("event", "")
    event["level"] = str(event.get("level", "info")).upper()
    if "exception" in event:
        event["error"] = event.pop("exception")
    return {**{key: event[key] for key in ORDER if key in event}, **event}


def _one_line(event: Mapping[str, Any], **_: Any) -> str:
    # ASCII output escapes control characters, ANSI colours and text direction marks.
    return json.dumps(event, default=str, ensure_ascii=True)


def _redacted(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return redact(value)
    if depth == 0 or isinstance(value, bool | int | float | type(None)):
        return value if depth else MASK
    if isinstance(value, Mapping):
        return {str(k): MASK if is_secret(str(k)) else _redacted(v, depth - 1) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_redacted(item, depth - 1) for item in value]
    return redact(str(value))


def _printable(_logger: Any, _method: str, event: EventDict) -> EventDict:
    return {
        key: printable(value, keep="\n\t" if key == "exception" else "") if isinstance(value, str) else value
        for key, value in event.items()
    }


class Sampling:
    """A structlog processor; it runs after those that add level and logger."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._second = -1
        self._counts: Counter[tuple[object, object, object]] = Counter()

    def __call__(self, _logger: Any, _method: str, event: EventDict) -> EventDict:
        """The event unchanged. Raises DropEvent for a line that is sampled out."""
        if event.get("logger") in AUDIT:
            return event
        second = int(self._clock.now().timestamp())
        if second != self._second:
            self._second = second
            self._counts.clear()
        line = (event.get("level"), event.get("logger"), event.get("event"))
        self._counts[line] += 1
        excess = self._counts[line] - FIRST
        if excess > 0 and excess % THEREAFTER:
            raise structlog.DropEvent
        return event
