"""Whether the API server is that of the managed cluster whose agent pools are listed, by its Nodes' machines.

The settings name the managed cluster, and values are copied between clusters. AKS creates all machines of a cluster in
its node resource group, and the providerID of a Node names the resource group of its machine. One Node in that group
proves that both are the same; Nodes of other resource groups and none in that one prove that they are not. Nodes
without a machine in Azure prove nothing.

Source: docs/references/agent-pools.md#names-and-ids.
"""

from controllers.model.failures import CloudFailure
from provisioner.api import reasons


def failure(of_cluster: str) -> CloudFailure:
    """Why nothing is done while the Nodes are in other resource groups than the managed cluster's machines."""
    return CloudFailure(kind="retryable", reason=reasons.WRONG_CLUSTER, message=message(of_cluster))


def message(of_cluster: str) -> str:
    """At most 256 bytes: the name of a resource group has at most 90 characters."""
    group = of_cluster.rpartition("/")[2]
    return (
        f"no Node is in {group}, the node resource group of the managed cluster of the settings. Correct"
        " ARM_SUBSCRIPTION_ID, ARM_RESOURCE_GROUP, AZURE_CLUSTER_NAME"
    )
