"""The taint and the label that keep new pods and load balancers off a Node that is being removed or replaced.

Source: docs/references/karpenter.md#node-termination.
"""

from datetime import datetime

import msgspec

from controllers.model.patches import add_keys, replace_list
from provisioner.api import labels
from provisioner.api.meta import Taint
from provisioner.api.node import Node
from provisioner.api.time import parse_rfc3339, rfc3339

DISRUPTED = Taint(key=labels.DISRUPTED_TAINT, effect="NoSchedule")


def is_cordoned(node: Node) -> bool:
    """Whether the Node has the taint."""
    return any(taint.matches(DISRUPTED) for taint in node.spec.taints)


def cordoned_at(node: Node, now: datetime) -> datetime | None:
    """When the taint was added, as it states; None without a time, or with one in the future."""
    times = [parse_rfc3339(taint.time_added or "") for taint in node.spec.taints if taint.matches(DISRUPTED)]
    return min((time for time in times if time is not None and time <= now), default=None)


def cordon(node: Node, now: datetime) -> tuple[dict[str, object], ...]:
    """The JSON patch that adds the taint, with its time, and the label; empty if the Node has both."""
    operations = (
        *taint(node, now),
        *add_keys("/metadata/labels", node.metadata.labels, {labels.EXCLUDE_BALANCERS: "karpenter"}),
    )
    return tuple(dict(operation) for operation in operations)


def taint(node: Node, now: datetime) -> tuple[dict[str, object], ...]:
    """The JSON patch that adds the taint, with its time; empty if the Node has it."""
    if is_cordoned(node):
        return ()
    taints = (*(one for one in node.spec.taints if one.key != DISRUPTED.key), _since(now))
    return tuple(dict(operation) for operation in replace_list("/spec/taints", node.spec.taints, taints))


def untaint(node: Node) -> tuple[dict[str, object], ...]:
    """The JSON patch that removes the taint; empty if the Node does not have it."""
    taints = tuple(one for one in node.spec.taints if not one.matches(DISRUPTED))
    return tuple(dict(operation) for operation in replace_list("/spec/taints", node.spec.taints, taints))


def _since(now: datetime) -> Taint:
    return msgspec.structs.replace(DISRUPTED, time_added=rfc3339(now))
