"""Planted defects in the rules of removal: proof of absence, fresh reads, the drain, ownership across restarts."""

from typing import Any

import msgspec

from cloudprovider.absence_proofs import AbsenceProofs
from cloudprovider.errors import CloudError
from cloudprovider.interface import InstanceState
from controllers.actuator import cloud
from controllers.garbagecollection import candidates, garbage
from controllers.gate.gate import Go
from controllers.model import adoption
from controllers.model.facts import Facts
from controllers.model.ownership import holds_finalizer, owned_by_another
from controllers.model.steps import CreateInstance, DeleteInstance, ReleaseFinalizer, Wait
from controllers.node.health import limits, repair, repair_removal
from controllers.node.termination import drain, grace_period, termination, volumes
from controllers.nodeclaim.lifecycle import launch
from controllers.planner import plan
from provisioner.api.pod import Pod
from provisioner.runtime.kube import Kube
from provisioner.runtime.reflector import Reflector
from tests.world.process import PROCESS, Process

from .mutation import ACTED, Patch


def this_process() -> Process:
    process = PROCESS.get()
    assert process is not None
    return process


def released_on_202(patch: Patch) -> None:
    """An accepted DELETE is treated as completed."""
    step = termination.step

    def mutant(f: Facts, claim: Any) -> Any:
        if f.instance is None or f.instance.state is not InstanceState.DELETING:
            return step(f, claim)
        held = [thing for thing in (*f.nodes, claim) if holds_finalizer(thing) and thing.metadata.deleting]
        return ReleaseFinalizer(target=held[0], why=ACTED) if held else None

    patch.setattr(termination, "step", mutant)


def deleted_by_name_alone(patch: Patch) -> None:
    """A deleting claim deletes any pool of its name."""
    patch.setattr(termination, "held_by", lambda instance, claim: instance is not None)


def deletion_by_its_event_alone(patch: Patch) -> None:
    """Only a process that has seen the claim alive removes its machine."""
    seen: dict[tuple[Process, str], None] = {}
    rise, fall = plan._provision, plan._terminate

    def alive(f: Facts, claim: Any) -> Any:
        seen[this_process(), claim.uid] = None
        return rise(f, claim)

    def deleting(f: Facts, claim: Any) -> Any:
        known = (this_process(), claim.uid) in seen
        return fall(f, claim) if known else Wait(after=None, why=ACTED)

    patch.setattr(plan, "_provision", alive)
    patch.setattr(plan, "_terminate", deleting)


def ownership_in_memory(patch: Patch) -> None:
    """A pool belongs to a claim if this process has requested it."""
    requested: dict[tuple[Process, str], None] = {}
    step = launch.step

    def asking(f: Facts) -> Any:
        found = step(f)
        if isinstance(found, CreateInstance):
            requested[this_process(), found.name] = None
        return found

    def mutant(instance: Any, claim: Any) -> bool:
        return instance is not None and (this_process(), instance.name) in requested

    patch.setattr(launch, "step", asking)
    patch.setattr(termination, "held_by", mutant)


def any_error_is_not_found(patch: Patch) -> None:
    """Any error response to a read or a DELETE means that the pool is gone."""
    patch.setattr(cloud, "NotFound", CloudError)


def absence_without_settling(patch: Patch) -> None:
    """The first 404 is proof of absence."""
    patch.setattr(AbsenceProofs, "settles_in", lambda self, name, at: 0.0)


def a_second_delete(patch: Patch) -> None:
    """DELETE is sent again for a pool that is being deleted."""
    first = termination._delete_instance

    def mutant(f: Facts, claim: Any, instance: Any, nodes: Any) -> Any:
        if instance.state is InstanceState.DELETING and (
            f.delete_failed is None or f.delete_failed.retry_in(f.loop_now) <= 0
        ):
            return DeleteInstance(instance=instance, go=Go(uid="", cause="requested", why="mutant"))
        return first(f, claim, instance, nodes)

    patch.setattr(termination, "_delete_instance", mutant)


def pools_by_a_stale_claim(patch: Patch) -> None:
    """A pool is requested from the cached claim alone."""
    patch.setattr(launch, "_verify_claim", lambda f, claim: None)


def all_tiers_at_once(patch: Patch) -> None:
    """DaemonSet pods and critical pods are evicted with all others."""
    patch.setattr(drain, "tier", lambda pod: 0)


def protected_pods_evicted(patch: Patch) -> None:
    """The do-not-disrupt annotation is ignored."""
    patch.setattr(drain, "is_evictable", lambda pod, now: True)


def answers_left_to_the_watch(patch: Patch) -> None:
    """The answer of an own write does not enter the cache."""
    patch.setattr(Reflector, "written", lambda self, found: None)


def adopted_from_a_live_claim(patch: Patch) -> None:
    """A claim adopts the machine of any UID, even if another claim owns it."""
    patch.setattr(adoption, "refusal", lambda claim, **_: "")


def current_owner_decides_on_deleted_nodes(patch: Patch) -> None:
    """The current owner of a Node decides whether its deletion counts as requested by a user, regardless of the time of
    adoption.
    """
    patch.setattr(candidates, "collected", owned_by_another)


def crd_deletion_is_a_user_request(patch: Patch) -> None:
    """Claims that are deleting because their CRD is deleted are removed immediately."""
    patch.setattr(garbage, "block_crd_deletion", lambda f: None)


def repair_without_limits(patch: Patch) -> None:
    """Every unhealthy Node is replaced after its toleration, without limits."""
    for module in (repair, repair_removal):
        patch.setattr(module, "blocked_by_limits", lambda policy, unhealthy_counts: "")


def repair_without_end(patch: Patch) -> None:
    """Machines that fail like two others before them are replaced as well."""
    patch.setattr(limits, "suspended", lambda f: "")


def no_termination_time(patch: Patch) -> None:
    """A drain never ends by force."""
    patch.setattr(grace_period, "deadline", lambda claim: None)


def volumes_left_attached(patch: Patch) -> None:
    """Termination does not wait for volumes."""
    patch.setattr(volumes, "step", lambda f, node, by: None)


def eviction_by_name(patch: Patch) -> None:
    """An eviction has no UID precondition."""
    evict = Kube.evict

    async def mutant(self: Kube, pod: Pod) -> None:
        anonymous = msgspec.structs.replace(pod.metadata, uid="")
        await evict(self, msgspec.structs.replace(pod, metadata=anonymous))

    patch.setattr(Kube, "evict", mutant)


def late_bound_pods_ignored(patch: Patch) -> None:
    """A Node without pods counts as empty, however new its taint is."""
    patch.setattr(drain, "_late_binding_left", lambda f, drain: 0.0)
