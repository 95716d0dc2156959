"""Evictions and PodDisruptionBudgets."""

import pytest

from provisioner.simulator.kube.eviction import evict, refresh_budgets

from .stores import Cluster, refused

BUDGETS = "poddisruptionbudgets.policy"
VIOLATED = "Cannot evict pod as it would violate the pod's disruption budget."


def cluster(pods=2, *, budget=None, ready=True):
    c = Cluster(widgets=False)
    for i in range(pods):
        c.pod(f"p{i}", labels={"app": "a"}, ready=ready)
    if budget is not None:
        guard(c, "guard", budget)
    return c


def guard(c, name, spec) -> None:
    c.store.create(BUDGETS, {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": "a"}}, **spec}})


def is_going(c, name):
    return "deletionTimestamp" in c.store.get("pods", name, "default")["metadata"]


def test_an_eviction_is_a_deletion_with_grace() -> None:
    """Without a budget the pod is deleted with its grace period."""
    c = cluster()
    evict(c.store, "p0", "default", {"deleteOptions": {"gracePeriodSeconds": 5}})
    pod = c.store.get("pods", "p0", "default")
    assert pod is not None
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 5


def test_an_exhausted_budget_is_named() -> None:
    """429, with the message and the cause that drain implementations parse."""
    c = cluster(budget={"minAvailable": 1})
    evict(c.store, "p0", "default", {})
    error = refused(lambda: evict(c.store, "p1", "default", {}))
    assert (error.status, error.reason, error.message) == (429, "TooManyRequests", VIOLATED)
    words = "The disruption budget guard needs 1 healthy pods and has 1 currently"
    assert error.details["causes"] == [{"reason": "DisruptionBudget", "message": words}]
    assert not is_going(c, "p1")


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


def test_two_budgets_on_one_pod_are_an_error_of_the_server() -> None:
    """500, with the message of the real server."""
    c = cluster(budget={"minAvailable": 0})
    guard(c, "second", {"minAvailable": 0})
    error = refused(lambda: evict(c.store, "p0", "default", {}))
    stated = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    assert (error.status, error.message) == (500, stated)


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
def test_pods_that_do_not_run_are_evicted_despite_a_budget(phase) -> None:
    """Pending and finished pods do not count as disruptions."""
    c = cluster(budget={"maxUnavailable": 0})
    c.pod("idle", labels={"app": "a"}, phase=phase)
    evict(c.store, "idle", "default", {})


def test_an_unready_pod_is_evicted_if_enough_others_are_healthy() -> None:
    """IfHealthyBudget, the default; AlwaysAllow does not require healthy pods."""
    c = cluster(1, budget={"minAvailable": 1})
    c.pod("sick", labels={"app": "a"}, ready=False)
    evict(c.store, "sick", "default", {})
    c = cluster(1, budget={"minAvailable": 1}, ready=False)
    assert refused(lambda: evict(c.store, "p0", "default", {})).status == 429
    c.store.patch(BUDGETS, "guard", {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}, "default")
    evict(c.store, "p0", "default", {})


def test_an_eviction_with_a_uid_precondition() -> None:
    """Another pod of the same name is not evicted."""
    c = cluster()
    error = refused(lambda: evict(c.store, "p0", "default", {"deleteOptions": {"preconditions": {"uid": "old"}}}))
    assert (error.status, is_going(c, "p0")) == (409, False)
    assert refused(lambda: evict(c.store, "gone", "default", {})).status == 404
