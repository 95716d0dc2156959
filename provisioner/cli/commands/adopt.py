"""`adopt`: a claim that came back from a backup, under a new UID, takes back the agent pool of its former self.

It only asks: an annotation on the claim names the UID that the pool bears; the controller decides again. It is
asked only where no claim with that UID is left. Every refusal says which field has which value, and what to do.
"""

import argparse
from collections.abc import Sequence

import msgspec

from cloudprovider.azure.agentpool import pool_name
from cloudprovider.errors import CloudError
from cloudprovider.interface import Instance, InstanceState
from controllers.model.adoption import refusal, without
from controllers.model.ownership import Verdict, managed, marks, verdict
from provisioner.api import labels
from provisioner.api.nodeclaim import NodeClaim
from provisioner.runtime.kube_errors import KubeError
from provisioner.runtime.resources import NODECLAIMS

from .clients import Tools
from .console import Console
from .refusal import FAILED, OK, USAGE, Refused, by_api_server, by_arm
from .tables import counted, table

HEAD = ("CLAIM", "POOL", "OLD UID", "NEW UID", "STATE", "SIZE")
TRIES = 5


class Adoption(msgspec.Struct, frozen=True, kw_only=True):
    """A claim, the pool that it may take over, and the UID that the pool bears."""

    claim: NodeClaim
    instance: Instance
    old_uid: str


async def run(tools: Tools, wanted: argparse.Namespace, console: Console) -> int:
    """Annotate the claim, or all. Raises Refused."""
    if bool(wanted.name) == wanted.all:
        raise Refused("name one NodeClaim, or say --all", "See gpu-provisioner adopt --help.", USAGE)
    pools, claims = await _read(tools)
    if wanted.all:
        return await _all(tools, claims, pools, wanted, console)
    claim = next((claim for claim in claims if claim.name == wanted.name), None)
    if claim is None:
        raise no_such_claim(wanted.name)
    adoption = judge(claim, claims, pools)
    await _annotate(tools, adoption)
    instance = adoption.instance
    console.say(
        f"nodeclaim/{claim.name} annotated: {labels.ADOPT}={adoption.old_uid}",
        f"agent pool {instance.name} ({instance.raw_state}, {instance.size}) is kept; the controller hands it to the"
        " claim within seconds",
        f"watch it: kubectl get nodeclaim {claim.name} -w",
    )
    return OK


def no_such_claim(name: str) -> Refused:
    """There is none of that name."""
    return Refused(f"there is no NodeClaim {name}", "See kubectl get nodeclaims for those that there are.")


async def _read(tools: Tools) -> tuple[list[Instance], tuple[NodeClaim, ...]]:
    """All pools, then all claims: a claim that takes a pool meanwhile is seen with it. Raises Refused."""
    try:
        pools = await tools.clients.provider.list()
        return pools, (await tools.clients.kube.list(NODECLAIMS)).items
    except CloudError as error:
        raise by_arm(error) from None
    except KubeError as error:
        raise by_api_server(error) from None


async def _all(
    tools: Tools, claims: tuple[NodeClaim, ...], pools: list[Instance], wanted: argparse.Namespace, console: Console
) -> int:
    found: list[Adoption] = []
    for claim in sorted(claims, key=lambda claim: claim.name):
        try:
            found.append(judge(claim, claims, pools))
        except Refused as refused:
            if _elsewhere(claim, claims, pools) is not None:
                console.err.write(f"{refused.cause}\n    {refused.remedy}\n")
    if not found:
        console.say(f"nothing to adopt: no pool of {counted(len(claims), 'NodeClaim')} bears a dead UID")
        return OK
    rows = [
        (a.claim.name, a.instance.name, a.old_uid, a.claim.uid, a.instance.raw_state, a.instance.size) for a in found
    ]
    console.say(*table(HEAD, rows), "")
    await console.agree(f"Let {counted(len(found), 'NodeClaim')} take over these agent pools?", yes=wanted.yes)
    failed = 0
    for adoption in found:
        try:
            await _annotate(tools, adoption)
        except Refused as refused:
            failed += 1
            console.err.write(f"nodeclaim/{adoption.claim.name}: {refused.cause}\n    {refused.remedy}\n")
        else:
            console.say(f"nodeclaim/{adoption.claim.name} annotated: {labels.ADOPT}={adoption.old_uid}")
    return FAILED if failed else OK


