"""Errors of metrics code are logged and counted, and its callers continue."""

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import Counter

from provisioner.runtime.logs import get_logger

log = get_logger("metrics")


@contextmanager
def guarded(errors: Counter) -> Iterator[None]:
    """Count an exception in `errors` instead of raising it."""
    try:
        yield
    except Exception:
        errors.inc()
        log.exception("metrics observer failed")
