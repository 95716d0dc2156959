"""Errors of cloud calls, classified by what to do next.

    CloudError
    ├── NotFound      the instance is proven absent: the response names this pool
    ├── Retryable     retry after `after` seconds (`None`: the back-off of the workqueue)
    ├── NoCapacity    this offering is unavailable, others may be available (`scope` states which)
    └── Rejected      the request is invalid in its present form; retry after `after` seconds

Each error has a CamelCase `reason`, valid as the reason of a condition, and a `message` of at most 256 bytes: the cause
(code, then text, no URL), then the remedy. It contains no secrets.
"""

from collections.abc import Iterable
from typing import ClassVar, Literal

from provisioner.api.field_error import FieldError

# The reason of a 429 of ARM itself, which applies to the whole subscription.
SUBSCRIPTION_THROTTLED = "SubscriptionThrottled"

# The reason of a quota that is used up.
QUOTA_EXCEEDED = "QuotaExceeded"

# `cluster`: a limit of the cluster (the number of agent pools), independent of the offering. `subnet`: the addresses of
# the machine's subnet. `request`: whatever the offering, the same request of this claim fails.
Scope = Literal["size", "zone", "priority", "region", "configuration", "cluster", "subnet", "request"]


class CloudError(Exception):
    """The base class. `after` is in seconds, None if unknown; `status` is the HTTP status, 0 without a response."""

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
    """The named instance does not exist; never raised for a 404 of its cluster or resource group."""

    kind: ClassVar[str] = "not_found"


class Retryable(CloudError):
    """A temporary failure: throttling, a conflict, a lost response, a service error.

    `conflict` is True if another operation runs on the pool or the name is taken (409, 412): read the pool at once.
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
    """The quota or the capacity of an offering is exhausted."""

    kind: ClassVar[str] = "no_capacity"

    def __init__(
        self, reason: str, message: str, *, scope: Scope, after: float | None = None, code: str = "", status: int = 0
    ) -> None:
        super().__init__(reason, message, after=after, code=code, status=status)
        self.scope = scope


class Rejected(CloudError):
    """A request that is unlikely to succeed later in the same form.

    `final` is True only for errors of our validation of the immutable spec: no retry can succeed. `scope`: what is
    refused; the request for another offering may be accepted.
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
        scope: Scope = "size",
    ) -> None:
        super().__init__(reason, message, after=after, code=code, status=status)
        self.final = final
        self.scope = scope


def reject(errors: Iterable[FieldError]) -> None:
    """Raise the first error, if there is one, as Rejected (final)."""
    for error in errors:
        raise Rejected(error.reason, str(error), final=True)
