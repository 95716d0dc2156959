"""What was asked of the cloud: the ledger that tests and the demo read.

Every call that arrived is noted with its answer's status (0: the connection was dropped without one); the
oldest entries go when there are more than `LIMIT`.

Used to check that the number of requests is bounded (I10).
Source: docs/references/agent-pools.md#throttling, docs/references/rules.md#invariants.
"""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

LIMIT = 100_000


class Request(NamedTuple):
    """`method` is the call's verb (`Call.verb`); `pool` is "" for calls that name none."""

    time: datetime
    method: str
    pool: str
    status: int


class Put(NamedTuple):
    """One PUT of an agent pool that was accepted; `created` tells a creation from an update."""

    time: datetime
    pool: str
    properties: Mapping[str, Any]
    created: bool


class RequestLog:
    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.puts: list[Put] = []
        self.counts: Counter[str] = Counter()

    def record(self, request: Request) -> None:
        self.counts[request.method] += 1
        self.requests.append(request)
        if len(self.requests) > LIMIT:
            del self.requests[: LIMIT // 2]

    def record_put(self, put: Put) -> None:
        self.puts.append(put)
        if len(self.puts) > LIMIT:
            del self.puts[: LIMIT // 2]
