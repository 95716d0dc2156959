"""Creates the NodeClaims of a scheduling decision, each with knowledge of all earlier ones.

Nothing is created before a fresh LIST has shown that the decision has seen all NodeClaims of NodePools.

Source: docs/references/rules.md#no-machine-is-bought-twice.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import structlog

from controllers.actuator.actuator import Actuator
from controllers.model.steps import CreateClaim, Event
from controllers.provisioning.nodeclaims import claim_name, manifest
from controllers.provisioning.price_messages import purchase_message
from controllers.provisioning.solver.model import NewMachine
from provisioner.api import reasons
from provisioner.api.meta import EMPTY
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass, is_own
from provisioner.api.nodepool import NodePool
from provisioner.api.owner import nodepool_of
from provisioner.runtime.fence import RETRY_SECONDS, LeaseExpires
from provisioner.runtime.kube_errors import KubeError
from provisioner.runtime.reflector import Reflector

from .request_errors import RequestErrors

STALE_SECONDS = 1.0
NOT_FOUND = 404

Refused = Callable[[NewMachine, NodePool, str], None]

log = structlog.get_logger("provisioner")


class Created(NamedTuple):
    """`claims`: the names of the new NodeClaims. `names`: the same by pod. `refused`: why others do not exist, by pod.

    `again_seconds`: when to decide again, because not all were created; None if all were, or were refused. `denied`:
    the reasons of all refusals, also of machines without pods.
    """

    claims: tuple[str, ...]
    names: Mapping[str, str]
    refused: Mapping[str, str]
    again_seconds: float | None = None
    denied: tuple[str, ...] = ()


class ClaimCreator:
    """`node_pools`: those of this controller. `node_class(name)`: None if it does not exist or is not known.

    `refused`: called for each NodeClaim that the API server refuses.
    """

    def __init__(
        self,
        claims: Reflector[NodeClaim],
        node_pools: Callable[[], Sequence[NodePool]],
        node_class: Callable[[str], AgentPoolNodeClass | None],
        actuator: Actuator,
        *,
        refused: Refused = lambda machine, pool, message: None,
    ) -> None:
        self._claims = claims
        self._node_pools = node_pools
        self._node_class = node_class
        self._actuator = actuator
        self._refused = refused

    async def stale(self, claims: Sequence[NodeClaim], pool: NodePool | None = None) -> float | None:
        """Seconds to wait if the decision has not seen a NodeClaim that such decisions create; None if it has seen all.

        `pool`: the static NodePool that is decided about; None for pending pods and replacements. NodeClaims of others,
        and of static NodePools for the latter, can be created at any rate, and are no machine of the same pods.
        """
        listed = await self._actuator.reads.claims()
        seen = {claim.uid for claim in claims}
        static = {one.metadata.uid for one in self._node_pools() if one.spec.replicas is not None}
        if any(claim.uid not in seen and _concerns(claim, pool, static) for claim in listed):
            log.warning("the cache lacks NodeClaims that exist; no machine is bought")
            self._claims.invalidate()
            return STALE_SECONDS
        return None

    async def create(
        self,
        machines: Sequence[NewMachine],
        seen: Sequence[NodeClaim],
        well_known: frozenset[str],
        decided: Sequence[NodePool],
        annotations: Callable[[NewMachine], Mapping[str, str]] = lambda _: EMPTY,
        *,
        errors: RequestErrors | None = None,
    ) -> Created:
        """Write the NodeClaims in this order. Those whose NodePool has gone or changed since the decision are left out.

        `seen`: the NodeClaims that the decision has seen, `decided`: the NodePools. `annotations`: further ones of a
        NodeClaim. The error of a request that can be repeated is kept in `errors`; without them it is raised as a
        KubeError. After a request without a response those of other NodePools have their turn: a webhook can hang.
        """
        bought = dict[str, tuple[NewMachine, NodePool]]()
        try:
            return await self._create(
                machines, seen, well_known, decided, annotations=annotations, errors=errors, bought=bought
            )
        finally:
            self._record(bought)

    async def _create(
        self,
        machines: Sequence[NewMachine],
        seen: Sequence[NodeClaim],
        well_known: frozenset[str],
        decided: Sequence[NodePool],
        *,
        annotations: Callable[[NewMachine], Mapping[str, str]],
        errors: RequestErrors | None,
        bought: dict[str, tuple[NewMachine, NodePool]],
    ) -> Created:
        """The same. `bought`: gets what each NodeClaim that now exists was created from, by its name."""
        before = {pool.metadata.uid: pool.spec for pool in decided}
        pools = {
            pool.name: pool
            for pool in self._node_pools()
            if not pool.metadata.deleting and before.get(pool.metadata.uid) == pool.spec
        }
        taken = {claim.name for claim in seen}
        claims, created, refused, denied = list[str](), dict[str, str](), dict[str, str](), list[str]()
        timed_out = dict[str, str]()
        for machine in machines:
            pool = pools.get(machine.node_pool)
            if pool is None:
                continue
            if pool.name in timed_out:
                refused |= dict.fromkeys(machine.pods, timed_out[pool.name])
                continue
            name = claim_name(pool.name, taken)
            node_class = self._node_class(pool.spec.template.spec.node_class_ref.name)
            wanted = manifest(machine, pool, name, well_known, node_class=node_class, annotations=annotations(machine))
            try:
                await self._actuator.write(CreateClaim(name=name, manifest=wanted), None)
            except LeaseExpires:
                return Created(tuple(claims), created, refused, RETRY_SECONDS)
            except KubeError as error:
                if error.reason == "AlreadyExists":
                    log.warning("the cache lacks a NodeClaim that exists; no machine is bought", claim=name)
                    self._claims.invalidate()
                    return Created(tuple(claims), created, refused, STALE_SECONDS)
                # A webhook chooses the code of its refusal.
                if error.refused or error.conflict or error.status == NOT_FOUND:
                    denied.append(f"the API server refuses its NodeClaim: {error}")
                    self._refused(machine, pool, denied[-1])
                    refused |= dict.fromkeys(machine.pods, f"NodePool {pool.name}: its NodeClaim is refused: {error}")
                elif errors is None:
                    raise
                else:
                    errors.keep(error)
                    why = f"NodePool {pool.name}: its NodeClaim cannot be created: {error}"
                    refused |= dict.fromkeys(machine.pods, why)
                    if error.timed_out:
                        timed_out[pool.name] = why
                    elif not error.server_error:
                        break  # it would fail for the others as well
                continue
            taken.add(name)
            claims.append(name)
            created |= dict.fromkeys(machine.pods, name)
            bought[name] = machine, pool
            _log(machine, name)
        return Created(tuple(claims), created, refused, denied=tuple(denied))

    def _record(self, bought: Mapping[str, tuple[NewMachine, NodePool]]) -> None:
        """The Events of the NodePools: what was created and what it costs."""
        pools = {pool.name: pool for _, pool in bought.values()}
        for pool in pools.values():
            own = {name: machine for name, (machine, of) in bought.items() if of is pool}
            self._record_event(pool, reasons.NODECLAIMS_CREATED, purchase_message([*own.values()], [*own]))
            for name, machine in own.items():
                if machine.price is None:
                    self._record_event(pool, reasons.PRICE_UNKNOWN, _unpriced(machine, name))

    def _record_event(self, pool: NodePool, reason: str, message: str) -> None:
        self._actuator.record_event(pool, Event(type="Normal", reason=reason, message=message))


def _concerns(claim: NodeClaim, pool: NodePool | None, static: Collection[str]) -> bool:
    """Whether a decision about this static NodePool, or about pods, creates such NodeClaims."""
    owner = nodepool_of(claim)
    if pool is not None:
        return owner is not None and owner.name == pool.name
    return owner is not None and is_own(claim.spec.node_class_ref) and owner.uid not in static


def _unpriced(machine: NewMachine, name: str) -> str:
    return (
        f"{machine.instance_types[0]} has no list price in this region. No size with a price serves the pods of"
        f" NodeClaim {name}: name sizes in the NodePool if it is too dear"
    )


def _log(machine: NewMachine, name: str) -> None:
    log.info(
        "created nodeclaim",
        NodeClaim={"name": name},
        NodePool={"name": machine.node_pool},
        pods=len(machine.pods),
        instance_types=machine.instance_types[:5],
        price=machine.price,
    )
