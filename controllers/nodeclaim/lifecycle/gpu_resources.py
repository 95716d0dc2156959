"""Expected and allocatable GPUs of a Node.

Allocatable counts, not capacity, which stays for minutes after a device plugin has stopped
(docs/references/kubernetes.md#extended-resources-and-the-device-manager). An invalid quantity counts as 0.
"""

from controllers.model.facts import Facts
from provisioner.api import labels
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.quantity import parse_quantity


def expected_gpus(f: Facts, claim: NodeClaim) -> int:
    """How many GPUs must be allocatable before the Node is initialized; 0 if GPUs are only reported."""
    mode = claim.metadata.annotations.get(labels.GPU_READINESS, f.policy.gpu_readiness)
    return 0 if mode == "report" else f.gpus.count


def allocatable_gpus(f: Facts, node: Node) -> int:
    """How many GPUs are allocatable on this Node."""
    return whole_number(node.status.allocatable.get(f.gpus.resource, "0"))


def lacks_gpus(f: Facts, claim: NodeClaim, node: Node) -> bool:
    """Whether the Node has fewer allocatable GPUs than expected."""
    return allocatable_gpus(f, node) < expected_gpus(f, claim)


def whole_number(value: str | float) -> int:
    """A quantity as a whole number, rounded down."""
    try:
        return int(parse_quantity(value))
    except ValueError:
        return 0
