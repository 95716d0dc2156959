"""The log lines of writes to ARM: one for each write, whatever its result, without headers, bodies or tokens.

An accepted write is INFO, as is a conflict, which is followed by a read; a refusal is WARNING. The caller's log context
adds what the provider does not know: the cause of a removal, the claim's owner, the duration.
"""

from typing import Literal

import structlog

from cloudprovider.errors import CloudError, NotFound, Retryable

Write = Literal["create", "delete"]
ACCEPTED = {"create": "created agent pool", "delete": "deleting agent pool"}
FAILED = {"create": "failed to create agent pool", "delete": "failed to delete agent pool"}
UNKNOWN = {"create": "cancelled the create of an agent pool", "delete": "cancelled the delete of an agent pool"}

log = structlog.get_logger("cloudprovider")


class WriteLog:
    """The line of one write. `fields`: what is known before it is sent."""

    def __init__(self, verb: Write, **fields: object) -> None:
        self._verb = verb
        self._fields = fields

    def accepted(self, request_id: str, status: int) -> None:
        """ARM accepted the request."""
        log.info(ACCEPTED[self._verb], **self._fields, request_id=request_id, status=status)

    def failed(self, error: CloudError, request_id: str, status: int) -> None:
        """The request failed, or was not sent because the claim's spec is invalid."""
        usual = isinstance(error, NotFound) or (isinstance(error, Retryable) and error.conflict)
        write = log.info if usual else log.warning
        write(
            FAILED[self._verb],
            **self._fields,
            request_id=request_id,
            status=status,
            code=error.code,
            reason=error.reason,
            error=error.message,
        )

    def cancelled(self, request_id: str, status: int) -> None:
        """The request was cancelled in flight: it can still take effect."""
        log.warning(UNKNOWN[self._verb], **self._fields, request_id=request_id, status=status)
