"""What keeps NodeClaims from becoming machines: which of them cannot now, and what NodePools cannot launch.

Source: docs/references/rules.md#unavailable-offerings.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

from cloudprovider.errors import Rejected
from cloudprovider.interface import ON_DEMAND, SPOT, Failure, Offering, QuotaLeft
from controllers.disruption.commands_under_way import replaced_by
from controllers.model.offering_scope import LaunchTemplate
from controllers.model.policy import Policy
from controllers.provisioning.launch_templates import of_pool
from controllers.provisioning.launchable import Refusals
from controllers.provisioning.launchless import launchless
from controllers.provisioning.solver.model import NewMachine
from controllers.state.offering_tracker import LaunchObstacle, OfferingTracker
from provisioner.api import reasons
from provisioner.api.conditions import LAUNCHED
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.nodepool import NodePool
from provisioner.api.owner import nodepool_of
from provisioner.runtime.clock import Clock


class LaunchObstacles:
    """`key_of(claim)`: of its agent pool. `node_class(name)`: None if it does not exist or is not known."""

    def __init__(
        self,
        tracker: OfferingTracker,
        *,
        key_of: Callable[[NodeClaim], str],
        node_class: Callable[[str], AgentPoolNodeClass | None],
        policy: Policy,
        clock: Clock,
    ) -> None:
        self._tracker = tracker
        self._key_of = key_of
        self._node_class = node_class
        self._policy = policy
        self._clock = clock
        self._began: float | None = None

    def launchless(self, claim: NodeClaim) -> bool:
        """Whether a NodeClaim without a Node cannot get its machine for now."""
        launched, now = claim.condition(LAUNCHED), _now()
        self._began = now if self._began is None else self._began
        if claim.deleting or claim.status.node_name or launched is None or launched.status == "True":
            return False
        obstacle, observed = self._obstacle(claim), now - self._began
        return launchless(claim, obstacle, now=self._clock.now(), policy=self._policy, observed_seconds=observed)

    def is_trying(self, claim: NodeClaim) -> bool:
        """Whether a NodeClaim whose launch failed has offerings left that may be requested sooner or later."""
        return self._tracker.is_trying(self._key_of(claim)) and not self.launchless(claim)

    def lacks_capacity(self, claim: NodeClaim) -> bool:
        """Whether all its offerings failed for want of capacity or quota."""
        return self._obstacle(claim) == "no-capacity"

    def _obstacle(self, claim: NodeClaim) -> LaunchObstacle:
        return self._tracker.launch_obstacle(self._key_of(claim), claim, wall=self._clock.now(), now=_now())

    def quotas(self, names: Iterable[str], claims: Iterable[NodeClaim]) -> Mapping[str, QuotaLeft]:
        """What machines besides those of these NodeClaims may use of these quotas, as far as it is known."""
        return self._tracker.quotas(names, {self._key_of(claim): claim for claim in claims}, _now())

    def refused(self, pools: Iterable[NodePool]) -> dict[str, Refusals]:
        """What these NodePools cannot launch now, by their names."""
        return {pool.name: self._tracker.refused(self.template(pool), _now()) for pool in pools}

    def template(self, pool: NodePool) -> LaunchTemplate:
        """The launch template of the NodePool's next NodeClaim."""
        return of_pool(pool, self._node_class(pool.spec.template.spec.node_class_ref.name))

    def claim_refused(self, machine: NewMachine, pool: NodePool, message: str) -> None:
        """The API server refused the NodeClaim of a machine, as an admission policy does."""
        failure = Failure(reason=reasons.LAUNCH_FAILED, message=message, kind=Rejected.kind)
        offerings = [Offering(size=size, capacity_type=kind) for size in machine.instance_types for kind in KINDS]
        self._tracker.template_refused(self.template(pool), offerings, failure, wall=self._clock.now(), now=_now())


KINDS = (ON_DEMAND, SPOT)


def removable(claim: NodeClaim, pools: Sequence[NodePool]) -> bool:
    """Whether the NodeClaim was created for pending pods, so that it may be deleted when none waits for it.

    A static NodePool and the command that replaces a machine keep theirs, whether or not they can be launched now.
    """
    owner = nodepool_of(claim)
    if owner is None or replaced_by(claim):
        return False
    return not any(pool.name == owner.name and pool.spec.replicas is not None for pool in pools)


def _now() -> float:
    return asyncio.get_running_loop().time()
