"""`release`: our finalizers come off a deleting claim and its Nodes, by a person's word that the pool is gone.

ARM is asked once more; a pool of this claim's that is there refuses it, whatever the person says, and so does
every failure but one: that the managed cluster or its resource group no longer exists. An Event names who did it, and
is written first. Only our finalizer goes, under a test of the list it stands in; Nodes before the claim.

Source: docs/references/rules.md#ownership-marks, docs/references/rules.md#absence-needs-proof,
docs/references/rules.md#field-ownership.
"""

import argparse

from cloudprovider.azure.agentpool import pool_name
from cloudprovider.errors import CloudError, NotFound
from controllers.actuator.kubernetes import KubernetesActuator
from controllers.model.conditions import clock_text
from controllers.model.ownership import belongs, held_by, holds_finalizer, managed
from controllers.model.steps import ReleaseFinalizer
from provisioner.api import labels, reasons
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.cli.descriptions import RELEASE_FLAG
from provisioner.runtime.events import EventRecorder
from provisioner.runtime.kube_errors import KubeError
from provisioner.runtime.resources import NODECLAIMS, NODES

from .adopt import no_such_claim
from .clients import Tools
from .console import Console
from .refusal import OK, USAGE, Refused, by_api_server, by_arm

# Answers of ARM that are not about the pool, and yet say that it cannot be there (error_table.py).
ALL_GONE = {
    "ClusterNotFound": "the managed cluster does not exist",
    "ResourceGroupNotFound": "the resource group does not exist",
}
TRIES = 5


async def run(tools: Tools, wanted: argparse.Namespace, console: Console) -> int:
    """Release, or say what would be. Raises Refused."""
    claim = await _claim(tools, wanted.name)
    _must_be_stuck(tools, claim)
    proof = await _ask_arm(tools, claim)
    nodes = await _nodes(tools, claim)
    if not nodes and not holds_finalizer(claim):
        others = ", ".join(claim.metadata.finalizers) or "none"
        raise Refused(
            f"nodeclaim/{claim.name}: its metadata.finalizers are {others}, and ours, {labels.FINALIZER}, is not there",
            "There is nothing to release; ask the owner of those finalizers.",
        )
    things: list[NodeClaim | Node] = [*nodes, *([claim] if holds_finalizer(claim) else [])]
    console.say(f"{proof}")
    if not wanted.known:
        console.say(*(f"{_named(thing)} would lose the finalizer {labels.FINALIZER}" for thing in things))
        raise Refused(
            "nothing was released", f"If you have made sure that the pool is gone, say so: add {RELEASE_FLAG}.", USAGE
        )
    await _tell(tools, claim, proof, things)
    for thing in things:
        released = await _release(tools, thing)
        console.say(f"{_named(thing)} {'released' if released else 'was gone already'}")
    return OK


async def _claim(tools: Tools, name: str) -> NodeClaim:
    try:
        return await tools.clients.kube.get(NODECLAIMS, name)
    except ValueError as error:
        raise Refused(str(error), "Name one NodeClaim.", USAGE) from None
    except KubeError as error:
        raise no_such_claim(name) if error.not_found else by_api_server(error) from None


def _must_be_stuck(tools: Tools, claim: NodeClaim) -> None:
    """Ours, and deleting for so long that an absence can be believed. Raises Refused."""
    if not managed(claim):
        ref = claim.spec.node_class_ref
        raise Refused(
            f"nodeclaim/{claim.name}: its spec.nodeClassRef is {ref.group}/{ref.kind}, so its finalizer is not ours",
            "Ask the controller of that class.",
        )
    asked = claim.metadata.deletion_timestamp
    if asked is None:
        raise Refused(
            f"nodeclaim/{claim.name}: its metadata.deletionTimestamp is not set: nobody asked for its removal",
            f"Delete it first: kubectl delete nodeclaim {claim.name}; usually that is all.",
        )
    settle = tools.config.settle_seconds
    if (tools.clients.clock.now() - asked).total_seconds() < settle:
        raise Refused(
            f"nodeclaim/{claim.name} is being deleted only since {clock_text(asked)}: a pool that Azure was just asked"
            " for may not be visible yet",
            f"Wait: the controller usually needs no help. After {settle:g} s run this again.",
        )


