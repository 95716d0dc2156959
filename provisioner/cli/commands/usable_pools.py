"""Which NodePools of manifests the controller would use, and why not the others, without a cluster.

Without a node class in the manifests, the classes are assumed to exist.
"""

from collections.abc import Iterator, Mapping, Sequence

from cloudprovider.cloud import Cloud
from controllers.nodeclass.validation import errors as class_errors
from controllers.nodepool.nodepool import is_ours
from controllers.nodepool.validation import TEMPLATE, errors
from controllers.provisioning.nodepools import provisions, why_unusable
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.nodepool import NodePool


def unusable(
    pools: Sequence[NodePool], classes: Mapping[str, AgentPoolNodeClass], cloud: Cloud
) -> Iterator[tuple[NodePool, str]]:
    """The NodePools that are not used, each with the cause. `classes`: the AgentPoolNodeClasses read, by name."""
    for pool in pools:
        if why := _why(pool, classes, cloud):
            yield pool, why


def foreign(pools: Sequence[NodePool]) -> Iterator[tuple[NodePool, str]]:
    """The NodePools of other controllers, each with the cause."""
    for pool in pools:
        if why := _why_foreign(pool):
            yield pool, why


def _why(pool: NodePool, classes: Mapping[str, AgentPoolNodeClass], cloud: Cloud) -> str:
    if why := _why_foreign(pool):
        return why
    reference = pool.spec.template.spec.node_class_ref
    if classes and reference.name not in classes:
        return f"AgentPoolNodeClass {reference.name} is not among the manifests; add it, or correct nodeClassRef.name"
    node_class = classes.get(reference.name)
    refused = next(class_errors(node_class.spec), None) if node_class is not None else None
    if refused is not None:
        return f"AgentPoolNodeClass {reference.name}: {refused}"
    # An invalid limit is an error of the input; the template only makes this NodePool unusable.
    wrong = next((error for error in errors(pool, cloud.is_known_size) if error.field.startswith(TEMPLATE)), None)
    if wrong is not None:
        return str(wrong)
    if pool.spec.replicas is not None:
        return "spec.replicas determines its machines, not pods"
    return "" if provisions(pool) else why_unusable(pool)


def _why_foreign(pool: NodePool) -> str:
    reference = pool.spec.template.spec.node_class_ref
    if reference.kind and not is_ours(pool):
        return f"another controller serves its node class {reference.kind}.{reference.group}"
    return ""
