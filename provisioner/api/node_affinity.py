"""Node selectors and required node affinity, compared with the labels of an existing Node.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/.
"""

from collections.abc import Iterator, Mapping

from .affinity import Affinity, NodeSelectorTerm
from .node import Node
from .requirements import Requirement
from .value_sets import NEGATIVE, value_set


def unmet(selector: Mapping[str, str], affinity: Affinity | None, node: Node) -> tuple[Requirement, ...]:
    """The expressions that the Node does not meet; () if it is selected.

    Of several terms of an affinity, one of which must match, those of the term that lacks the least.
    """
    expected = (Requirement(key=key, operator="In", values=(value,)) for key, value in selector.items())
    found = [one for one in expected if not meets(one, node.metadata.labels)]
    required = affinity.node_affinity.required if affinity is not None else None
    if required is not None and required.node_selector_terms:
        lacking = sorted((tuple(_of_term(term, node)) for term in required.node_selector_terms), key=len)
        found += lacking[0]
    return tuple(found)


def meets(expression: Requirement, labels: Mapping[str, str]) -> bool:
    """Whether these labels meet the expression. One that the API server would refuse is met by none."""
    value = labels.get(expression.key)
    if value is None:
        return expression.operator in NEGATIVE
    try:
        return value_set(expression.operator, expression.values).allows(value)
    except ValueError:
        return False


def selected_keys(selector: Mapping[str, str], affinity: Affinity | None) -> frozenset[str]:
    """The labels that a node selector and the required node affinity name."""
    required = affinity.node_affinity.required if affinity is not None else None
    terms = required.node_selector_terms if required is not None else ()
    return frozenset({*selector, *(one.key for term in terms for one in (*term.match_expressions, *term.match_fields))})


def _of_term(term: NodeSelectorTerm, node: Node) -> Iterator[Requirement]:
    # The only field that can be selected.
    fields = {"metadata.name": node.name}
    yield from (one for one in term.match_expressions if not meets(one, node.metadata.labels))
    yield from (one for one in term.match_fields if not meets(one, fields))
