"""Keeps the number of NodeClaims of each static NodePool at its `spec.replicas`.

A key is the name of a NodePool. NodeClaims have consecutive numbers in their names, so that the API server refuses one
that exists and that the cache lacks; before NodeClaims are deleted, they are listed from the API server.

Source: docs/references/karpenter.md#static-nodepools, docs/references/rules.md#no-machine-is-bought-twice.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from controllers.actuator.actuator import Actuator
from controllers.model.results import ReadClaims, answer
from controllers.model.steps import DeleteClaim, Event, LookUpClaims
from controllers.nodepool.static_capacity import Replica, scale
from controllers.provisioning.instances import InstanceTypes
from controllers.provisioning.nodepools import why_unusable
from controllers.provisioning.pods import bound
from controllers.provisioning.static_machine import static_machine
from provisioner.api import labels, reasons
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool
from provisioner.api.owner import is_owned_by

from .claim_creator import FENCED_SECONDS, STALE_SECONDS, ClaimCreator
from .claim_deletion import Deletion, delete_claim
from .provisioner import DemandCaches

RESYNC_SECONDS = 60.0


class StaticCapacity:
    """`instance_types` returns None while they are unknown. `wake(name)` adds a NodePool to the work queue."""

    def __init__(
        self,
        caches: DemandCaches,
        actuator: Actuator,
        *,
        instance_types: Callable[[], InstanceTypes | None],
        wake: Callable[[str], None],
    ) -> None:
        self._caches = caches
        self._actuator = actuator
        self._instance_types = instance_types
        self._wake = wake
        self._creators: dict[str, ClaimCreator] = {}

    def pool_changed(self, _: NodePool | None, new: NodePool | None) -> None:
        """Subscribe this to the cache of NodePools."""
        if new is not None and new.spec.replicas is not None:
            self._wake(new.name)

    def claim_changed(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        """Subscribe this to the cache of NodeClaims: one appeared, is being deleted, or is gone."""
        claim = new or old
        if claim is None or (old is not None and new is not None and old.deleting == new.deleting):
            return
        name = claim.metadata.labels.get(labels.NODEPOOL, "")
        if any(pool.name == name and pool.spec.replicas is not None for pool in self._caches.node_pools()):
            self._wake(name)

    async def reconcile(self, name: str) -> float | None:
        """One pass over one NodePool; returns the seconds until the next one, None: when the NodePool changes.

        Raises KubeError for a request that can succeed when it is repeated.
        """
        pool = next((one for one in self._caches.node_pools() if one.name == name), None)
        if pool is None or pool.spec.replicas is None or pool.metadata.deleting:
            self._creators.pop(name, None)
            return None
        if not self._caches.current:
            return STALE_SECONDS
        creator = self._creators.setdefault(
            name,
            ClaimCreator(self._caches.claims, self._caches.node_pools, self._caches.node_class, self._actuator),
        )
        if (seconds := await creator.unobserved(_now())) is not None:
            return seconds
        claims = self._caches.claims.items()
        wanted = scale(pool, self._replicas(pool, claims))
        if wanted.delete:
            return await self._delete(pool)
        if wanted.create and not why_unusable(pool):
            return await self._create(creator, pool, wanted.create, claims)
        return RESYNC_SECONDS

    def _replicas(self, pool: NodePool, claims: Iterable[NodeClaim]) -> tuple[Replica, ...]:
        pods = bound(self._caches.pods.items())
        found = []
        for claim in claims:
            if not is_owned_by(claim, pool):
                continue
            node = self._caches.nodes.get(claim.status.node_name) if claim.status.node_name else None
            found.append(
                Replica(
                    claim=claim,
                    empty=all(pod.daemon for pod in pods.get(claim.status.node_name, ())),
                    protected=node is not None and node.metadata.annotations.get(labels.DO_NOT_DISRUPT) == "true",
                )
            )
        return tuple(found)

    async def _create(
        self, creator: ClaimCreator, pool: NodePool, count: int, claims: Sequence[NodeClaim]
    ) -> float | None:
        types = self._instance_types()
        if types is None:
            return STALE_SECONDS
        machine = static_machine(pool, types, self._caches.gpu_settings(pool))
        if machine is None:
            return RESYNC_SECONDS
        if (seconds := await creator.stale(claims)) is not None:
            return seconds
        created = await creator.create([machine] * count, claims, types.well_known)
        return RESYNC_SECONDS if created.again_seconds is None else created.again_seconds

    async def _delete(self, pool: NodePool) -> float | None:
        """Delete what is too much by a fresh LIST: the cache may lack deletions of the last pass."""
        listed = answer(await self._actuator.read(LookUpClaims()), ReadClaims)
        for claim in scale(pool, self._replicas(pool, listed.claims)).delete:
            message = f"Deleted: spec.replicas of NodePool {pool.name} is {pool.spec.replicas}"
            event = Event(type="Normal", reason=reasons.SCALED_DOWN, message=message)
            step = DeleteClaim(claim=claim, cause="scaled-down", event=event)
            if await delete_claim(self._actuator, step) is Deletion.FENCED:
                return FENCED_SECONDS
        return RESYNC_SECONDS


def _now() -> float:
    return asyncio.get_running_loop().time()
