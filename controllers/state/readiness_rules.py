"""The readiness rules of each claim, with what the caches show for them; and which resources the rules need.

Rules are those of the claim's AgentPoolNodeClass, then those of the settings that select the claim and its Node.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from controllers.model.facts import Facts
from controllers.model.readiness import AppliedRule
from provisioner.api import labels
from provisioner.api.jsonpath import JsonPath
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.readiness import ReadinessRule, SelectedReadinessRule, Until
from provisioner.runtime.watched_objects import Fields, Watched, WatchedObject, WatchedObjects

# A name that a field selector takes as it is.
NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,252}")


def watched_by(until: Until) -> Watched | None:
    """The resource that a rule needs; None if the Node has all that it needs."""
    if until.object is not None:
        named = until.object.name if NAME.fullmatch(until.object.name) else ""
        return Watched(
            group=until.object.group, version=until.object.version, resource=until.object.resource, name=named
        )
    if until.pod is not None:
        return Watched(version="v1", resource="pods", label_selector=until.pod.label_selector)
    return None


def fields_of(until: Until) -> Fields:
    """The fields of the objects that a rule reads, besides their metadata."""
    if until.object is None:
        return frozenset({("spec", "nodeName"), ("status", "conditions")})
    node = {("spec", "nodeName")} if (until.object.group, until.object.resource) == ("", "pods") else set()
    try:
        return frozenset({JsonPath(until.object.json_path).field, *node})
    except ValueError:
        return frozenset(node)  # the rule is not valid, and its message says so


class ReadinessRules:
    """`node_classes` lists the AgentPoolNodeClasses. `objects`: the caches of what rules name, and `also`."""

    def __init__(
        self,
        rules: tuple[SelectedReadinessRule, ...],
        node_classes: Callable[[], Iterable[AgentPoolNodeClass]],
        objects: WatchedObjects,
        also: tuple[tuple[Watched, Fields], ...] = (),
    ) -> None:
        self._rules = rules
        self._also = also
        self._node_classes = node_classes
        self._objects = objects

    def watch(self) -> None:
        """Watch what the rules name now: those of the settings first, then those of the oldest node classes."""
        classes = sorted(self._node_classes(), key=lambda one: (one.metadata.creation_timestamp, one.name))
        rules = (*self._rules, *(rule for one in classes for rule in one.spec.readiness))
        named = ((watched, fields_of(rule.until)) for rule in rules if (watched := watched_by(rule.until)) is not None)
        self._objects.use((*self._also, *named))

    def added_to(self, f: Facts) -> Facts:
        """The facts with the rules of the claim's Node, until it is initialized."""
        claim, node = f.claim, f.node
        if claim is None or claim.deleting or node is None or labels.INITIALIZED in node.metadata.labels:
            return f
        found = tuple(self._applied(rule, source, node) for rule, source in self._of(claim, node, f.node_class))
        return msgspec.structs.replace(f, readiness=found) if found else f

    def _of(
        self, claim: NodeClaim, node: Node, node_class: AgentPoolNodeClass | None
    ) -> Iterator[tuple[ReadinessRule, str]]:
        if node_class is not None:
            yield from ((rule, f"readiness[{number}]") for number, rule in enumerate(node_class.spec.readiness))
        for number, rule in enumerate(self._rules):
            if _selects(rule.claim_selector, claim.metadata.labels) and _selects(
                rule.node_selector, node.metadata.labels
            ):
                yield rule, f"readinessRules[{number}]"

    def _applied(self, rule: ReadinessRule, source: str, node: Node) -> AppliedRule:
        watched = watched_by(rule.until)
        if watched is None:
            return AppliedRule(rule=rule, source=source)
        problem = self._objects.problem(watched)
        found = () if problem else tuple(self._found(rule.until, watched, node))
        for one in found:
            if one.metadata.unreadable:
                problem = f"{watched} {one.metadata.name} cannot be read: {one.metadata.unreadable[0]}"
        return AppliedRule(rule=rule, source=source, objects=tuple(one.document() for one in found), problem=problem)

    def _found(self, until: Until, watched: Watched, node: Node) -> Iterator[WatchedObject]:
        if until.object is not None:
            name = until.object.name or node.name
            one = self._objects.get(watched, f"{until.object.namespace}/{name}" if until.object.namespace else name)
            if one is not None:
                yield one
        elif until.pod is not None:
            for pod in self._objects.items(watched):
                if pod.metadata.namespace == until.pod.namespace and node_of(pod) == node.name:
                    yield pod


def node_of(pod: WatchedObject) -> str:
    """The Node that the pod is bound to, "" if it is none."""
    return str(pod.member("spec").get("nodeName", ""))


def _selects(selector: Mapping[str, str], found: Mapping[str, Any]) -> bool:
    return all(found.get(key) == value for key, value in selector.items())
