"""The binding subresource: assigns a pod to a Node, once.

The Node need not exist. The conditions that a scheduler wrote are replaced by PodScheduled True in the same write.

Source: https://github.com/kubernetes/kubernetes/blob/v1.34.4/pkg/registry/core/pod/storage/storage.go (BindingREST).
"""

from .errors import ApiError, bad_request, conflict, not_found
from .objects import Json, dig, rfc3339
from .store import Store
from .writes import STRICT, WriteOptions


def bind(store: Store, name: str, namespace: str, body: Json, *, options: WriteOptions = STRICT) -> None:
    """Bind a pod; `body` is the Binding. Raises ApiError 400, 404, 409 (bound, deleting, gated), 500 (no target)."""
    pod = store.get("pods", name, namespace)
    if dig(body, "metadata", "name") != name:
        raise bad_request("name in URL does not match name in Binding object")
    node = dig(body, "target", "name")
    if not node:
        raise ApiError(500, "", "target.name: Required value")
    if pod is None:
        raise not_found("pods", name)
    if obstacle := _obstacle(pod, dig(body, "metadata", "uid")):
        raise conflict("pods/binding", name, obstacle)
    meta = {**pod["metadata"], **_merged(pod["metadata"], body["metadata"])}
    status = {**pod["status"], "conditions": _conditions(pod, rfc3339(store.now()))}
    status.pop("nominatedNodeName", None)
    bound = {**pod, "metadata": meta, "spec": {**pod["spec"], "nodeName": node}, "status": status}
    store.replace("pods", name, bound, namespace, subresource="binding", options=options)


def _obstacle(pod: Json, uid: str | None) -> str:
    name, meta = pod["metadata"]["name"], pod["metadata"]
    if uid and uid != meta["uid"]:
        return f"Precondition failed: UID in precondition: {uid}, UID in object meta: {meta['uid']}"
    if "deletionTimestamp" in meta:
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if node := pod["spec"].get("nodeName"):
        return f'pod {name} is already assigned to node "{node}"'
    if pod["spec"].get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def _merged(old: Json, sent: Json) -> Json:
    found = {field: {**(old.get(field) or {}), **(sent.get(field) or {})} for field in ("annotations", "labels")}
    return {field: value for field, value in found.items() if value}


def _conditions(pod: Json, now: str) -> list[Json]:
    others = [c for c in dig(pod, "status", "conditions") or () if c["type"] != "PodScheduled"]
    return [*others, {"type": "PodScheduled", "status": "True", "lastTransitionTime": now}]
