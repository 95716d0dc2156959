"""The limit of a NodePool on its cost: how it is read, and how many more machines it allows."""

from typing import Any

import msgspec
import pytest

from cloudprovider.azure.cloud import AksCloud
from controllers.nodepool import validation
from controllers.nodepool.cost_limit import ANNOTATION, LIMIT, Cost, affordable, limit, limits_of, note
from provisioner.api.labels import COST_PER_HOUR
from provisioner.api.nodepool import NodePool


def pool(most: Any = None, *, annotated: str | None = None, replicas: int | None = None) -> NodePool:
    metadata = {"name": "gpu", "annotations": {} if annotated is None else {COST_PER_HOUR: annotated}}
    limits = {} if most is None else {COST_PER_HOUR: most}
    return msgspec.convert({"metadata": metadata, "spec": {"limits": limits, "replicas": replicas}}, NodePool)


STATED: list[tuple[str, NodePool, int | None]] = [
    ("none", pool(), None),
    ("a number", pool(12), 12_000),
    ("an amount", pool("12.5"), 12_500),
    ("with a suffix", pool("1k"), 1_000_000),
    ("in thousandths", pool("12500m"), 12_500),
    ("zero", pool("0"), 0),
    ("more than 64 bits", pool("1e40"), (2**63 - 1) * 1000),
    ("annotated, static", pool(annotated="12.5", replicas=2), 12_500),
    ("annotated, dynamic", pool(annotated="12.5"), None),
    ("no number", pool(annotated="12,5", replicas=2), None),
]


@pytest.mark.parametrize(("node_pool", "found"), [row[1:] for row in STATED], ids=[row[0] for row in STATED])
def test_limit(node_pool: NodePool, found: int | None) -> None:
    assert limit(node_pool) == found
    assert (COST_PER_HOUR in limits_of(node_pool)) is (found is not None or node_pool.spec.replicas is not None)


ERRORS: list[tuple[NodePool, str, str]] = [
    (pool("12.5"), "", ""),
    (pool("0"), "", ""),
    (pool(annotated="12.5", replicas=1), "", ""),
    (pool("-1"), LIMIT, "it is negative"),
    (pool("a lot"), f"spec.limits[{COST_PER_HOUR}]", "is not a quantity"),
    (pool(annotated="-1", replicas=1), ANNOTATION, "it is negative"),
    (pool(annotated="$12", replicas=1), ANNOTATION, "'$12' is not a quantity"),
    (pool(annotated="", replicas=1), ANNOTATION, "is not a quantity"),
    (pool(annotated="12.5"), ANNOTATION, "this NodePool has no spec.replicas"),
]


@pytest.mark.parametrize(("node_pool", "field", "message"), ERRORS)
def test_errors(node_pool: NodePool, field: str, message: str) -> None:
    found = [error for error in validation.errors(node_pool, AksCloud()) if COST_PER_HOUR in error.field]
    assert [error.field for error in found] == [field] * bool(field)
    assert all(message in str(error) and error.remedy for error in found)


def cost(thousandths: int, *unpriced: str) -> Cost:
    return Cost(thousandths=thousandths, unpriced=unpriced)


AFFORDABLE: list[tuple[str, NodePool, Cost, int | None, int, int | None]] = [
    ("no limit", pool(), cost(9_000, "a"), None, 0, None),
    ("nothing yet", pool("1.2"), cost(0), 500, 0, 2),
    ("one of two", pool("1.2"), cost(500), 500, 0, 1),
    ("exactly", pool("1"), cost(500), 500, 0, 1),
    ("full", pool("1.2"), cost(1_000), 500, 0, 0),
    ("one that is being created", pool("1.2"), cost(500), 500, 1, 0),
    ("lowered since", pool("1.2"), cost(9_000), 500, 0, 0),
    ("lowered since, and another one costs nothing", pool("1.2"), cost(9_000), 0, 0, 0),
    ("costs nothing", pool("0"), cost(0), 0, 0, None),
    ("0", pool("0"), cost(0), 1, 0, 0),
    ("without a price", pool("1.2"), cost(0), None, 0, 0),
    ("a machine without a price", pool("1.2"), cost(0, "a"), 500, 0, 0),
]


@pytest.mark.parametrize(
    ("node_pool", "now", "each", "coming", "count"), [row[1:] for row in AFFORDABLE], ids=[row[0] for row in AFFORDABLE]
)
def test_affordable(node_pool: NodePool, now: Cost, each: int | None, coming: int, count: int | None) -> None:
    found, why = affordable(node_pool, now, each, coming=coming)
    assert found == count
    assert (found is None) is (why == "")


def test_messages() -> None:
    """They name the field, the amounts, and what helps."""
    annotated = pool(annotated="1.2", replicas=3)
    full = affordable(annotated, cost(1_000), 526)[1]
    assert full == (
        "metadata.annotations[gpu-provisioner.sh/cost-per-hour] is 1.2: its machines cost 1 USD an hour, another one up"
        " to 0.526; raise it"
    )
    unknown = note(pool("1.2"), cost(500, "a", "b"))
    assert unknown == (
        "spec.limits[gpu-provisioner.sh/cost-per-hour]: nothing is bought while the price of NodeClaim a, b is not"
        " known; state it with a NodeOverlay or --prices"
    )
    assert note(pool("1.2"), cost(1_300)) == (
        "spec.limits[gpu-provisioner.sh/cost-per-hour] is 1.2, and its machines cost 1.3 USD an hour: nothing is bought"
    )
    assert note(pool("1.2"), cost(1_200)) == note(pool(), cost(9)) == note(pool("1.2"), None) == ""
