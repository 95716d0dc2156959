"""What the name and the providerID of a Node of AKS state: its agent pool and its resource group."""

import re

from .node import Node

# docs/references/agent-pools.md#names-and-ids
_NODE_NAME = re.compile(r"(aks-([a-z0-9]+)-[0-9]+-vmss)[0-9a-z]{6,}")
_PROVIDER_ID = re.compile(r"azure:///.*/virtualMachineScaleSets/([^/]+)/virtualMachines/[0-9]+", re.IGNORECASE)
_GROUP_ID = re.compile(r"azure://(/subscriptions/[^/]+/resourceGroups/[^/]+)/", re.IGNORECASE)


def pool_of(node: Node) -> str:
    """The agent pool whose scale set this Node is a machine of, "" if it is none of AKS.

    By the Node's name, which its credential proves, and by its providerID once it has one. Its labels do not count: who
    holds the credential of a kubelet can change most labels of its Node
    (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction).
    """
    named, provider_id = _NODE_NAME.fullmatch(node.name), node.spec.provider_id
    if named is None or (provider_id and _scale_set(provider_id) != named[1]):
        return ""
    return named[2]


def _scale_set(provider_id: str) -> str:
    found = _PROVIDER_ID.fullmatch(provider_id)
    return found[1].lower() if found is not None else ""


def resource_group_of(node: Node) -> str:
    """The ARM id, in lower case, of the resource group of this Node's machine; "" if its providerID names none."""
    found = _GROUP_ID.match(node.spec.provider_id)
    return found[1].lower() if found is not None else ""
