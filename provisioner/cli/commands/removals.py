"""Inferred removals and what they wait for, by the controller's own rules, from one read of the cluster and of ARM.

Reads that the controller makes before a removal are answered from the same data. Only the leader knows when it first
observed a candidate; the output states where this matters.
"""

import asyncio
import math
from datetime import datetime
from typing import Any

import msgspec

from cloudprovider.interface import Cluster
from controllers.garbagecollection.circuit_breaker import allowance
from controllers.model.facts import Candidate, Facts, UnhealthyCounts
from controllers.model.steps import (
    DeleteClaim,
    DeleteInstance,
    DeleteNode,
    LookUpClaim,
    LookUpCluster,
    LookUpCrds,
    LookUpNodes,
    LookUpPool,
    ReleaseFinalizer,
    Step,
    Wait,
)
from controllers.planner.evaluation import candidate, evaluate, with_judgements
from controllers.planner.plan import removal
from controllers.state.cluster import ClusterState
from controllers.state.gc_candidates import GCCandidates
from controllers.state.memory import Memory
from controllers.state.observe import observe
from provisioner.api.node import Node
from provisioner.operator.controllers import CLUSTER_RULES

from .clients import State, Tools
from .confirmation import LeaseState

# A plan reads the NodeClaim, the agent pool, the cluster, the CRD and the Nodes at most once each.
READS_MAX = 6


class Removal(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One candidate for garbage collection. `since`: a time that one of its objects states, if any."""

    pool: str
    claim: str
    node: str
    cause: str
    action: str
    waits_for: str
    since: datetime | None


class Survey(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`pools`: managed agent pools, `kept` of them are not candidates; `allowance`: removals allowed in ten minutes.

    `foreign`: other agent pools; `requested`: NodeClaims with a deletion request; `confirmed`: removals that pass the
    circuit breaker by confirmation, until `confirmed_until`; `restricted`: whether the circuit breaker is open.
    """

    removals: tuple[Removal, ...]
    pools: int
    kept: int
    foreign: int
    requested: int
    allowance: int
    restricted: bool
    confirmed: int
    confirmed_until: datetime | None


def survey(state: State, tools: Tools, lease: LeaseState) -> Survey:
    """All inferred removals by agent pool name, and the state of the circuit breaker."""
    policy, inventory = tools.config.policy, state.inventory
    now, wall = asyncio.get_running_loop().time(), tools.clients.clock.now()
    observed = {
        key: observe(
            key,
            indexes=state.indexes,
            inventory=inventory,
            memory=Memory(),
            policy=policy,
            gpus=tools.clients.cloud.gpus_of,
            wall=wall,
            now=now,
        )
        for key in state.pool_names()
    }
    cluster_state = ClusterState(
        indexes=state.indexes,
        inventory=inventory,
        policy=policy,
        candidates=GCCandidates(lambda key: candidate(observed[key]), lambda: observed),
        rules=CLUSTER_RULES,
    )
    confirmation = cluster_state.confirmation = lease.confirmation
    cluster_state.restore_removals(lease.removals, wall, now)
    whole = []
    for facts in observed.values():
        seen = evaluate(facts)
        counts = cluster_state.counts(facts, seen, UnhealthyCounts(), now)
        whole.append(with_judgements(facts, seen, counts=counts))
    ours = {pool.name for pool in inventory.items() if not pool.foreign}
    return Survey(
        removals=tuple(_removal(f, f.candidate, state) for f in whole if f.candidate is not None),
        pools=len(ours),
        kept=sum(f.candidate is None and f.key in ours for f in whole),
        foreign=inventory.tally.foreign,
        requested=sum(f.candidate is None and f.claim is not None and f.claim.deleting for f in whole),
        allowance=allowance(policy, len(ours)),
        restricted=cluster_state.restricted(wall, now),
        confirmed=sum(f.counts.confirmed for f in whole),
        confirmed_until=confirmation.until if confirmation is not None else None,
    )


def _removal(f: Facts, candidate: Candidate, state: State) -> Removal:
    since = _since(f, candidate)
    known = (f.now - since).total_seconds() if since is not None else 0.0
    step, later = _decided(_aged(f, known), state), _decided(_aged(f, math.inf), state)
    # A reason that does not pass with time is reported first.
    held = later if isinstance(later, Wait) else step
    done = _decided(_at_rest(_aged(f, math.inf)), state) if isinstance(later, Wait) else later
    return Removal(
        pool=f.key,
        claim=f.claim.name if f.claim is not None else "",
        node=",".join(node.name for node in f.nodes),
        cause=candidate.cause,
        action=_action(done, f),
        waits_for=held.why if isinstance(held, Wait) else "",
        since=since,
    )


def _since(f: Facts, candidate: Candidate) -> datetime | None:
    if candidate.cause == "crd-deleted" and f.claim is not None:
        return f.claim.metadata.deletion_timestamp
    if candidate.cause == "orphan-pool":  # a Node of such a pool may be deleting for another reason
        return None
    return min((at for node in f.nodes if (at := node.metadata.deletion_timestamp) is not None), default=None)


def _aged(f: Facts, seconds: float) -> Facts:
    if f.candidate is None:
        return f
    return msgspec.structs.replace(f, candidate=msgspec.structs.replace(f.candidate, since=f.loop_now - seconds))


def _at_rest(f: Facts) -> Facts:
    """The same key without restrictions: removal confirmed, cluster running, agent pool idle."""
    instance = f.instance
    if instance is not None:
        instance = msgspec.structs.replace(instance, raw_state="Succeeded", power_state="Running")
    counts = msgspec.structs.replace(f.counts, confirmed=True)
    return msgspec.structs.replace(f, counts=counts, cluster=Cluster(running=True), instance=instance)


def _decided(f: Facts, state: State) -> Step:
    """The first step that is not a read; reads of the plan are answered from the state that was read."""
    for _ in range(READS_MAX):
        step = removal(f)
        known: dict[str, Any] = {}
        match step:
            case LookUpClaim(name=name):
                known = {"claim_read_age": 0.0, "claim_read": state.claim(name)}
            case LookUpPool():
                known = {"pool_read_age": 0.0}
                if f.instance is None:
                    known |= {"absence": "absent", "proof_age": 0.0}
            case LookUpCluster():
                known = {"cluster_age": 0.0}
            case LookUpCrds():
                known = {"crd_known": True}
            case LookUpNodes():
                known = {"nodes_known_age": 0.0}
            case None:
                return Wait(after=None, why="nothing to remove")
            case _:
                return step
        f = msgspec.structs.replace(f, **known)
    return Wait(after=None, why="the plan needs further reads")


def _action(step: Step, f: Facts) -> str:
    """The removal to which the step belongs, as text."""
    match step:
        case Wait():
            return "none yet"
        case DeleteInstance():
            return "delete the agent pool"
        case DeleteClaim():
            return "delete the NodeClaim and its agent pool" if f.instance is not None else "delete the NodeClaim"
        case ReleaseFinalizer(target=Node()):
            return "release the Node, keep the agent pool" if f.instance is not None else "release the Node"
        case ReleaseFinalizer():
            return "release the NodeClaim"
        case DeleteNode() if f.claim is None or not f.claim.deleting:
            return "delete the Node"
        case _ if f.claim is not None and f.claim.deleting:
            return "drain the Node, delete agent pool, Node and NodeClaim"
        case _:
            return "drain the Node, delete the agent pool"
