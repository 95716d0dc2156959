"""`explain`: what is known of a NodeClaim, a Pod or a NodePool, which rule answers, and what happens next.

The functions that decide in the controller answer, so that the command cannot differ from it. It reads the cluster and
Azure once, or files, and writes nothing. Exit codes: 0 explained, 1 refused or failed, 2 invalid usage or settings.
"""

import argparse
from collections.abc import Mapping
from typing import Any, NamedTuple, TextIO

from controllers.model.ownership import managed
from provisioner.api import labels
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import is_own
from provisioner.api.nodepool import NodePool
from provisioner.api.pod import Pod
from provisioner.operator.config import Clients
from provisioner.runtime.kept import whole
from provisioner.runtime.kube_errors import KubeError
from provisioner.runtime.resources import NODECLAIMS, NODEPOOLS, PODS, Resource, is_name
from provisioner.settings import Settings

from .clients import Tools
from .cluster_or_files import cluster_or_files
from .console import Console
from .explain_answer import Answer, shown
from .explain_claim import explain_claim
from .explain_nodepool import explain_nodepool
from .explain_pod import explain_pod
from .explain_world import read_world
from .helm_release import FLAGS, ReleaseSettings, missing
from .refusal import OK, USAGE, Refused, by_api_server
from .values import as_caller

TYPES: Mapping[str, Resource[Any]] = {
    **dict.fromkeys(("nodeclaim", "nodeclaims", "nc"), NODECLAIMS),
    **dict.fromkeys(("nodepool", "nodepools", "np"), NODEPOOLS),
    **dict.fromkeys(("pod", "pods", "po"), PODS),
}
FILES = "not read for objects in files"
NO_SETTINGS = f"not read; give {FLAGS}, and log in (az login)"
DISABLED = "NodePools are disabled by --node-pools, NODE_POOLS or nodePools.enabled of the chart"
FORMS = "Write nodeclaim/NAME, nodepool/NAME or pod/NAMESPACE/NAME, or a name."
ALL = "kubectl get nodeclaims,nodepools,pods -A lists all of them."
TAGGED = f"The tag {labels.TAG_CLAIM_NAME} of an agent pool names its NodeClaim, also of one that is gone."


class Target(NamedTuple):
    """`resources`: the kinds that the name is looked up as."""

    resources: tuple[Resource[Any], ...]
    namespace: str
    name: str


def target(written: str, namespace: str) -> Target:
    """The object that an argument names, as kubectl reads it. Raises Refused."""
    if not is_name(namespace):
        raise Refused(f"--namespace={namespace}: it is not the name of a namespace", "Set it to one.", USAGE)
    kind, slash, rest = written.partition("/")
    resource = TYPES.get(kind.removesuffix(".karpenter.sh").lower()) if slash else None
    if slash and resource is None:
        raise Refused(f"{written!r}: {kind!r} is not a type that can be explained", FORMS, USAGE)
    if resource is PODS and "/" in rest:
        namespace, _, rest = rest.partition("/")
    name = rest if slash else written
    if not is_name(name) or not is_name(namespace):
        raise Refused(f"{written!r} does not name an object", FORMS, USAGE)
    found = (NODECLAIMS, NODEPOOLS, PODS) if resource is None else (resource,)
    return Target(found, namespace, name)


async def run(
    settings: Settings, release: ReleaseSettings | None, wanted: argparse.Namespace, typed: TextIO, console: Console
) -> int:
    """Explain one object; returns the exit code. `release`: where the settings were looked for. Raises Refused."""
    about = target(wanted.name, wanted.namespace)
    unread = f"not read: {release.why}; {release.remedy}" if release is not None else NO_SETTINGS
    without_azure = FILES if wanted.filename else unread if missing(settings) else ""
    async with cluster_or_files(as_caller(settings) if without_azure else settings, wanted.filename, typed) as tools:
        answer = await explain(tools, about, without_azure=without_azure, location=settings.location)
    console.print(*shown(answer, wanted.output))
    return OK


