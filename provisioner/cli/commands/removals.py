"""What would go by inference, and what it waits for: the controller's own rules, asked about one look.

The controller's own rules compute everything shown here, from one LIST of the cluster and one of ARM. What the
controller would read afresh before a removal is answered from that LIST, which is as fresh. Only the leader knows when
it first saw a candidate and what it removed in the last ten minutes; the output says where that decides.
"""

import asyncio
import math
from datetime import datetime
from typing import Any

import msgspec

from cloudprovider.azure.instance_types import gpus_of
from cloudprovider.interface import Cluster
from controllers.garbagecollection.circuit_breaker import allowance
from controllers.model.confirmation import Confirmation
from controllers.model.facts import Candidate, Facts, UnhealthyCounts
from controllers.model.ownership import Verdict, verdict
from controllers.model.steps import (
    DeleteClaim,
    DeleteInstance,
    DeleteNode,
    LookUpClaim,
    LookUpCluster,
    LookUpCrd,
    LookUpNodes,
    LookUpPool,
    ReleaseFinalizer,
    Step,
    Wait,
)
from controllers.planner.judgements import candidate, judge, with_judgements
from controllers.planner.plan import removal
from controllers.state.cluster import ClusterState
from controllers.state.gc_candidates import GCCandidates
from controllers.state.memory import Memory
from controllers.state.observe import observe
from provisioner.api.node import Node
from provisioner.operator.controllers import CLUSTER_RULES

from .clients import Sight, Tools

# A plan reads the claim, the pool and the Nodes, each once at most.
READS_MAX = 6


class Removal(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One key that is suspected of being garbage. `since` is known only where an object states it."""

    pool: str
    claim: str
    node: str
    cause: str
    action: str
    waits_for: str
    since: datetime | None


class Survey(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`pools` are ours, `well` of them unsuspected; `allowance` of them may go by inference within ten minutes.

    `foreign` pools are nobody's business here; `asked` claims are deleting because somebody asked. `confirmed` of the
    removals pass the circuit breaker by a person's word, until `confirmed_until`.
    """

    removals: tuple[Removal, ...]
    pools: int
    well: int
    foreign: int
    asked: int
    allowance: int
    restricted: bool
    confirmed: int
    confirmed_until: datetime | None


def survey(sight: Sight, tools: Tools, confirmation: Confirmation | None) -> Survey:
    """All removals by inference, by pool name, and the numbers that decide about them."""
    policy, inventory = tools.config.policy, sight.inventory
    now, wall = asyncio.get_running_loop().time(), tools.clients.clock.now()
    observed = {
        key: observe(
            key,
            indexes=sight.indexes,
            inventory=inventory,
            memory=Memory(),
            policy=policy,
            gpus=gpus_of,
            wall=wall,
            now=now,
        )
        for key in sight.pool_names()
    }
    cluster_state = ClusterState(
        indexes=sight.indexes,
        inventory=inventory,
        policy=policy,
        candidates=GCCandidates(lambda key: candidate(observed[key]), lambda: observed),
        rules=CLUSTER_RULES,
    )
    cluster_state.confirmation = confirmation
    whole = []
    for facts in observed.values():
        seen = judge(facts)
        counts = cluster_state.counts(facts, seen, UnhealthyCounts(), now)
        whole.append(with_judgements(facts, seen, counts=counts))
    ours = {pool.name for pool in inventory.items() if verdict(pool, None) is not Verdict.FOREIGN}
    return Survey(
        removals=tuple(_removal(f, f.candidate, sight) for f in whole if f.candidate is not None),
        pools=len(ours),
        well=sum(f.candidate is None and f.key in ours for f in whole),
        foreign=len(inventory.items()) - len(ours),
        asked=sum(f.candidate is None and f.claim is not None and f.claim.deleting for f in whole),
        allowance=allowance(policy, len(ours)),
        restricted=cluster_state.restricted(wall, now),
        confirmed=sum(f.counts.confirmed for f in whole),
        confirmed_until=confirmation.until if confirmation is not None else None,
    )


def _removal(f: Facts, candidate: Candidate, sight: Sight) -> Removal:
    since = _since(f, candidate)
    known = (f.now - since).total_seconds() if since is not None else 0.0
    step, unhealthy_node = _decided(_aged(f, known), sight), _decided(_aged(f, math.inf), sight)
    # What time alone will not change is the better answer.
    held = unhealthy_node if isinstance(unhealthy_node, Wait) else step
    done = _decided(_at_rest(_aged(f, math.inf)), sight) if isinstance(unhealthy_node, Wait) else unhealthy_node
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
    if candidate.cause == "orphan-pool":  # a Node of an orphan may be deleting for reasons of its own
        return None
    return min((at for node in f.nodes if (at := node.metadata.deletion_timestamp) is not None), default=None)


def _aged(f: Facts, seconds: float) -> Facts:
    if f.candidate is None:
        return f
    return msgspec.structs.replace(f, candidate=msgspec.structs.replace(f.candidate, since=f.loop_now - seconds))


def _at_rest(f: Facts) -> Facts:
    """The same key once nothing holds inferences back any more: confirmed, the cluster running, the pool at rest."""
    instance = f.instance
    if instance is not None:
        instance = msgspec.structs.replace(instance, raw_state="Succeeded", power_state="Running")
    counts = msgspec.structs.replace(f.counts, confirmed=True)
    return msgspec.structs.replace(f, counts=counts, cluster=Cluster(running=True), instance=instance)


def _decided(f: Facts, sight: Sight) -> Step:
    """The first step that is no read; what the plan wants to read is answered from what was just read."""
    for _ in range(READS_MAX):
        step = removal(f)
        known: dict[str, Any] = {}
        match step:
            case LookUpClaim(name=name):
                known = {"claim_read_age": 0.0, "claim_read": sight.claim(name)}
            case LookUpPool():
                known = {"pool_read_age": 0.0}
                if f.instance is None:
                    known |= {"absence": "absent", "proof_age": 0.0}
            case LookUpCluster():
                known = {"cluster_age": 0.0}
            case LookUpCrd():
                known = {"crd_known": True}
            case LookUpNodes():
                known = {"nodes_known_age": 0.0}
            case None:
                return Wait(after=None, why="nothing is to be removed any longer")
            case _:
                return step
        f = msgspec.structs.replace(f, **known)
    return Wait(after=None, why="the plan goes on reading")


def _action(step: Step, f: Facts) -> str:
    """What the step comes to, in words: steps that prepare a removal are told as that removal."""
    match step:
        case Wait():
            return "none yet"
        case DeleteInstance():
            return "delete the agent pool"
        case DeleteClaim():
            return "delete the NodeClaim and its agent pool" if f.instance is not None else "delete the NodeClaim"
        case ReleaseFinalizer(target=Node()):
            return "let the Node go, keep the agent pool" if f.instance is not None else "let the Node go"
        case ReleaseFinalizer():
            return "let the NodeClaim go"
        case DeleteNode() if f.claim is None or not f.claim.deleting:
            return "delete the Node"
        case _ if f.claim is not None and f.claim.deleting:
            return "drain the Node, delete agent pool, Node and NodeClaim"
        case _:
            return "drain the Node, delete the agent pool"
