"""Planted defects that cost users money or work and leave all objects in order: what users state is not obeyed."""

from typing import Any

import msgspec

from controllers.disruption import candidates, emptiness, simulation
from controllers.disruption import machine as machine_rule
from controllers.model.facts import Facts
from controllers.model.steps import LookUpPool, Wait
from controllers.node.termination import instance_delete, termination
from controllers.nodeclaim.lifecycle import launch
from controllers.provisioning.solver.budget import QUOTA, Budget
from controllers.provisioning.solver.candidates import Candidate
from controllers.reconcile import emptiness_controller
from controllers.reconcile import machines as machines_rule
from controllers.reconcile.machines import Machines
from controllers.reconcile.static_capacity import StaticCapacity
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool
from tests.properties.mutation import Patch

LATE_SECONDS = 1800.0


def unused_machines_are_kept(patch: Patch) -> None:
    """No machine is removed because it is empty."""
    first = emptiness.decide

    def mutant(*args: Any) -> emptiness.Emptiness:
        return msgspec.structs.replace(first(*args), remove=(), blocked=0)

    patch.setattr(emptiness, "decide", mutant)


def surplus_is_kept(patch: Patch) -> None:
    """A static NodePool never shrinks."""

    async def mutant(self: StaticCapacity, pool: NodePool) -> float:
        return 60.0

    patch.setattr(StaticCapacity, "_delete", mutant)


def deletions_begin_late(patch: Patch) -> None:
    """The agent pool of a deleted NodeClaim is deleted half an hour later."""
    first = instance_delete.wait_to_delete

    def mutant(f: Facts) -> Wait | LookUpPool | None:
        deleted = f.claim.metadata.deletion_timestamp if f.claim is not None else None
        left = LATE_SECONDS - (f.now - deleted).total_seconds() if deleted is not None else 0.0
        return Wait(after=left, why="later") if left > 0 else first(f)

    patch.setattr(termination, "wait_to_delete", mutant)


def claims_are_requested_late(patch: Patch) -> None:
    """A NodeClaim without a NodePool gets its agent pool half an hour later."""
    first = launch._verify_claim

    def mutant(f: Facts, claim: NodeClaim) -> Any:
        left = LATE_SECONDS - (f.now - claim.metadata.creation_timestamp).total_seconds()
        if left > 0 and not claim.metadata.owner_references:
            return Wait(after=left, why="later")
        return first(f, claim)

    patch.setattr(launch, "_verify_claim", mutant)


def limits_are_ignored(patch: Patch) -> None:
    """What is bought for pods is not limited by the NodePool."""
    first = Budget.uses

    def mutant(self: Budget, candidate: Candidate) -> dict[tuple[str, str], int]:
        return {key: amount for key, amount in first(self, candidate).items() if key[0] == QUOTA}

    patch.setattr(Budget, "uses", mutant)
    patch.setattr(Budget, "room", lambda self, candidate: {})


def consolidate_after_is_ignored(patch: Patch) -> None:
    """Machines are consolidated at once."""

    def mutant(pool: NodePool) -> float | None:
        return None if pool.spec.replicas is not None or pool.metadata.deleting else 0.0

    for module in (machine_rule, emptiness, candidates, simulation, machines_rule, emptiness_controller):
        patch.setattr(module, "consolidate_after", mutant)


def consolidation_policy_is_ignored(patch: Patch) -> None:
    """Machines that pods use are consolidated, too."""
    first = Machines.may_consolidate

    def mutant(self: Machines, pool: NodePool) -> bool:
        disruption = msgspec.structs.replace(pool.spec.disruption, consolidation_policy=candidates.UNDERUTILIZED)
        spec = msgspec.structs.replace(pool.spec, disruption=disruption)
        return first(self, msgspec.structs.replace(pool, spec=spec))

    patch.setattr(candidates, "policy_of", lambda pool, machine: candidates.UNDERUTILIZED)
    patch.setattr(Machines, "may_consolidate", mutant)
