"""`release`: removes the finalizers of a deleting NodeClaim and its Nodes whose agent pool is gone, as a user states.

The command reads the agent pool from ARM first. It refuses if the agent pool exists, and after any error except that
the managed cluster or its resource group does not exist. An Event that names the user is written before the finalizers
are removed, first from the Nodes, then from the NodeClaim, each under a test of the current list.

Source: docs/references/rules.md#ownership-marks, docs/references/rules.md#absence-needs-proof,
docs/references/rules.md#field-ownership.
"""

import argparse
from typing import Any

from cloudprovider.errors import CloudError, NotFound
from cloudprovider.interface import Identity, identify
from controllers.actuator.kubernetes import KubernetesActuator
from controllers.model.conditions import clock_text
from controllers.model.failures import wrong_cluster_message
from controllers.model.ownership import belongs, held_by, holds_finalizer, managed
from controllers.model.steps import Event, ReleaseFinalizer
from provisioner.api import labels, reasons
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.cli.arguments import RELEASE_FLAG
from provisioner.runtime.events import EventRecorder
from provisioner.runtime.kept import whole
from provisioner.runtime.kube_errors import KubeError
from provisioner.runtime.resources import NODECLAIMS, NODES, Resource, is_name

from .adopt import no_such_claim
from .clients import Tools
from .console import Console
from .refusal import OK, USAGE, Refused, by_api_server, by_arm

# Errors of ARM that imply that the agent pool does not exist (cloudprovider/azure/error_table.py).
ALL_GONE = {
    "ClusterNotFound": "the managed cluster does not exist",
    "ResourceGroupNotFound": "the resource group does not exist",
}
TRIES = 5


async def run(tools: Tools, wanted: argparse.Namespace, console: Console) -> int:
    """Remove the finalizers, or print what would be done. Raises Refused."""
    claim = await _claim(tools, wanted.name)
    _must_be_stuck(tools, claim)
    proof = await _absence_proof(tools, claim)
    nodes = await _nodes(tools, claim)
    if not nodes and not holds_finalizer(claim):
        others = ", ".join(claim.metadata.finalizers) or "none"
        raise Refused(
            f"nodeclaim/{claim.name}: its metadata.finalizers are {others}, without {labels.FINALIZER}",
            "There is nothing to release; the owners of these finalizers must remove them.",
        )
    things: list[NodeClaim | Node] = [*nodes, *([claim] if holds_finalizer(claim) else [])]
    console.print(f"{proof}")
    if not wanted.known:
        console.print(*(f"{_named(thing)} would lose the finalizer {labels.FINALIZER}" for thing in things))
        raise Refused(
            "nothing was released", f"Verify in Azure that the agent pool is gone, then add {RELEASE_FLAG}.", USAGE
        )
    await _record_event(tools, claim, proof, things)
    for thing in things:
        released = await _release(tools, thing)
        console.print(f"{_named(thing)} {'released' if released else 'not found'}")
    return OK


async def _claim(tools: Tools, name: str) -> NodeClaim:
    if not is_name(name):
        raise Refused(f"{name!r} is not a valid object name", "Name one NodeClaim.", USAGE)
    try:
        return await tools.clients.kube.get(NODECLAIMS, name)
    except KubeError as error:
        raise no_such_claim(name) if error.not_found else by_api_server(error) from None


def _must_be_stuck(tools: Tools, claim: NodeClaim) -> None:
    """Verify that the NodeClaim is managed, and deleting for long enough. Raises Refused."""
    if not managed(claim):
        ref = claim.spec.node_class_ref
        raise Refused(
            f"nodeclaim/{claim.name}: its spec.nodeClassRef is {ref.group}/{ref.kind}, not that of this controller",
            "Use the controller of that node class.",
        )
    deleted = claim.metadata.deletion_timestamp
    if deleted is None:
        raise Refused(
            f"nodeclaim/{claim.name}: its metadata.deletionTimestamp is not set",
            f"Delete it first: kubectl delete nodeclaim {claim.name}; usually, nothing else is needed.",
        )
    settle = tools.config.settle_seconds
    if (tools.clients.clock.now() - deleted).total_seconds() < settle:
        raise Refused(
            f"nodeclaim/{claim.name} is being deleted only since {clock_text(deleted)}: an agent pool that was just"
            " requested may not be visible yet",
            f"Wait for the controller; run the command again after {settle:g} s if the NodeClaim still exists.",
        )