async def explain(tools: Tools, about: Target, *, without_azure: str, location: str) -> Answer:
    """The answer about one object. Raises Refused."""
    try:
        found, resource = await _look_up(tools.clients, about)
        if ignored := _ignored(found, node_pools=tools.config.node_pools):
            name = f"{about.namespace}/{about.name}" if resource.namespaced else about.name
            return Answer(kind=resource.kind, name=name, answer=ignored)
        pods = resource is not NODECLAIMS
        world = await read_world(tools, without_azure=without_azure, location=location, pods=pods)
    except KubeError as error:
        raise by_api_server(error) from None
    match found:
        case NodeClaim():
            return await explain_claim(world, found)
        case NodePool():
            return await explain_nodepool(world, found)
    return await explain_pod(world, f"{about.namespace}/{about.name}")


def _ignored(found: NodeClaim | NodePool | Pod, *, node_pools: bool) -> str:
    """Why the controller ignores the object, "" if it does not. `node_pools`: whether these are enabled."""
    match found:
        case NodeClaim() if not managed(found):
            reference = found.spec.node_class_ref
        case NodePool() if not is_own(found.spec.template.spec.node_class_ref):
            reference = found.spec.template.spec.node_class_ref
        case NodePool() if not node_pools:
            return f"ignored, {DISABLED}"
        case Pod() if not (node_pools or found.spec.node_name):
            return f"no machine is bought for it: {DISABLED}"
        case _:
            return ""
    return f"ignored, another controller serves its nodeClassRef {reference.group}/{reference.kind}"


async def _look_up(clients: Clients, about: Target) -> tuple[Any, Resource[Any]]:
    """The object, and what it is. Raises Refused if there is none or several, and KubeError.

    By a list, which is all that the controller may send about some kinds. A name is looked up as each kind that may be,
    and a name of nothing as that of the agent pool or the Node of a NodeClaim.
    """
    kube = clients.kube
    found, refused = list[tuple[Any, Resource[Any]]](), None
    for resource in about.resources:
        namespace, selector = about.namespace if resource.namespaced else "", f"metadata.name={about.name}"
        try:
            listed = await kube.list(resource, digest=whole, field_selector=selector, namespace=namespace)
        except KubeError as error:
            if error.status not in (403, 404):  # 404: the kind is not served
                raise
            refused = error if error.status == 403 else refused
            continue
        found += [(one, resource) for one in listed.items]
    if not found and NODECLAIMS in about.resources:
        found += [(claim, NODECLAIMS) for claim in await _of_machine(clients, about.name)]
    if refused is not None and not found:
        raise refused
    kinds = " or ".join(one.kind for one in about.resources)
    where = f" in namespace {about.namespace}" if PODS in about.resources else ""
    if not found:
        remedy = f"{ALL} {TAGGED}" if NODECLAIMS in about.resources else ALL
        raise Refused(f"there is no {kinds} named {about.name}{where}", remedy)
    if len(found) > 1:
        forms = " or ".join(_form(resource, about) for _, resource in found)
        raise Refused(f"{about.name} names a {' and a '.join(one.kind for _, one in found)}", f"Write {forms}.", USAGE)
    return found[0]


async def _of_machine(clients: Clients, name: str) -> list[NodeClaim]:
    """The NodeClaims whose agent pool or Node has this name."""
    try:
        claims = (await clients.kube.list(NODECLAIMS, digest=whole)).items
    except KubeError as error:
        if error.status not in (403, 404):
            raise
        return []
    return [one for one in claims if managed(one) and name in (clients.cloud.pool_name(one), one.status.node_name)]


def _form(resource: Resource[Any], about: Target) -> str:
    return f"{resource.kind.lower()}/{f'{about.namespace}/' if resource.namespaced else ''}{about.name}"
