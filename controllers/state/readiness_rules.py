"""The readiness rules of each claim, with what the caches show for them; and which resources the rules need.

Rules are those of the claim's AgentPoolNodeClass, then those of the settings that select the claim and its Node.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from controllers.model.facts import Facts
from controllers.model.node_for_claim import node_for_claim
from controllers.model.readiness import AppliedRule
from provisioner.api import labels
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.readiness import ReadinessRule, SelectedReadinessRule, Until
from provisioner.runtime.watched_objects import Watched, WatchedObject, WatchedObjects


def watched_by(until: Until) -> Watched | None:
    """The resource that a rule needs; None if the Node has all that it needs."""
    if until.object is not None:
        return Watched(group=until.object.group, version=until.object.version, resource=until.object.resource)
    if until.pod is not None:
        return Watched(version="v1", resource="pods", label_selector=until.pod.label_selector)
    return None


class ReadinessRules:
    """`node_classes` lists the AgentPoolNodeClasses. `objects`: the caches of what rules name, and `also`."""

    def __init__(
        self,
        rules: tuple[SelectedReadinessRule, ...],
        node_classes: Callable[[], Iterable[AgentPoolNodeClass]],
        objects: WatchedObjects,
        also: tuple[Watched, ...] = (),
    ) -> None:
        self._rules = rules
        self._also = also
        self._node_classes = node_classes
        self._objects = objects

    def watch(self) -> None:
        """Watch what the rules name now."""
        rules = (*self._rules, *(rule for one in self._node_classes() for rule in one.spec.readiness))
        named = (watched for rule in rules if (watched := watched_by(rule.until)) is not None)
        self._objects.use((*named, *self._also))

    def added_to(self, f: Facts) -> Facts:
        """The facts with the rules of the claim's Node, until it is initialized."""
        claim, node = f.claim, node_for_claim(f)
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
        found = () if problem else tuple(one.document() for one in self._found(rule.until, watched, node))
        return AppliedRule(rule=rule, source=source, objects=found, problem=problem)

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
    spec = pod.spec
    return str(spec.get("nodeName", "")) if isinstance(spec, Mapping) else ""


def _selects(selector: Mapping[str, str], found: Mapping[str, Any]) -> bool:
    return all(found.get(key) == value for key, value in selector.items())