def judge(claim: NodeClaim, claims: Sequence[NodeClaim], pools: Sequence[Instance]) -> Adoption:
    """The pool that this claim may take over. Raises Refused."""
    _may_ask(claim)
    key = pool_name(claim)
    instance = next((pool for pool in pools if pool.name == key), None)
    if instance is None:
        raise _nothing_there(claim, claims, pools)
    by_uid = {other.uid: other for other in claims}
    if refusal(claim, instance=instance, nodes=(), living=by_uid.get):
        claim = without(claim)  # what it asks for does not hold, and the rules do not see it either
    living = next((by_uid[uid] for uid in sorted(_dead_mark(claim, instance)) if uid in by_uid), None)
    if living is not None:
        raise Refused(
            f"agent pool {key}: its mark, {living.uid}, is the UID of nodeclaim/{living.name}, which is still there",
            f"Delete that one first if it is obsolete: kubectl delete nodeclaim {living.name} (that removes its pool).",
        )
    if instance.state is InstanceState.DELETING:
        raise Refused(
            f"agent pool {key}: its provisioningState is {instance.raw_state}, so it is going already",
            f"Wait: nodeclaim/{claim.name} gets a new machine once it is gone.",
        )
    return Adoption(claim=claim, instance=instance, old_uid=instance.claim_uid or instance.label_uid)


def _may_ask(claim: NodeClaim) -> None:
    if not managed(claim):
        ref = claim.spec.node_class_ref
        raise Refused(
            f"nodeclaim/{claim.name}: its spec.nodeClassRef is {ref.group}/{ref.kind}, so it is not ours to serve",
            f"Ours is {labels.KAITO_NODECLASS_GROUP}/{labels.KAITO_NODECLASS_KIND}; ask the controller of that class.",
        )
    if claim.deleting:
        raise Refused(
            f"nodeclaim/{claim.name}: its metadata.deletionTimestamp is set, so it is going and takes nothing over",
            "Wait until it is gone, restore it again, then adopt.",
        )


def _dead_mark(claim: NodeClaim, instance: Instance) -> frozenset[str]:
    """The UIDs on a pool that is some former claim's. Raises Refused for any other pool."""
    match verdict(instance, claim):
        case Verdict.PREVIOUS:
            return marks(instance)
        case Verdict.OURS | Verdict.LEGACY:
            raise Refused(
                f"agent pool {instance.name} is already that of nodeclaim/{claim.name} (UID {claim.uid})",
                f"There is nothing to do: kubectl describe nodeclaim {claim.name} says how it is.",
            )
        case Verdict.ORPHANED_LEGACY:
            raise Refused(
                f"agent pool {instance.name}: its label {labels.KAITO_CREATION_TIMESTAMP} is {instance.created_label},"
                f" of another claim of Azure/gpu-provisioner's time, and it bears no UID",
                "Set --legacy-pools=report to keep it, move its pods, then delete it: the claim gets a new machine.",
            )
        case _:
            raise Refused(
                f"agent pool {instance.name}: it has no tag {labels.TAG_CLAIM_UID}, so it is foreign and never touched",
                f"Delete nodeclaim/{claim.name} and make one of another name, or remove that pool yourself.",
            )


def _nothing_there(claim: NodeClaim, claims: Sequence[NodeClaim], pools: Sequence[Instance]) -> Refused:
    former = _elsewhere(claim, claims, pools)
    if former is None:
        return Refused(
            f"there is no agent pool {pool_name(claim)}, nor any that was made for nodeclaim/{claim.name}",
            "There is nothing to adopt: the controller makes a new machine for the claim.",
        )
    return Refused(
        f"agent pool {former.name} was made for nodeclaim/{claim.name}, but is named after its old UID;"
        f" under its new UID {claim.uid} its pool is {pool_name(claim)}",
        "It cannot be renamed: move its pods; it goes once the controller collects it, or by gpu-provisioner gc.",
    )


def _elsewhere(claim: NodeClaim, claims: Sequence[NodeClaim], pools: Sequence[Instance]) -> Instance | None:
    """A pool that a dead claim of this name left under another name: those names come from UIDs."""
    living = {other.uid for other in claims}
    return next(
        (p for p in pools if p.claim_name == claim.name and p.name != pool_name(claim) and not marks(p) & living), None
    )


async def _annotate(tools: Tools, adoption: Adoption) -> None:
    """Write the annotation on that very claim; who writes it meanwhile is no reason to give up. Raises Refused."""
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
    raise Refused(f"nodeclaim/{claim.name} changed under each of {TRIES} writes", "Run this again.")


async def _again(tools: Tools, claim: NodeClaim) -> NodeClaim:
    """That very claim as it is now. Raises Refused."""
    try:
        newest = await tools.clients.kube.get(NODECLAIMS, claim.name)
    except KubeError as error:
        raise no_such_claim(claim.name) if error.not_found else by_api_server(error) from None
    if newest.uid != claim.uid:
        raise Refused(f"nodeclaim/{claim.name} was made anew meanwhile (UID {newest.uid})", "Run this again.")
    _may_ask(newest)
    return newest
