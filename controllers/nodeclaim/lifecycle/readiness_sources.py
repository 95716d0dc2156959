"""What a readiness rule lacks: a condition, resource or devices of the Node, a Ready pod on it, or a value of another
object.

An object that is named after the Node and older than it belongs to a former machine of that name, and does not count.

Source: docs/references/kubernetes.md#readiness-rules, docs/references/kubernetes.md#gpu-kernel-manager.
"""

from collections.abc import Mapping
from typing import Any

from controllers.model.facts import Facts
from controllers.model.readiness import AppliedRule
from provisioner.api.jsonpath import JsonPath
from provisioner.api.node import Node
from provisioner.api.readiness import UntilCondition, UntilObject, UntilPod, UntilResource
from provisioner.api.time import rfc3339

from . import dra
from .expected_gpus import whole_number

VALUES_SHOWN = 3


def unreadable(f: Facts, applied: AppliedRule) -> str:
    """Why what the rule names cannot be read, so that it is not known to be missing; "" if it can."""
    return applied.problem or (dra.unlisted(f) if applied.rule.until.devices is not None else "")


def missing(f: Facts, applied: AppliedRule, node: Node) -> str:
    """What the rule waits for; "" if it is satisfied."""
    until = applied.rule.until
    if until.condition is not None:
        return _condition(until.condition, node)
    if until.resource is not None:
        return _resource(f, until.resource, node)
    if until.devices is not None:
        return dra.lacking(f, node, until.devices.driver, until.devices.count)
    if applied.problem:
        return applied.problem
    if until.pod is not None:
        return _pod(until.pod, applied.objects)
    return _object(until.object, applied.objects, node) if until.object is not None else "the rule names nothing"


def _condition(until: UntilCondition, node: Node) -> str:
    found = node.condition(until.type)
    if found is None:
        return f"the Node has no condition {until.type}"
    if found.status == until.status:
        return ""
    cause = f" ({found.reason})" if found.reason else ""
    return f"condition {until.type} of the Node is {found.status}{cause}, not {until.status}"


def _resource(f: Facts, until: UntilResource, node: Node) -> str:
    if (driver := dra.gpu_driver(f)) and until.name == f.gpus.resource:
        return f"{until.name}: DRA driver {driver} publishes the GPUs of this Node; use until.devices in the rule"
    count = whole_number(node.status.allocatable.get(until.name, "0"))
    return "" if count >= until.count else f"{until.name}: {count} of {until.count} allocatable"


def _pod(until: UntilPod, pods: tuple[Mapping[str, Any], ...]) -> str:
    for pod in pods:
        conditions = (pod.get("status") or {}).get("conditions") or ()
        ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
        if ready and "deletionTimestamp" not in pod["metadata"]:
            return ""
    if not pods:
        return f"no pod {until.label_selector} of namespace {until.namespace} is on the Node"
    return f"pod {until.namespace}/{pods[0]['metadata']['name']} is not Ready"


def _object(until: UntilObject, objects: tuple[Mapping[str, Any], ...], node: Node) -> str:
    place = f"{until.namespace}/{until.name or node.name}" if until.namespace else until.name or node.name
    named = f"{until.resource}{'.' + until.group if until.group else ''} {place}"
    if not objects:
        return f"{named} does not exist"
    (document,) = objects[:1]
    if "deletionTimestamp" in document["metadata"]:
        return f"{named} is being deleted"
    # Both are RFC 3339 in UTC with whole seconds, whose order is that of the text.
    if not until.name and document["metadata"].get("creationTimestamp", "") < rfc3339(node.metadata.creation_timestamp):
        return f"{named} is older than the Node: it belongs to a former machine of this name, delete it"
    try:
        values = JsonPath(until.json_path).values(document)
    except ValueError as error:
        return f"jsonPath {until.json_path}: {error}"
    if not values:
        return f"{until.json_path} matches nothing in {named}"
    wrong = [value for value in values if until.allowed and value not in until.allowed]
    if not wrong:
        return ""
    shown = ", ".join(dict.fromkeys(value[:40] for value in wrong[:VALUES_SHOWN]))
    return f"{named} shows {shown}, not {' or '.join(until.allowed)}"
