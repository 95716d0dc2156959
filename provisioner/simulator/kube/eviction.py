"""The eviction subresource, and PodDisruptionBudgets.

The rules, their order and the messages are those of kube-apiserver: finished, pending and deleting pods ignore
budgets; two budgets for one pod are a 500; an exhausted budget is a 429 with a cause that names it. The status of
budgets is updated as by the disruption controller.

Source: https://github.com/kubernetes/kubernetes/blob/master/pkg/registry/core/pod/storage/eviction.go,
https://github.com/kubernetes/kubernetes/tree/master/pkg/controller/disruption.
"""

from math import ceil

from provisioner.api.field_error import FieldError

from .errors import ApiError, bad_request, not_found, too_many_requests
from .objects import Json, dig, rfc3339
from .selectors import label_selector
from .store import Store
from .writes import STRICT, WriteOptions, check_preconditions

_BUDGETS = "poddisruptionbudgets.policy"
_VIOLATED = "Cannot evict pod as it would violate the pod's disruption budget."
_CONDITION = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}
_SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


def evict(store: Store, name: str, namespace: str, body: Json, *, options: WriteOptions = STRICT) -> None:
    """Evict a pod; `body` is the Eviction. Raises ApiError 400, 404, 409 (preconditions), 429, 500 (budgets)."""
    collection = store.collection("pods")
    record = collection.objects.get((namespace, name))
    if record is None:
        raise not_found("pods", name)
    if dig(body, "metadata", "name") not in {None, "", name}:
        raise bad_request("name in URL does not match name in Eviction object")
    wanted = body.get("deleteOptions") or {}
    uid, rv = dig(wanted, "preconditions", "uid"), dig(wanted, "preconditions", "resourceVersion")
    check_preconditions(collection.resource, record.obj, uid=uid, revision=rv)
    if not _passes_budgets(record.obj):
        _check_budget(store, record.obj)
    if not options.dry_run and "deletionTimestamp" not in record.obj["metadata"]:
        store.patch("pods", name, _disrupted(record.obj, rfc3339(store.now())), namespace, subresource="status")
    store.delete("pods", name, namespace, grace=wanted.get("gracePeriodSeconds"), options=options)


def _disrupted(pod: Json, now: str) -> Json:
    """The DisruptionTarget condition, as a merge patch of the status."""
    others = [c for c in dig(pod, "status", "conditions") or [] if c["type"] != _CONDITION["type"]]
    return {"status": {"conditions": [*others, {**_CONDITION, "lastTransitionTime": now}]}}


def _passes_budgets(pod: Json) -> bool:
    return dig(pod, "status", "phase") in {"Succeeded", "Failed", "Pending"} or "deletionTimestamp" in pod["metadata"]


def _check_budget(store: Store, pod: Json) -> None:
    budgets = [b for b in store.each(_BUDGETS, pod["metadata"]["namespace"]) if _covers(b, pod)]
    if len(budgets) > 1:
        raise ApiError(500, "", _SEVERAL)
    for budget in budgets:
        status = budget_status(store, budget)
        current, desired = status["currentHealthy"], status["desiredHealthy"]
        if not _is_ready(pod):
            always = dig(budget, "spec", "unhealthyPodEvictionPolicy") == "AlwaysAllow"
            if always or (current >= desired > 0):
                continue
        if status["disruptionsAllowed"] <= 0:
            name = budget["metadata"]["name"]
            words = f"The disruption budget {name} needs {desired} healthy pods and has {current} currently"
            raise too_many_requests(_VIOLATED, FieldError("", "DisruptionBudget", words))


def _covers(budget: Json, pod: Json) -> bool:
    return label_selector(dig(budget, "spec", "selector"))(pod["metadata"].get("labels") or {})


def _is_ready(pod: Json) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in dig(pod, "status", "conditions") or [])


def budget_status(store: Store, budget: Json) -> Json:
    """The status that the disruption controller would write."""
    pods = [pod for pod in store.each("pods", budget["metadata"]["namespace"]) if _covers(budget, pod)]
    pods = [pod for pod in pods if dig(pod, "status", "phase") not in {"Succeeded", "Failed"}]
    healthy = sum(1 for pod in pods if _is_ready(pod) and "deletionTimestamp" not in pod["metadata"])
    spec, expected = budget["spec"], len(pods)
    if spec.get("maxUnavailable") is not None:
        desired = max(0, expected - _share(spec["maxUnavailable"], expected))
    else:
        desired = _share(spec.get("minAvailable", 1), expected)
    return {
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "disruptionsAllowed": max(0, healthy - desired) if expected else 0,
        "expectedPods": expected,
        "observedGeneration": budget["metadata"]["generation"],
    }


def _share(value: int | str, of: int) -> int:
    """A number, or a percentage rounded up."""
    return ceil(int(value.removesuffix("%")) * of / 100) if isinstance(value, str) else value


def refresh_budgets(store: Store) -> int:
    """Update the status of all budgets; returns the number of writes."""
    writes = 0
    for budget in list(store.each(_BUDGETS)):
        status = budget_status(store, budget)
        if budget.get("status") != status:
            meta = budget["metadata"]
            store.patch(_BUDGETS, meta["name"], {"status": status}, meta["namespace"], subresource="status")
            writes += 1
    return writes
