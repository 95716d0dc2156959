"""Creates the NodeClaims of a scheduling decision, each with knowledge of all earlier ones.

Nothing is created before a fresh LIST has shown that the decision has seen all NodeClaims of NodePools, and the next
decision is not made before the cache shows what this one has created.

Source: docs/references/rules.md#no-machine-is-bought-twice.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import structlog

from controllers.actuator.actuator import Actuator
from controllers.model.results import Fenced, KubeFailed, ReadClaims, Wrote, answer
from controllers.model.steps import CreateClaim, LookUpClaims
from controllers.provisioning.nodeclaims import claim_name, manifest
from controllers.provisioning.solver.model import NewMachine
from provisioner.api.meta import EMPTY
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.nodepool import NodePool
from provisioner.runtime.reflector import Reflector

STALE_SECONDS = 1.0
FENCED_SECONDS = 5.0
OWN_WRITE_SECONDS = 10.0

log = structlog.get_logger("provisioner")


class Created(NamedTuple):
    """`claims`: the names of the new NodeClaims. `names`: the same by pod. `refused`: why the API server refused some.

    `again_seconds`: when to decide again, because not all were created; None if all were, or were refused.
    """

    claims: tuple[str, ...]
    names: Mapping[str, str]
    refused: Mapping[str, str]
    again_seconds: float | None = None


class ClaimCreator:
    """`node_pools`: those of this controller. `node_class(name)`: None if it does not exist or is not known."""

    def __init__(
        self,
        claims: Reflector[NodeClaim],
        node_pools: Callable[[], Sequence[NodePool]],
        node_class: Callable[[str], AgentPoolNodeClass | None],
        actuator: Actuator,
    ) -> None:
        self._claims = claims
        self._node_pools = node_pools
        self._node_class = node_class
        self._actuator = actuator
        self._expected: dict[str, str] = {}
        self._expected_at = 0.0

    def expects(self, name: str) -> bool:
        """Whether the cache has not shown this NodeClaim yet."""
        return name in self._expected

    async def unobserved(self, now: float) -> float | None:
        """Seconds to wait for the cache to show the NodeClaims of the last pass; None once it shows all."""
        for name, uid in list(self._expected.items()):
            seen = self._claims.get(name)
            if seen is not None and seen.uid == uid:
                del self._expected[name]
        if not self._expected:
            return None
        if (left := self._expected_at + OWN_WRITE_SECONDS - now) > 0:
            return left
        for name, uid in list(self._expected.items()):
            if not await self._actuator.current_version("claim", name, uid):
                del self._expected[name]  # deleted since
        self._expected_at = now
        if self._expected:
            log.warning("the cache is behind created NodeClaims", claims=sorted(self._expected))
            self._claims.invalidate()
        return STALE_SECONDS

    async def stale(self, claims: Sequence[NodeClaim]) -> float | None:
        """Seconds to wait if the decision has not seen a NodeClaim that the API server has; None if it has seen all."""
        listed = answer(await self._actuator.read(LookUpClaims()), ReadClaims)
        seen = {claim.uid for claim in claims}
        if any(claim.uid not in seen for claim in listed.claims):
            log.warning("the cache lacks NodeClaims that exist; no machine is bought")
            self._claims.invalidate()
            return STALE_SECONDS
        return None

    async def create(
        self,
        machines: Sequence[NewMachine],
        seen: Sequence[NodeClaim],
        well_known: frozenset[str],
        annotations: Mapping[str, str] = EMPTY,
    ) -> Created:
        """Write the NodeClaims in this order. Those whose NodePool has gone since the decision began are left out.

        `seen`: the NodeClaims that the decision has seen. `annotations`: further ones of each NodeClaim. Raises
        KubeError for a request that can be repeated.
        """
        pools = {pool.name: pool for pool in self._node_pools() if not pool.metadata.deleting}
        taken = {claim.name for claim in seen}
        claims, created, refused = list[str](), dict[str, str](), dict[str, str]()
        self._expected_at = _now()
        for machine in machines:
            pool = pools.get(machine.node_pool)
            if pool is None:
                continue
            name = claim_name(pool.name, taken)
            node_class = self._node_class(pool.spec.template.spec.node_class_ref.name)
            wanted = manifest(machine, pool, name, well_known, node_class=node_class, annotations=annotations)
            result = await self._actuator.write(CreateClaim(name=name, manifest=wanted), None)
            match result:
                case Wrote():
                    self._expected[name] = result.uid
                    taken.add(name)
                    claims.append(name)
                    created |= dict.fromkeys(machine.pods, name)
                    _log(machine, name)
                case KubeFailed(error=error) if error.conflict:
                    log.warning("the cache lacks a NodeClaim that exists; no machine is bought", claim=name)
                    self._claims.invalidate()
                    return Created(tuple(claims), created, refused, STALE_SECONDS)
                case KubeFailed(error=error) if error.refused:
                    refused |= dict.fromkeys(machine.pods, f"NodePool {pool.name}: its NodeClaim is refused: {error}")
                case KubeFailed(error=error):
                    raise error
                case Fenced():
                    return Created(tuple(claims), created, refused, FENCED_SECONDS)
                case _:
                    raise TypeError(type(result).__name__)
        return Created(tuple(claims), created, refused)


def _log(machine: NewMachine, name: str) -> None:
    log.info(
        "created nodeclaim",
        NodeClaim={"name": name},
        NodePool={"name": machine.node_pool},
        pods=len(machine.pods),
        instance_types=machine.instance_types[:5],
        price=machine.price,
    )


def _now() -> float:
    return asyncio.get_running_loop().time()
