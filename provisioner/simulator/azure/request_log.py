"""The requests to the simulated ARM, for tests and `try`, and to check that their number is bounded (I10).

Every request is recorded with the status of its response (0: the connection was dropped). The oldest entries are
dropped when there are more than `LIMIT`.
"""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

LIMIT = 100_000


class Request(NamedTuple):
    """`method`: the verb (`Call.verb`); `pool`: "" for requests without a pool."""

    time: datetime
    method: str
    pool: str
    status: int


class Put(NamedTuple):
    """One accepted PUT of an agent pool; `created`: whether it created the pool."""

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
