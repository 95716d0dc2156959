"""Decoding and encoding of objects of built-in kinds as in Go.

Unknown fields are dropped and reported. Values that Go cannot decode are rejected. Nulls are dropped, and empty values
where Go omits them, so that the operation `test` of a JSON patch sees the same object as on kube-apiserver. Pure.

Source: https://kubernetes.io/docs/reference/kubernetes-api/,
https://pkg.go.dev/k8s.io/apimachinery/pkg/apis/meta/v1#MicroTime (exactly six decimals).
"""

import re
from typing import Any

from .errors import bad_request
from .objects import Json, dig
from .times import normalized

_FIELDS: dict[str, dict[str, str]] = {
    "nodes": {
        "": "spec status",
        "spec": "configSource externalID podCIDR podCIDRs providerID taints unschedulable",
        "status": "addresses allocatable capacity conditions config daemonEndpoints declaredFeatures features images "
        "nodeInfo phase runtimeHandlers volumesAttached volumesInUse",
    },
    "pods": {"": "spec status"},
    "persistentvolumeclaims": {
        "": "spec status",
        "spec": "accessModes dataSource dataSourceRef resources selector storageClassName volumeAttributesClassName "
        "volumeMode volumeName",
    },
    "persistentvolumes": {"": "spec status"},
    "storageclasses.storage.k8s.io": {
        "": "allowVolumeExpansion allowedTopologies mountOptions parameters provisioner reclaimPolicy volumeBindingMode"
    },
    "namespaces": {"": "spec status", "spec": "finalizers", "status": "conditions phase"},
    "daemonsets.apps": {"": "spec status"},
    "jobs.batch": {"": "spec status"},
    "events": {
        "": "action count eventTime firstTimestamp involvedObject lastTimestamp message reason related "
        "reportingComponent reportingInstance series source type",
        "involvedObject": "apiVersion fieldPath kind name namespace resourceVersion uid",
        "source": "component host",
    },
    "leases.coordination.k8s.io": {
        "": "spec",
        "spec": "acquireTime holderIdentity leaseDurationSeconds leaseTransitions preferredHolder renewTime strategy",
    },
    "poddisruptionbudgets.policy": {
        "": "spec status",
        "spec": "maxUnavailable minAvailable selector unhealthyPodEvictionPolicy",
        "status": "conditions currentHealthy desiredHealthy disruptedPods disruptionsAllowed expectedPods "
        "observedGeneration",
    },
    "resourceslices.resource.k8s.io": {
        "": "spec",
        "spec": "allNodes devices driver nodeName nodeSelector perDeviceNodeSelection pool sharedCounters",
    },
    "resourceclaims.resource.k8s.io": {
        "": "spec status",
        "spec": "devices",
        "status": "allocation devices reservedFor",
    },
    "resourceclaimtemplates.resource.k8s.io": {"": "spec", "spec": "metadata spec"},
    "deviceclasses.resource.k8s.io": {"": "spec", "spec": "config extendedResourceName selectors"},
    "volumeattachments.storage.k8s.io": {
        "": "spec status",
        "spec": "attacher nodeName source",
        "status": "attachError attached attachmentMetadata detachError",
    },
}
# Fields with omitempty: those that the controller compares whole or by presence.
_OMITS_EMPTY: dict[str, tuple[str, ...]] = {"nodes": ("spec",), "events": ("involvedObject", "source")}
_LISTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "nodes": (("spec", "taints"), ("status", "conditions"), ("status", "addresses"))
}
_MICRO_TIMES: dict[str, tuple[tuple[str, ...], ...]] = {
    "leases.coordination.k8s.io": (("spec", "renewTime"), ("spec", "acquireTime")),
    "events": (("eventTime",),),
}
# Of lists, the field of each item.
_TIMES: dict[str, tuple[tuple[str, ...], ...]] = {
    "nodes": (
        ("spec", "taints", "timeAdded"),
        ("status", "conditions", "lastHeartbeatTime"),
        ("status", "conditions", "lastTransitionTime"),
    ),
    "pods": (("status", "startTime"), ("status", "conditions", "lastTransitionTime")),
    "events": (("firstTimestamp",), ("lastTimestamp",)),
}
_INT64 = range(-(2**63), 2**63)
_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)")


def shape(key: str, obj: Json, unknown: list[str]) -> Json:
    """The object as it is stored; paths of unknown fields are added to `unknown`. Raises ApiError 400."""
    _check_types(key, obj)
    fields = _FIELDS.get(key)
    shaped: Json = {}
    for name, value in obj.items():
        if fields is not None and name not in {"apiVersion", "kind", "metadata", *fields[""].split()}:
            unknown.append(name)
        elif name == "metadata" or fields is None:
            shaped[name] = value
        elif value is not None:
            shaped[name] = _known(value, name, fields.get(name), unknown)
    for path in _TIMES.get(key, ()):
        _normalize_time(shaped, path)
    for name in _OMITS_EMPTY.get(key, ()):
        if name in shaped:
            shaped[name] = _without_empty(shaped[name])
    if key == "nodes":
        shaped.setdefault("spec", {})
        shaped.setdefault("status", {})
    return shaped


def _normalize_time(value: Any, path: tuple[str, ...]) -> None:
    """Write the time at that path as Go does; a zero time is left out."""
    if isinstance(value, list):
        for item in value:
            _normalize_time(item, path)
    elif isinstance(value, dict) and path[0] in value:
        if len(path) > 1:
            _normalize_time(value[path[0]], path[1:])
        elif (time := normalized(value[path[0]])) is None:
            del value[path[0]]
        else:
            value[path[0]] = time


def _known(value: Any, path: str, names: str | None, unknown: list[str]) -> Any:
    if not isinstance(value, dict):
        return value
    known = value if names is None else {k: v for k, v in value.items() if k in names.split()}
    unknown.extend(f"{path}.{name}" for name in value if name not in known)
    return {name: _without_nulls(below) for name, below in known.items() if below is not None}


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        found = {k: _without_empty(v) for k, v in value.items()}
        return {k: v for k, v in found.items() if v not in ([], {}, "") and v is not False}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value


def _check_types(key: str, obj: Json) -> None:
    for name in ("spec", "status"):
        if name in obj and not isinstance(obj[name], dict | None):
            raise _undecodable(obj[name], name, "object")
    for place in _LISTS.get(key, ()):
        value = dig(obj, *place)
        if not isinstance(value, list | None) or not all(isinstance(item, dict) for item in value or ()):
            raise _undecodable(value, ".".join(place), "list")
    seconds = dig(obj, "spec", "terminationGracePeriodSeconds") if key == "pods" else None
    if seconds is not None and not (type(seconds) is int and seconds in _INT64):
        raise _undecodable(seconds, "PodSpec.spec.terminationGracePeriodSeconds", "int64")
    for path in _MICRO_TIMES.get(key, ()):
        value = dig(obj, *path)
        if value is not None and not (isinstance(value, str) and _MICRO_TIME.fullmatch(value)):
            raise bad_request(f'parsing time "{value}" as "2006-01-02T15:04:05.000000Z07:00": cannot parse')


def _undecodable(value: object, path: str, kind: str) -> Exception:
    found = {str: "string", list: "array", dict: "object", bool: "bool"}.get(type(value), "number")
    return bad_request(f"json: cannot unmarshal {found} into Go struct field {path} of type {kind}")
