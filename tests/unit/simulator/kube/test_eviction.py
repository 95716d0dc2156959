"""The pods and the disruptions that a PodDisruptionBudget allows."""

import pytest

from provisioner.simulator.kube.eviction import evict, refresh_budgets
from provisioner.simulator.kube.selectors import label_selector

from .stores import Cluster, refused

BUDGETS = "poddisruptionbudgets.policy"
FOUND = {"app": "web", "tier": "1", "karpenter.sh/nodepool": "gpu"}


def cluster(pods=2, *, budget, ready=True):
    c = Cluster(widgets=False)
    for i in range(pods):
        c.pod(f"p{i}", labels={"app": "a"}, ready=ready)
    spec = {"selector": {"matchLabels": {"app": "a"}}, **budget}
    c.store.create(BUDGETS, {"metadata": {"name": "guard"}, "spec": spec})
    return c


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "db"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
    ],
)
def test_structured_selectors(selector, chosen) -> None:
    """As budgets use them: a missing selector selects nothing, an empty one everything."""
    assert label_selector(selector)(FOUND) is chosen


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        ({"minAvailable": 2}, 0),
        ({"minAvailable": "50%"}, 1),
        ({"minAvailable": "51%"}, 0),
        ({"maxUnavailable": 0}, 0),
        ({"maxUnavailable": 1}, 1),
        ({"maxUnavailable": "100%"}, 2),
        ({}, 1),
    ],
)
def test_the_disruptions_a_budget_allows(spec, allowed) -> None:
    """Numbers and percentages, which are rounded up."""
    c = cluster(budget=spec)
    assert refresh_budgets(c.store) == 1
    assert refresh_budgets(c.store) == 0
    budget = c.store.get(BUDGETS, "guard", "default")
    assert budget is not None
    assert budget["status"]["disruptionsAllowed"] == allowed


def test_an_unready_pod_is_evicted_if_enough_others_are_healthy() -> None:
    """IfHealthyBudget, the default; AlwaysAllow does not require healthy pods."""
    c = cluster(1, budget={"minAvailable": 1})
    c.pod("sick", labels={"app": "a"}, ready=False)
    evict(c.store, "sick", "default", {})
    c = cluster(1, budget={"minAvailable": 1}, ready=False)
    assert refused(lambda: evict(c.store, "p0", "default", {})).status == 429
    c.store.patch(BUDGETS, "guard", {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}, "default")
    evict(c.store, "p0", "default", {})