async def _ask_arm(tools: Tools, claim: NodeClaim) -> str:
    """What ARM says of the pool's absence, in a sentence. Raises Refused if it is there, or may be."""
    key = pool_name(claim)
    try:
        instance = await tools.clients.provider.get(key)
    except NotFound:
        return f"ARM: there is no agent pool {key} in {tools.cluster}"
    except CloudError as error:
        if error.status == 404 and error.reason in ALL_GONE:
            return f"ARM: {ALL_GONE[error.reason]} ({tools.cluster}), so agent pool {key} cannot be there"
        raise by_arm(error) from None
    if not held_by(instance, claim):
        return f"ARM: agent pool {key} is there, but it is not that of nodeclaim/{claim.name}"
    raise Refused(
        f"agent pool {key} is there and belongs to nodeclaim/{claim.name}: its provisioningState is"
        f" {instance.raw_state or 'not known'}",
        f"The controller removes it; kubectl describe nodeclaim {claim.name} says what it waits for.",
    )


async def _nodes(tools: Tools, claim: NodeClaim) -> list[Node]:
    """The claim's Nodes that our finalizer keeps."""
    try:
        found = await tools.clients.kube.list(NODES, label_selector=f"{labels.AKS_AGENTPOOL}={pool_name(claim)}")
    except KubeError as error:
        raise by_api_server(error) from None
    return [node for node in found.items if belongs(node, claim) and holds_finalizer(node)]


async def _tell(tools: Tools, claim: NodeClaim, proof: str, things: list[NodeClaim | Node]) -> None:
    """The audit Event, before anything is done. Raises Refused if it cannot be written."""
    kube = tools.clients.kube
    try:
        who = await kube.username()
    except KubeError:
        who = "unknown user"
    message = f"{who} released {', '.join(_named(thing) for thing in things)} from {labels.FINALIZER} by hand. {proof}"
    try:
        await EventRecorder(kube, tools.clients.clock).record_now(
            claim, "Warning", reasons.FINALIZER_RELEASED_BY_HAND, message
        )
    except KubeError as error:
        refused = by_api_server(error)
        raise Refused(f"the Event that must name who does this cannot be written: {error}", refused.remedy) from None


async def _release(tools: Tools, thing: NodeClaim | Node) -> bool:
    """Take our finalizer off that very object; False if it was gone before. Raises Refused."""
    acts = KubernetesActuator(tools.clients.kube)
    for _ in range(TRIES):
        try:
            await acts.write(ReleaseFinalizer(target=thing, why="by hand"))
        except KubeError as error:
            if error.not_found:
                return False
            # A JSON patch whose test fails is a 422: somebody changed the list.
            if not (error.conflict or error.status == 422):
                raise by_api_server(error) from None
        else:
            return True
        newest = await _again(tools, thing)
        if newest is None or not holds_finalizer(newest):
            return False
        thing = newest
    raise Refused(f"{_named(thing)} changed under each of {TRIES} writes", "Run this again.")


async def _again(tools: Tools, thing: NodeClaim | Node) -> NodeClaim | Node | None:
    """The object as it is now, None if it is gone. Raises Refused."""
    kube = tools.clients.kube
    try:
        newest: NodeClaim | Node = await (
            kube.get(NODES, thing.name) if isinstance(thing, Node) else kube.get(NODECLAIMS, thing.name)
        )
    except KubeError as error:
        if error.not_found:
            return None
        raise by_api_server(error) from None
    return newest if newest.uid == thing.uid else None


def _named(thing: NodeClaim | Node) -> str:
    return f"{thing.kind.lower()}/{thing.name}"
