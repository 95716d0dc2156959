"""The taint and the label that keep new pods and load balancers off a Node that is being removed.

Source: docs/references/karpenter.md#node-termination.
"""

from controllers.model.patches import add_keys, replace_list
from provisioner.api import labels
from provisioner.api.meta import Taint
from provisioner.api.node import Node

DISRUPTED = Taint(key=labels.DISRUPTED_TAINT, effect="NoSchedule")


def is_cordoned(node: Node) -> bool:
    """Whether the Node has the taint."""
    return any(taint.matches(DISRUPTED) for taint in node.spec.taints)


def cordon(node: Node) -> tuple[dict[str, object], ...]:
    """The JSON patch that adds the taint and the label; empty if the Node has both."""
    taints = node.spec.taints
    if not is_cordoned(node):
        taints = (*(taint for taint in taints if taint.key != DISRUPTED.key), DISRUPTED)
    operations = (
        *replace_list("/spec/taints", node.spec.taints, taints),
        *add_keys("/metadata/labels", node.metadata.labels, {labels.EXCLUDE_BALANCERS: "karpenter"}),
    )
    return tuple(dict(operation) for operation in operations)
