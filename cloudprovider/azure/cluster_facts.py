"""What all machines of a cluster have in common: what AKS documents, and what Nodes of its agent pools show.

Labels of AKS that depend on the cluster, such as those of its network, are on every Node of an agent pool; so are those
of a new machine. The zone label of a Node outside all zones is taken from the newest one.

Source: docs/references/nodes.md#labels-of-aks, docs/references/nodes.md#zones.
"""

from collections.abc import Iterable, Mapping
from heapq import nlargest

from cloudprovider.cloud import ClusterFacts
from provisioner.api import labels
from provisioner.api.node import Node
from provisioner.api.time import EARLIEST
from provisioner.api.zones import REGIONAL, is_regional

from .machine_labels import OF_SUBNET, of_cluster

# The newest Nodes suffice: labels of AKS change with its releases, and the cost stays bounded.
NODES_READ = 100
# The label of a Node whose machine was created with a node class of ours.
OF_CLASS = f"{labels.OWN_DOMAIN}/{labels.NODECLASS_KIND.lower()}"


def cluster_facts(nodes: Iterable[Node], max_pods: int) -> ClusterFacts:
    """The facts of a cluster with these Nodes. `max_pods`: of its agent pools that do not state it."""
    of_pools = [node for node in nodes if _is_of_pool(node.metadata.labels)]
    newest = _newest(of_pools)
    # A node class may have a subnet of its own; a pool without one is in that of the other pools.
    others = _newest(node for node in of_pools if OF_CLASS not in node.metadata.labels)
    common = {key: value for key, value in _common_labels(newest).items() if key not in OF_SUBNET}
    common |= {key: value for key, value in _common_labels(others).items() if key in OF_SUBNET}
    # The cloud node manager writes region and zone after the Node has registered.
    placed = (node.metadata.labels for node in newest if labels.REGION in node.metadata.labels)
    outside = [zone for known in placed if is_regional(zone := known.get(labels.ZONE, ""))]
    return ClusterFacts(max_pods=max_pods, regional_zone=outside[0] if outside else REGIONAL, labels=common)


def _newest(nodes: Iterable[Node]) -> list[Node]:
    return nlargest(NODES_READ, nodes, key=lambda node: (node.metadata.creation_timestamp or EARLIEST, node.name))


def _is_of_pool(known: Mapping[str, str]) -> bool:
    """Whether a Linux Node of an agent pool has these labels."""
    return labels.AGENTPOOL in known and known.get(labels.OS) == "linux"


def _common_labels(nodes: Iterable[Node]) -> dict[str, str | None]:
    found: dict[str, str | None] | None = None
    for node in nodes:
        known = node.metadata.labels
        if found is None:
            found = {key: value for key, value in known.items() if of_cluster(key)}
        for key in [key for key in found if key not in known]:
            del found[key]
        found |= {key: None for key, value in found.items() if known[key] != value}
    return found or {}
