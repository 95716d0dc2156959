"""The interface of a cluster for tests, simulated (`harness.Sim`) or with a real API server."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from provisioner.simulator.azure.cloud import AzureCloud

T = TypeVar("T")
Json = dict[str, Any]


class Stage(Protocol):
    """Times are seconds since the world began. `store` and `audit_log` differ in type between the two worlds."""

    cloud: AzureCloud

    @property
    def store(self) -> Any: ...

    @property
    def audit_log(self) -> Any: ...

    @property
    def now(self) -> float: ...

    async def apply(self, obj: Json) -> Json: ...

    async def delete_claim(self, name: str) -> None: ...

    async def delete_node(self, name: str) -> None: ...

    async def request(
        self, method: str, path: str, body: object = None, *, content_type: str = "application/json"
    ) -> Json: ...

    def claim(self, name: str) -> Json | None: ...

    def condition(self, name: str, kind: str) -> str: ...

    def pools_of(self, uid: str) -> Any: ...

    def nodes_of(self, pool: str) -> list[Json]: ...

    def describe(self, about: str = "") -> str: ...

    async def until(self, predicate: Callable[[], T], within_seconds: float, what: str) -> T: ...
