"""The taint and the label that keep new pods and load balancers off a Node that is being removed.

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
    taints = node.spec.taints
    if not is_cordoned(node):
        taints = (*(taint for taint in taints if taint.key != DISRUPTED.key), _since(now))
    operations = (
        *replace_list("/spec/taints", node.spec.taints, taints),
        *add_keys("/metadata/labels", node.metadata.labels, {labels.EXCLUDE_BALANCERS: "karpenter"}),
    )
    return tuple(dict(operation) for operation in operations)


def _since(now: datetime) -> Taint:
    return msgspec.structs.replace(DISRUPTED, time_added=rfc3339(now))