async def _absence_proof(tools: Tools, claim: NodeClaim) -> str:
    """Why the agent pool cannot exist, according to ARM. Raises Refused if it exists or may exist."""
    key = tools.clients.cloud.pool_name(claim)
    try:
        instance = await tools.clients.provider.get(key)
    except NotFound:
        await _must_be_of_cluster(tools)
        return f"ARM: agent pool {key} not found in {tools.cluster}"
    except CloudError as error:
        if error.status == 404 and error.reason in ALL_GONE:
            await _must_be_of_subscription(tools)
            return f"ARM: {ALL_GONE[error.reason]} ({tools.cluster}), so agent pool {key} does not exist"
        raise by_arm(error) from None
    if not held_by(instance, claim):
        return f"ARM: agent pool {key} exists, but belongs to another NodeClaim than nodeclaim/{claim.name}"
    raise Refused(
        f"agent pool {key} of nodeclaim/{claim.name} exists: its provisioningState is"
        f" {instance.raw_state or 'unknown'}",
        f"The controller deletes it; kubectl describe nodeclaim {claim.name} shows what it waits for.",
    )


async def _must_be_of_cluster(tools: Tools) -> None:
    """Verify that the API server is that of the managed cluster: another one does not have the agent pool. Raises
    Refused."""
    groups = await _resource_groups(tools)
    try:
        group = (await tools.clients.provider.cluster()).node_resource_group
    except CloudError as error:
        raise by_arm(error) from None
    if identify(groups, group) is Identity.OTHER:
        cause, _, remedy = wrong_cluster_message(group).partition(". ")
        raise Refused(cause, f"{remedy}.")


async def _must_be_of_subscription(tools: Tools) -> None:
    """Verify that a cluster which does not exist is not looked for in another subscription. Raises Refused."""
    groups, wanted = await _resource_groups(tools), f"/subscriptions/{tools.subscription.lower()}/"
    if groups and not any(group.startswith(wanted) for group in groups):
        own = sorted({group.split("/")[2] for group in groups})[0]
        raise Refused(
            f"no Node is in subscription {tools.subscription}, where the {tools.cluster} does not exist",
            f"Correct ARM_SUBSCRIPTION_ID: a Node is in {own}.",
        )


async def _resource_groups(tools: Tools) -> frozenset[str]:
    """Those of the machines of all Nodes, as ARM ids in lower case. Raises Refused."""
    try:
        found = await tools.clients.kube.list(NODES, digest=tools.clients.cloud.resource_group_of)
    except KubeError as error:
        raise by_api_server(error) from None
    return frozenset(filter(None, found.items))


async def _nodes(tools: Tools, claim: NodeClaim) -> list[Node]:
    """The Nodes of the NodeClaim that have the finalizer."""
    cloud = tools.clients.cloud
    key = cloud.pool_name(claim)
    try:
        found = await tools.clients.kube.list(NODES, digest=whole, label_selector=f"{cloud.instance_label}={key}")
    except KubeError as error:
        raise by_api_server(error) from None
    return [
        node for node in found.items if cloud.pool_of(node) == key and belongs(node, claim) and holds_finalizer(node)
    ]


async def _record_event(tools: Tools, claim: NodeClaim, proof: str, things: list[NodeClaim | Node]) -> None:
    """Write the Event that names the user. Raises Refused if this fails."""
    kube = tools.clients.kube
    try:
        who = await kube.username()
    except KubeError:
        who = "unknown user"
    message = f"{who} removed {labels.FINALIZER} from {', '.join(_named(thing) for thing in things)} by hand. {proof}"
    try:
        event = Event(type="Warning", reason=reasons.FINALIZER_REMOVED_MANUALLY, message=message)
        await EventRecorder(kube, tools.clients.clock).record_now(claim, event)
    except KubeError as error:
        refused = by_api_server(error)
        raise Refused(f"failed to write the Event that names the user: {error}", refused.remedy) from None


async def _release(tools: Tools, thing: NodeClaim | Node) -> bool:
    """Remove the finalizer from this object; False if the object no longer exists. Raises Refused."""
    acts = KubernetesActuator(tools.clients.kube)
    for _ in range(TRIES):
        try:
            await acts.write(ReleaseFinalizer(target=thing, why="by hand"))
        except KubeError as error:
            if error.not_found:
                return False
            # A failed test of a JSON patch is a 422: the list of finalizers changed.
            if not (error.conflict or error.status == 422):
                raise by_api_server(error) from None
        else:
            return True
        newest = await _again(tools, thing)
        if newest is None or not holds_finalizer(newest):
            return False
        thing = newest
    raise Refused(f"{_named(thing)} changed during each of {TRIES} writes", "Run the command again.")


async def _again(tools: Tools, thing: NodeClaim | Node) -> NodeClaim | Node | None:
    """The current version of the object; None if it no longer exists. Raises Refused."""
    resource: Resource[Any] = NODES if isinstance(thing, Node) else NODECLAIMS
    try:
        # By a list, which is all that the controller may send about Nodes.
        found = await tools.clients.kube.list(resource, digest=whole, field_selector=f"metadata.name={thing.name}")
    except KubeError as error:
        raise by_api_server(error) from None
    return next((one for one in found.items if one.metadata.uid == thing.uid), None)


def _named(thing: NodeClaim | Node) -> str:
    return f"{thing.kind.lower()}/{thing.name}"
