"""What can go wrong at the cloud, by what to do next.

    CloudError
    ├── NotFound      the instance is proven gone: the cluster answered and named this pool
    ├── Retryable     try again after `after` seconds (`None`: the queue's own back-off)
    ├── NoCapacity    this offering cannot be had now; other offerings may (`scope` says which are meant)
    └── Rejected      this request will not be accepted as it is; look again after `after` seconds

Every error carries a CamelCase `reason` that is fit to be a condition's reason, and a `message` of at most
256 bytes whose cause comes first (code, then words, never a URL) and whose end says what to do. No secret is in it.
"""

from collections.abc import Iterable
from typing import ClassVar, Literal

from provisioner.api.field_error import FieldError

# The reason of a 429 by which the cloud's front door refuses, on behalf of all services behind it.
THROTTLED_IN_FRONT = "SubscriptionThrottled"

# `cluster`: what the cluster itself lacks (addresses, room for one more pool), whatever is asked for.
Scope = Literal["size", "zone", "priority", "region", "configuration", "cluster"]


class CloudError(Exception):
    """The base. `reason` is CamelCase; `message` ends with the remedy; `after` is in seconds, None if not stated."""

    kind: ClassVar[str] = "error"

    def __init__(
        self, reason: str, message: str, *, after: float | None = None, code: str = "", status: int = 0
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.after = after
        self.code = code
        self.status = status

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}"


class NotFound(CloudError):
    """The named instance does not exist: an answer about this pool, never about its cluster or group."""

    kind: ClassVar[str] = "not_found"


class Retryable(CloudError):
    """Something passing: throttling, a conflict, a lost answer, a service's bad day.

    `conflict` is True when another operation holds the pool or the name is taken (409, 412): look it up at once.
    """

    kind: ClassVar[str] = "retryable"

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        after: float | None = None,
        code: str = "",
        status: int = 0,
        conflict: bool = False,
    ) -> None:
        super().__init__(reason, message, after=after, code=code, status=status)
        self.conflict = conflict


class NoCapacity(CloudError):
    """Quota or capacity: the offering is short, the claim is fine."""

    kind: ClassVar[str] = "no_capacity"

    def __init__(
        self, reason: str, message: str, *, scope: Scope, after: float | None = None, code: str = "", status: int = 0
    ) -> None:
        super().__init__(reason, message, after=after, code=code, status=status)
        self.scope = scope


class Rejected(CloudError):
    """Refused for a cause that waiting will hardly change.

    `final` is True only for what our own validation refuses in the immutable spec: no later try can succeed.
    """

    kind: ClassVar[str] = "rejected"

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        after: float | None = None,
        code: str = "",
        status: int = 0,
        final: bool = False,
    ) -> None:
        super().__init__(reason, message, after=after, code=code, status=status)
        self.final = final


def reject(errors: Iterable[FieldError]) -> None:
    """Raise the first error, if there is one, as Rejected (final)."""
    for error in errors:
        raise Rejected(error.reason, str(error), final=True)
