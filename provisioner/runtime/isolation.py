"""Keeps an error that one object causes with that object: it is logged with the name and counted, and the rest goes on.

Values of objects are validated where they are read. This is for what nobody thought of: without it, one object that a
tenant can create would end a pass over all objects, or the process, again after each restart.
"""

import asyncio
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from prometheus_client import Counter

from provisioner.api.object_errors import OBJECT_ERRORS

from .logs import get_logger

# The same error of the same object is logged again after so long.
REPEAT_SECONDS = 600.0
REMEMBERED_MAX = 1000

log = get_logger("isolation")


class Isolation:
    """`errors` has the label kind."""

    def __init__(self, errors: Counter) -> None:
        self._errors = errors
        self._logged: dict[tuple[str, ...], float] = {}

    def of(self, kind: str, name: str, doing: str, report: Callable[[str], object] = str) -> "Guard":
        """A context that leaves this object out if its block raises. `report` is called with a message for users."""
        return Guard(self, kind, name, doing, report)

    def failed(self, guard: "Guard", error: BaseException) -> None:
        """Log and count an error of the object."""
        self._errors.labels(guard.kind).inc()
        why = _cause(error)
        if self._is_new((guard.kind, guard.name, guard.doing, why)):
            fields = {"kind": guard.kind, "object": guard.name, "doing": guard.doing, "error": why}
            log.error("an object is left out", **fields, trace="".join(traceback.format_exception(error)))
        guard.report(left_out(guard.doing, error))

    def _is_new(self, key: tuple[str, ...]) -> bool:
        now = asyncio.get_running_loop().time()
        if now - self._logged.get(key, float("-inf")) < REPEAT_SECONDS:
            return False
        if len(self._logged) >= REMEMBERED_MAX:
            self._logged.clear()
        self._logged[key] = now
        return True


@dataclass(frozen=True, slots=True)
class Guard:
    """The context of `Isolation.of`."""

    isolation: Isolation
    kind: str
    name: str
    doing: str
    report: Callable[[str], object]

    def __enter__(self) -> None:
        """Begin the block."""

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> bool:
        """Whether the block raised an error of the object, which ends here."""
        if not isinstance(error, OBJECT_ERRORS):
            return False
        self.isolation.failed(self, error)
        return True


def left_out(doing: str, error: BaseException) -> str:
    """The message for users about an object that is left out because of this error."""
    return f"left out of {doing}: {_cause(error)}; correct the object, or report the error in the log"


def _cause(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:200]}"
