"""Which NodePools of manifests the controller would use, and why not the others, without a cluster.

Without a node class in the manifests, the classes are assumed to exist.
"""

from collections.abc import Collection, Iterator, Sequence

from cloudprovider.azure.pricing import is_known_size
from controllers.nodepool.nodepool import is_ours
from controllers.nodepool.validation import TEMPLATE, errors
from controllers.provisioning.nodepools import provisions, why_unusable
from provisioner.api.nodepool import NodePool


def unusable(pools: Sequence[NodePool], classes: Collection[str]) -> Iterator[tuple[NodePool, str]]:
    """The NodePools that are not used, each with the cause. `classes`: the names of the AgentPoolNodeClasses read."""
    for pool in pools:
        if why := _why(pool, classes):
            yield pool, why


def _why(pool: NodePool, classes: Collection[str]) -> str:
    reference = pool.spec.template.spec.node_class_ref
    if reference.kind and not is_ours(pool):
        return f"another controller serves its node class {reference.kind}.{reference.group}"
    if classes and reference.name not in classes:
        return f"AgentPoolNodeClass {reference.name} is not among the manifests; add it, or correct nodeClassRef.name"
    # An invalid limit is an error of the input; the template only makes this NodePool unusable.
    wrong = next((error for error in errors(pool, is_known_size) if error.field.startswith(TEMPLATE)), None)
    if wrong is not None:
        return str(wrong)
    if pool.spec.replicas is not None:
        return "spec.replicas determines its machines, not pods"
    return "" if provisions(pool) else why_unusable(pool)
