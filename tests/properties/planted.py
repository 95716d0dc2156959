"""Planted defects in the rules of creation, ownership and removal: each a small patch of one rule.

A patch replaces the function of the rule in the module that calls it; tests and simulator are unchanged.
"""

import itertools
from collections.abc import Awaitable, Callable
from typing import Any

from azure.core import MatchConditions

from cloudprovider.azure import provider
from cloudprovider.azure.cloud import AksCloud
from controllers.garbagecollection import candidates, garbage
from controllers.model.facts import Facts
from controllers.model.ownership import Verdict, belongs, holds_finalizer
from controllers.model.ownership import verdict as ownership_verdict
from controllers.model.steps import CreateInstance, ReleaseFinalizer, Wait
from controllers.node.termination import termination
from controllers.nodeclaim.lifecycle import launch, registration
from controllers.planner import plan
from controllers.state import unavailable_offerings
from controllers.state.cluster import ClusterState
from controllers.state.memory import backoff
from controllers.state.unavailable_offering import UnavailableOffering
from controllers.state.unavailable_offerings import UnavailableOfferings
from provisioner.runtime.fence import Fence
from tests.world.process import PROCESS

from .mutation import ACTED, Patch, no_fresh_reads


def put_before_the_finalizer(patch: Patch) -> None:
    """A pool is requested before the claim has our finalizer."""
    rise = plan._provision

    def mutant(f: Facts, claim: Any) -> Any:
        if holds_finalizer(claim) or f.instance is not None:
            return rise(f, claim)
        return CreateInstance(claim=claim, name=f.key) if f.inventory_synced else Wait(after=None, why=ACTED)

    patch.setattr(plan, "_provision", mutant)


def released_without_proof(patch: Patch) -> None:
    """A pool that no LIST shows is treated as deleted."""
    patch.setattr(termination, "prove_gone", lambda f: None)


def no_delete_without_a_provider_id(patch: Patch) -> None:
    """A claim without a providerID is treated as never launched."""
    step = termination.step

    def mutant(f: Facts, claim: Any) -> Any:
        if claim.status.provider_id or not holds_finalizer(claim):
            return step(f, claim)
        return ReleaseFinalizer(target=claim, why=ACTED)

    patch.setattr(termination, "step", mutant)


def node_before_the_pool(patch: Patch) -> None:
    """A deleted Node is released immediately."""
    step = termination.step

    def mutant(f: Facts, claim: Any) -> Any:
        going = [n for n in f.nodes if belongs(n, claim) and n.deleting and holds_finalizer(n)]
        return ReleaseFinalizer(target=going[0], why=ACTED) if going else step(f, claim)

    patch.setattr(termination, "step", mutant)


def every_pool_is_ours(patch: Patch) -> None:
    """A pool without ownership marks is treated as one whose claim is gone."""

    def mutant(instance: Any, claim: Any) -> Verdict:
        found = ownership_verdict(instance, claim)
        return Verdict.PREVIOUS if found is Verdict.FOREIGN else found

    patch.setattr(candidates, "verdict", mutant)
    patch.setattr(garbage, "verdict", mutant)


def put_over_what_is_there(patch: Patch) -> None:
    """A pool name that the inventory shows is requested again."""
    step = launch.step

    def mutant(f: Facts) -> Any:
        foreign = f.claim is not None and f.instance is not None and not (f.instance.claim_uid or f.instance.label_uid)
        return CreateInstance(claim=f.claim, name=f.key) if f.claim is not None and foreign else step(f)

    patch.setattr(launch, "step", mutant)


def put_without_a_precondition(patch: Patch) -> None:
    """PUT is sent without If-None-Match."""

    class Heedless:
        IfMissing = None
        IfNotModified = MatchConditions.IfNotModified

    patch.setattr(provider, "MatchConditions", Heedless)


def random_names(patch: Patch) -> None:
    """Each process generates its own pool names."""
    numbers = itertools.count()
    names: dict[tuple[str, str], str] = {}

    def mutant(claim: Any) -> str:
        process = PROCESS.get()
        assert process is not None
        key = (process.name, claim.uid)
        return names.setdefault(key, f"g{next(numbers)}")

    patch.setattr(AksCloud, "pool_name", staticmethod(mutant))


def garbage_after_one_look(patch: Patch) -> None:
    """Garbage is collected after one look, without fresh reads."""
    patch.setattr(garbage, "block_removal", lambda f, age, needed: None)
    no_fresh_reads(patch)


def no_circuit_breaker(patch: Patch) -> None:
    """The circuit breaker never opens."""
    patch.setattr(ClusterState, "_trips", lambda self, going, wall: False)


def no_fence(patch: Patch) -> None:
    """Planned writes are sent without checking the lease."""

    async def send(_: Fence, __: str, ___: float, request: Callable[[], Awaitable[object]]) -> object:
        return await request()

    patch.setattr(Fence, "send", send)


def no_finalizer_on_nodes(patch: Patch) -> None:
    """Nodes are registered without our finalizer, and none is added later."""
    patch.setattr(registration, "holds_finalizer", lambda thing: True)


def no_drain(patch: Patch) -> None:
    """Termination does not wait for pods."""
    patch.setattr(termination, "drain_node", lambda f, node, by: None)


def every_claim_tries(patch: Patch) -> None:
    """An unavailable offering is skipped, and afterwards every claim requests it at once."""
    patch.setattr(UnavailableOfferings, "_first", lambda self, unavailable, now: "")
    patch.setattr(UnavailableOffering, "probed_by_another", lambda self, key, now: False)


def backoff_that_does_not_double(patch: Patch) -> None:
    """Each failure of an offering is treated as the first."""
    patch.setattr(unavailable_offerings, "backoff", lambda kind, times, *, after: backoff(kind, 1, after=after))
