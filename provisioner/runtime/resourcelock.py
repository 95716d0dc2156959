"""The Lease as the lock of a leader election, as in client-go's `resourcelock`.

Each write is bound to the version that was read last. Other fields of the Lease and its annotations are preserved, also
when the Lease was deleted and is created again.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from .clock import Clock
from .kube import Kube, KubeError
from .objects import Lease, micro_time
from .resources import LEASES

# Renewals and other clients write the Lease too; each conflict costs one more try.
ANNOTATE_TRIES = 4


class LeaseLock:
    """`identity` must be unique to this process.

    `on_annotations` is called when the annotations change, whoever wrote them.
    """

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        *,
        name: str,
        namespace: str,
        identity: str,
        lease_duration_seconds: float = 30.0,
        on_annotations: Callable[[Mapping[str, str]], None] = lambda _: None,
    ) -> None:
        self._kube = kube
        self._clock = clock
        self.name = name
        self.namespace = namespace
        self.identity = identity
        self.lease_duration_seconds = lease_duration_seconds
        self._on_annotations = on_annotations
        self._version = ""
        self.annotations: Mapping[str, str] = {}

    async def read(self) -> Lease | None:
        """The Lease; None if it does not exist. Raises KubeError."""
        lease = await self._kube.find(LEASES, self.name, namespace=self.namespace)
        if lease is not None:
            self._observe(lease)
        return lease

    async def hold(self, held: Lease | None) -> None:
        """Acquire or renew the Lease `held`, which was read or written last; None creates it. Raises KubeError."""
        now = micro_time(self._clock.now())
        spec: dict[str, Any] = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": math.ceil(self.lease_duration_seconds),
            "renewTime": now,
        }
        if held is None:
            spec |= {"acquireTime": now, "leaseTransitions": 0}
            metadata: dict[str, Any] = {"name": self.name, "namespace": self.namespace}
            if self.annotations:
                metadata["annotations"] = dict(self.annotations)
            lease = await self._kube.create(LEASES, {"metadata": metadata, "spec": spec}, namespace=self.namespace)
            self._observe(lease)
            return
        if held.spec.holder_identity != self.identity:
            spec |= {"acquireTime": now, "leaseTransitions": (held.spec.lease_transitions or 0) + 1}
        await self._patch({"spec": spec})

    async def annotate(self, name: str, value: str) -> None:
        """Set one annotation, while this process holds the Lease. Raises KubeError."""
        await self._patch_if_held({"metadata": {"annotations": {name: value}}}, tries=ANNOTATE_TRIES)

    async def release(self) -> None:
        """Clear the holder, if this process holds the Lease. Raises KubeError."""
        spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": micro_time(self._clock.now())}
        await self._patch_if_held({"spec": spec}, tries=2)

    async def _patch_if_held(self, body: dict[str, Any], *, tries: int) -> None:
        for left in reversed(range(tries)):
            try:
                await self._patch(body)
            except KubeError as error:
                # Another client wrote the Lease, or a renewal that was cancelled in flight was applied.
                version = self._version
                lease = await self.read() if error.conflict and left else None
                if lease is None or lease.spec.holder_identity != self.identity:
                    # The next renewal has to conflict too, or it would take the Lease from its holder.
                    self._version = version
                    raise
            else:
                return

    async def _patch(self, body: dict[str, Any]) -> None:
        body = body | {"metadata": body.get("metadata", {}) | {"resourceVersion": self._version}}
        self._observe(await self._kube.patch(LEASES, self.name, body, patch_type="merge", namespace=self.namespace))

    def _observe(self, lease: Lease) -> None:
        self._version = lease.metadata.resource_version
        if lease.metadata.annotations != self.annotations:
            self.annotations = lease.metadata.annotations
            self._on_annotations(self.annotations)
