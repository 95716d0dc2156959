"""Which empty machines may go although pods run on them: those whose pods have a place on other machines.

Otherwise the pods would become pending, and a machine like the removed one would be bought for them, again and again.

Source: docs/concepts/nodepools.md#what-is-never-disrupted.
"""

from collections.abc import Mapping, Sequence

import msgspec

from controllers.provisioning.demand import with_volumes
from controllers.provisioning.podspecs import interchangeable
from controllers.provisioning.solver import model
from provisioner.api.nodepool import NodePool

from .blockers import NOMINATED, left_over
from .candidates import unpriced
from .machine import Machine
from .simulation import Simulation
from .view import View


def kept_by_pods(view: View, pool: NodePool, due: Sequence[Machine]) -> Mapping[str, str]:
    """Why some of these machines are kept, by the UID of the NodeClaim; all others may be removed together.

    `due`: machines of the NodePool that are empty, those that are to go first in front.
    """
    simulation, kept = Simulation(view), dict[str, str]()
    bare = [unpriced(one, pool) for one in due if not left_over(one)]
    gone = [one for one in bare if one.node in simulation.known]
    present = [pod.constraints for one in view.machines for pod in one.pods]
    for machine in due:
        if not left_over(machine):
            continue
        try:
            pods = interchangeable(_specs(machine, view), present)
        except ValueError as error:
            kept[machine.claim.uid] = str(error)
            continue
        one = msgspec.structs.replace(unpriced(machine, pool), pods=pods)
        if one.node not in simulation.known or one.node in simulation.expected:
            kept[machine.claim.uid] = NOMINATED
            continue
        decision = simulation.without([*gone, one], buy=False)
        if decision.errors:
            names = sorted(pod.name for pod in one.pods)
            kept[machine.claim.uid] = f"not all pods would schedule on other machines, {', '.join(names[:3])}"
        else:
            gone.append(one)
    return kept


def _specs(machine: Machine, view: View) -> list[tuple[str, model.PodSpec]]:
    """The constraints of its pods. Raises ValueError for a pod that no place can be found for."""
    found = list[tuple[str, model.PodSpec]]()
    for pod in left_over(machine):
        if not pod.recreated:
            raise ValueError(f"Pod would not be created again elsewhere (Pod={pod.name})")
        try:
            found.append((pod.name, with_volumes(pod, view.observed.storage)))
        except ValueError as error:
            raise ValueError(f"not all pods would schedule, {pod.name} => {error}") from None
    return found
