"""`adopt`: gives an agent pool to a NodeClaim that was restored from a backup under a new UID.

The command annotates the NodeClaim with the UID of the agent pool; the controller verifies the adoption again. The
annotation is written only if no NodeClaim with that UID exists. A refusal names the field, its value and the remedy.
"""

import argparse
from collections.abc import Sequence

import msgspec

from cloudprovider.errors import CloudError
from cloudprovider.interface import Instance, InstanceState
from controllers.model.adoption import refusal, without
from controllers.model.ownership import Verdict, managed, verdict
from provisioner.api import labels
from provisioner.api.nodeclaim import NodeClaim
from provisioner.cli.output import encoded
from provisioner.runtime.kept import whole
from provisioner.runtime.kube_errors import KubeError
from provisioner.runtime.resources import NODECLAIMS

from .clients import Tools
from .console import Console, counted, table
from .refusal import FAILED, OK, USAGE, Refused, by_api_server, by_arm

HEAD = ("CLAIM", "POOL", "OLD UID", "NEW UID", "STATE", "SIZE")
TRIES = 5


class Adopted(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A NodeClaim and its agent pool in the output of `-o json`. `error`: why it was not annotated, else ""."""

    node_claim: str
    agent_pool: str
    old_uid: str
    new_uid: str
    state: str
    size: str
    error: str = ""


class Adoption(msgspec.Struct, frozen=True, kw_only=True):
    """A NodeClaim, the agent pool that it may adopt, and the UID on the agent pool."""

    claim: NodeClaim
    instance: Instance
    old_uid: str


async def run(tools: Tools, wanted: argparse.Namespace, console: Console) -> int:
    """Annotate one NodeClaim, or all that can adopt an agent pool. Raises Refused."""
    if bool(wanted.name) == wanted.all:
        raise Refused("name one NodeClaim, or use --all", "See gpu-provisioner adopt --help.", USAGE)
    pools, claims = await _read(tools)
    if wanted.all:
        return await _all(tools, claims, pools, wanted, console)
    claim = next((claim for claim in claims if claim.name == wanted.name), None)
    if claim is None:
        raise no_such_claim(wanted.name)
    adoption = evaluate(claim, tools.clients.cloud.pool_name(claim), claims, pools)
    await _annotate(tools, adoption)
    instance = adoption.instance
    if wanted.output != "table":
        console.print(encoded([_adopted(adoption)], wanted.output))
        return OK
    console.print(
        f"nodeclaim/{claim.name} annotated: {labels.ADOPT}={adoption.old_uid}",
        f"agent pool {instance.name} ({instance.raw_state}, {instance.size}) is kept; the controller gives it to the"
        " NodeClaim within seconds",
        f"watch: kubectl get nodeclaim {claim.name} -w",
    )
    return OK


def no_such_claim(name: str) -> Refused:
    """The error for a name without a NodeClaim."""
    return Refused(f"NodeClaim {name} not found", "kubectl get nodeclaims lists the NodeClaims.")


async def _read(tools: Tools) -> tuple[list[Instance], tuple[NodeClaim, ...]]:
    """All agent pools, then all NodeClaims: a NodeClaim that adopts meanwhile is read afterwards. Raises Refused."""
    try:
        pools = await tools.clients.provider.list()
        return pools, (await tools.clients.kube.list(NODECLAIMS, digest=whole)).items
    except CloudError as error:
        raise by_arm(error) from None
    except KubeError as error:
        raise by_api_server(error) from None


async def _all(
    tools: Tools, claims: tuple[NodeClaim, ...], pools: list[Instance], wanted: argparse.Namespace, console: Console
) -> int:
    found: list[Adoption] = []
    for claim in sorted(claims, key=lambda claim: claim.name):
        key = tools.clients.cloud.pool_name(claim)
        try:
            found.append(evaluate(claim, key, claims, pools))
        except Refused as refused:
            if _elsewhere(claim, key, claims, pools) is not None:
                console.err.write(f"{refused.cause}\n    {refused.remedy}\n")
    for_people = wanted.output == "table"
    if not found:
        nothing = f"nothing to adopt: no agent pool of {counted(len(claims), 'NodeClaim')} has a dead UID"
        console.print(nothing if for_people else encoded([], wanted.output))
        return OK
    lines = [*table(HEAD, [msgspec.structs.astuple(_adopted(adoption))[:-1] for adoption in found]), ""]
    # The list is the basis of the answer. Standard output is for the result.
    (console if for_people else Console(console.err, console.err)).print(*lines)
    await console.confirm(f"Give these agent pools to {counted(len(found), 'NodeClaim')}?", yes=wanted.yes)
    results = []
    for adoption in found:
        error = ""
        try:
            await _annotate(tools, adoption)
        except Refused as refused:
            error = refused.cause
            console.err.write(f"nodeclaim/{adoption.claim.name}: {refused.cause}\n    {refused.remedy}\n")
        else:
            if for_people:
                console.print(f"nodeclaim/{adoption.claim.name} annotated: {labels.ADOPT}={adoption.old_uid}")
        results.append(_adopted(adoption, error))
    if not for_people:
        console.print(encoded(results, wanted.output))
    return FAILED if any(one.error for one in results) else OK


def _adopted(adoption: Adoption, error: str = "") -> Adopted:
    claim, instance = adoption.claim, adoption.instance
    return Adopted(
        node_claim=claim.name,
        agent_pool=instance.name,
        old_uid=adoption.old_uid,
        new_uid=claim.uid,
        state=instance.raw_state,
        size=instance.size,
        error=error,
    )


def evaluate(claim: NodeClaim, key: str, claims: Sequence[NodeClaim], pools: Sequence[Instance]) -> Adoption:
    """The agent pool that this NodeClaim may adopt. `key`: the name of its own. Raises Refused."""
    _may_ask(claim)
    instance = next((pool for pool in pools if pool.name == key), None)
    if instance is None:
        raise _nothing_there(claim, key, claims, pools)
    by_uid = {other.uid: other for other in claims}
    if refusal(claim, instance=instance, nodes=(), living=by_uid.get, pools=lambda: pools):
        claim = without(claim)  # an invalid annotation has no effect
    living = next((by_uid[uid] for uid in sorted(_dead_mark(claim, instance)) if uid in by_uid), None)
    if living is not None:
        raise Refused(
            f"agent pool {key}: its UID {living.uid} is that of nodeclaim/{living.name}, which exists",
            f"Delete that NodeClaim if it is obsolete: kubectl delete nodeclaim {living.name} (and its agent pool).",
        )
    if instance.state is InstanceState.DELETING:
        raise Refused(
            f"agent pool {key} is being deleted: its provisioningState is {instance.raw_state}",
            f"Wait: nodeclaim/{claim.name} gets a new machine after the deletion.",
        )
    return Adoption(claim=claim, instance=instance, old_uid=instance.claim_uid or instance.label_uid)


def _may_ask(claim: NodeClaim) -> None:
    if not managed(claim):
        ref = claim.spec.node_class_ref
        raise Refused(
            f"nodeclaim/{claim.name}: its spec.nodeClassRef is {ref.group}/{ref.kind}, not that of this controller",
            f"This controller serves {labels.KAITO_NODECLASS_GROUP}/{labels.KAITO_NODECLASS_KIND} and"
            f" {labels.OWN_DOMAIN}/{labels.NODECLASS_KIND}.",
        )
    if claim.deleting:
        raise Refused(
            f"nodeclaim/{claim.name}: its metadata.deletionTimestamp is set: it is being deleted",
            "Wait until it is deleted, restore it again, then run adopt.",
        )


def _dead_mark(claim: NodeClaim, instance: Instance) -> frozenset[str]:
    """The UIDs on an agent pool of a former NodeClaim. Raises Refused for any other agent pool."""
    match verdict(instance, claim):
        case Verdict.PREVIOUS:
            return instance.marks
        case Verdict.OURS | Verdict.LEGACY:
            raise Refused(
                f"agent pool {instance.name} belongs to nodeclaim/{claim.name} already (UID {claim.uid})",
                f"Nothing to do; kubectl describe nodeclaim {claim.name} shows its status.",
            )
        case Verdict.ORPHANED_LEGACY:
            raise Refused(
                f"agent pool {instance.name}: its label {labels.KAITO_CREATION_TIMESTAMP} is {instance.created_label},"
                f" that of another NodeClaim of Azure/gpu-provisioner, and it has no UID",
                "Set --legacy-pools=report to keep it, move its Pods, then delete it: the NodeClaim gets a new one.",
            )
        case _:
            raise Refused(
                f"agent pool {instance.name}: it has no tag {labels.TAG_CLAIM_UID}, so it is foreign",
                f"Create a NodeClaim of another name instead of nodeclaim/{claim.name}, or delete that agent pool.",
            )


def _nothing_there(claim: NodeClaim, key: str, claims: Sequence[NodeClaim], pools: Sequence[Instance]) -> Refused:
    former = _elsewhere(claim, key, claims, pools)
    if former is None:
        return Refused(
            f"agent pool {key} not found, nor another agent pool of nodeclaim/{claim.name}",
            "There is nothing to adopt: the controller creates a new machine for the NodeClaim.",
        )
    return Refused(
        f"agent pool {former.name} of nodeclaim/{claim.name} is named after its old UID;"
        f" with its new UID {claim.uid} the name is {key}",
        "Agent pools cannot be renamed: move its Pods; garbage collection removes it (gpu-provisioner gc).",
    )


def _elsewhere(claim: NodeClaim, key: str, claims: Sequence[NodeClaim], pools: Sequence[Instance]) -> Instance | None:
    """An agent pool of a former NodeClaim of this name, with another name: such names are derived from UIDs."""
    living = {other.uid for other in claims}
    return next((p for p in pools if p.claim_name == claim.name and p.name != key and not p.marks & living), None)


async def _annotate(tools: Tools, adoption: Adoption) -> None:
    """Annotate this NodeClaim, identified by its UID; retry on conflicts. Raises Refused."""
    kube, claim = tools.clients.kube, adoption.claim
    for _ in range(TRIES):
        metadata = {
            "uid": claim.uid,
            "resourceVersion": claim.metadata.resource_version,
            "annotations": {labels.ADOPT: adoption.old_uid},
        }
        try:
            await kube.patch(NODECLAIMS, claim.name, {"metadata": metadata}, patch_type="merge")
        except KubeError as error:
            if not error.conflict:
                raise no_such_claim(claim.name) if error.not_found else by_api_server(error) from None
        else:
            return
        claim = await _again(tools, claim)
    raise Refused(f"nodeclaim/{claim.name} changed during each of {TRIES} writes", "Run the command again.")


async def _again(tools: Tools, claim: NodeClaim) -> NodeClaim:
    """The current version of this NodeClaim. Raises Refused."""
    try:
        newest = await tools.clients.kube.get(NODECLAIMS, claim.name)
    except KubeError as error:
        raise no_such_claim(claim.name) if error.not_found else by_api_server(error) from None
    if newest.uid != claim.uid:
        raise Refused(f"nodeclaim/{claim.name} was recreated meanwhile (UID {newest.uid})", "Run the command again.")
    _may_ask(newest)
    return newest
