"""Where the pods of machines would go if these machines did not exist: the solver over the other machines.

A pod that uses GPUs has no place as long as it could start on another GPU model, or on GPUs that are
divided otherwise: nothing keeps kube-scheduler from it.
Pods get no place on machines that are not initialized, on machines of NodePools that are not Consolidatable yet, and on
those that pending pods need.

Source: docs/references/karpenter.md#consolidation.
"""

from collections.abc import Collection, Iterator, Sequence, Set

import msgspec

from controllers.provisioning.cluster import cluster_snapshot
from controllers.provisioning.pods import CachedPod
from controllers.provisioning.podspecs import interchangeable
from controllers.provisioning.solver import model
from controllers.provisioning.solver.bounds import Bound
from controllers.provisioning.solver.solver import Solver
from provisioner.api import labels
from provisioner.api.conditions import CONSOLIDATABLE, INITIALIZED
from provisioner.api.nodepool import NodePool
from provisioner.api.owner import nodepool_of

from .candidates import Candidate
from .gpu_parts import GpuParts, unlabelled
from .machine import Machine, consolidate_after
from .view import View

# A simulation counts once, and once more for each of so many pods; the choice of new machines takes most of the time.
# Pods with many constraints take more of it: it counts once more for each of so many steps of the solver, too.
PODS_A_UNIT, PODS_A_PURCHASE = 100, 10
STEPS_A_UNIT = 20_000
OTHER_MODEL = (
    "a machine with another GPU model or division of GPUs has room for it; add a node selector for the model or the"
    " NodePool to the Pod"
)


class Simulation:
    """`expected`: the machines on which pending pods will run. `spent`: what the simulations so far count."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.solves = self.spent = 0
        found = cluster_snapshot(view.observed, view.types).snapshot
        found = GpuParts(view.observed, view.types.cloud).labelled(found)
        going = {name for one in view.machines if one.going for name in _names(one)}
        nodes = tuple(node for node in found.nodes if node.name not in going)
        self._solver = Solver(msgspec.structs.replace(found, pods=(), nodes=nodes))
        self.known = frozenset(node.name for node in nodes)
        self.expected = self._expected(found)
        self._needy, self._bound = found.pods, [pod.spec for node in found.nodes for pod in node.pods]
        self._unready, unquiet = self._no_destinations(nodes)
        self._full = self._unready | unquiet | self.expected

    def bound(self, one: Candidate) -> Bound:
        """What new machines for the pods of a candidate cost at least."""
        return self._solver.bound(one.pods, leaving=(one.node,), full=self._full)

    def without(self, removed: Sequence[Candidate], *, buy: bool) -> model.Decision:
        """Where the pods of these machines go. `buy`: whether new machines may take them."""
        pods = [pod for one in removed for pod in one.pods]
        self.solves += 1
        self.spent += 1 + len(pods) // (PODS_A_PURCHASE if buy else PODS_A_UNIT)
        leaving = {one.node for one in removed}
        if strays := {name: OTHER_MODEL for one in removed for name in self._strays(one, leaving)}:
            return model.Decision(errors=strays)
        decision = self._solver.solve(pods, leaving=leaving, full=self._full, buy=buy)
        self.spent += decision.steps // STEPS_A_UNIT
        return unlabelled(decision)

    def moved(self, removed: Sequence[Candidate], others: Set[str], *, coming: bool) -> model.Decision:
        """Where the pods of machines go that are marked already, besides those that are pending; nothing is bought.

        `others`: pods that do not count. `coming`: machines that are not Ready yet take pods, too. The errors are those
        of pods that have no place because of the machines: of pending ones that would have one otherwise, too, because
        kube-scheduler places these first.
        """
        own = {pod.name for one in removed for pod in one.pods}
        leaving = {one.node for one in removed} & self.known
        if strays := {name: OTHER_MODEL for one in removed for name in self._strays(one, leaving)}:
            return model.Decision(errors=strays)
        needy = [(pod.name, pod.spec) for pod in self._needy if pod.name not in own and pod.name not in others]
        moving = [(pod.name, pod.spec) for one in removed for pod in one.pods]
        full = frozenset[str]() if coming else self._unready

        def placed(pods: Sequence[tuple[str, model.PodSpec]]) -> model.Decision:
            return self._solver.solve(interchangeable(pods, self._bound), leaving=leaving, full=full, buy=False)

        decision = placed([*needy, *moving])
        known = placed(needy).errors if decision.errors and needy else {}
        errors = {name: why for name, why in decision.errors.items() if name not in known}
        return msgspec.structs.replace(decision, errors=errors)

    def _strays(self, one: Candidate, leaving: Collection[str]) -> Iterator[str]:
        """The pods that kube-scheduler could put on another GPU model, because a machine has room for them."""
        for pod in one.pods:
            own = one.unbound.get(pod.name)
            if own is not None and self._solver.has_room_besides(own, pod.spec, leaving=leaving):
                yield pod.name

    def _expected(self, found: model.Snapshot) -> Set[str]:
        """The machines that unbound pods will need, or pods of machines that are being removed."""
        gone = [pod for one in self._view.machines if one.going for pod in one.pods if pod.moves and not pod.error]
        known = {pod.name for pod in found.pods}
        named = {pod.nominated_node for pod in self._view.observed.pods if isinstance(pod, CachedPod)}
        nominated = named & self.known
        needy = [(pod.name, pod.spec) for pod in found.pods]
        needy += [(pod.name, pod.constraints) for pod in gone if pod.name not in known]
        if not needy:
            return nominated
        bound = {id(pod.spec): pod.spec for node in found.nodes for pod in node.pods}
        return nominated | self._solver.solve(interchangeable(needy, bound.values()), buy=False).existing.keys()

    def _no_destinations(self, nodes: Sequence[model.ExistingNode]) -> tuple[Set[str], Set[str]]:
        """The machines that cannot take pods yet, and those that may be removed before they do."""
        pools = {pool.metadata.uid: pool for pool in self._view.observed.node_pools}
        claims = self._view.observed.claims_by_node()
        unready, unquiet = {node.name for node in nodes if node.planned}, set[str]()
        for node in self._view.observed.nodes:
            claim = claims.get(node.name)
            if node.ready_condition is not None and not node.ready:
                unready.add(node.name)
            if claim is None:
                continue
            owner = nodepool_of(claim)
            pool = pools.get(owner.uid) if owner is not None else None
            ready = node.metadata.labels.get(labels.INITIALIZED) == "true" and claim.condition(INITIALIZED, "True")
            quiet = pool is None or not _waits(pool) or claim.condition(CONSOLIDATABLE, "True")
            if not ready:
                unready.add(node.name)
            if not quiet:
                unquiet.add(node.name)
        return unready & self.known, unquiet & self.known


def _waits(pool: NodePool) -> bool:
    """Whether machines of the NodePool become Consolidatable at all."""
    return consolidate_after(pool) is not None


def _names(machine: Machine) -> tuple[str, ...]:
    return machine.claim.name, machine.claim.status.node_name
