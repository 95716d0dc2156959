"""Claims for devices: the controller that creates them from templates, and their allocation by kube-scheduler.

Devices are allocated first fit, from those of one Node that are free (`node_devices`).
Constraints between devices and consumable capacity are not modelled.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/,
docs/references/kubernetes.md#dynamic-resource-allocation.
"""

import asyncio
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import celpy
from celpy import celtypes
from celpy.adapter import json_to_cel
from celpy.evaluation import CELEvalError

from provisioner.simulator.kube.objects import Json
from provisioner.simulator.kube.store import Store
from provisioner.simulator.kube.watch_cache import EventType

from .node_devices import SLICES, NodeDevices, Place
from .requests import pod_requests, quantity

CLAIMS = "resourceclaims.resource.k8s.io"
TEMPLATES = "resourceclaimtemplates.resource.k8s.io"
CLASSES = "deviceclasses.resource.k8s.io"
KINDS = (CLAIMS, SLICES, CLASSES)
# In the name of the claim that kube-scheduler creates for the extended resources of a pod.
SPECIAL = "extended-resources"
REASON = "cannot allocate all claims"


class ResourceClaims:
    """The controller of the ResourceClaims of one store; its writes follow the change that requires them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        store.subscribe(self._notice)

    def _notice(self, kind: EventType, resource: str, obj: Json, _: Json | None) -> None:
        if resource == "pods" and (obj.get("spec") or {}).get("resourceClaims"):
            asyncio.get_running_loop().call_soon(self._release if kind == "DELETED" else self._create, obj)
        elif resource == TEMPLATES and kind == "ADDED":
            for pod in self._store.each("pods"):
                if (pod.get("spec") or {}).get("resourceClaims"):
                    asyncio.get_running_loop().call_soon(self._create, pod)

    def _create(self, seen: Json) -> None:
        pod = self._store.get("pods", seen["metadata"]["name"], seen["metadata"]["namespace"])
        if pod is None or "deletionTimestamp" in pod["metadata"]:
            return
        meta, known = pod["metadata"], (pod.get("status") or {}).get("resourceClaimStatuses") or []
        made = []
        for one in pod["spec"]["resourceClaims"]:
            template = self._store.get(TEMPLATES, one.get("resourceClaimTemplateName") or "", meta["namespace"])
            if template is None or any(status["name"] == one["name"] for status in known):
                continue
            owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"], "controller": True}
            body = {
                "metadata": {"generateName": f"{meta['name']}-{one['name']}-", "ownerReferences": [owner]},
                "spec": template["spec"]["spec"],
            }
            claim = self._store.create(CLAIMS, body, meta["namespace"])
            made.append({"name": one["name"], "resourceClaimName": claim["metadata"]["name"]})
        if made:
            status = {"resourceClaimStatuses": [*known, *made]}
            self._store.patch("pods", meta["name"], {"status": status}, meta["namespace"], subresource="status")

    def _release(self, pod: Json) -> None:
        """A claim that no pod uses any more loses its devices."""
        for claim in list(self._store.each(CLAIMS)):
            users = (claim.get("status") or {}).get("reservedFor") or []
            left = [one for one in users if one["uid"] != pod["metadata"]["uid"]]
            if len(left) < len(users):
                status = {"reservedFor": left or None, **({} if left else {"allocation": None})}
                _write(self._store, claim, status)


class Allocator:
    """The devices that one scheduling pass can allocate; allocations of the pass count.

    `extended`: the extended resources that DeviceClasses name, each with the newest of these.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._taken = {place for claim in store.each(CLAIMS) for place in _allocated(claim)}
        ordered = sorted(store.each(CLASSES), key=lambda one: str(one["metadata"]["creationTimestamp"]))
        named = {one["spec"].get("extendedResourceName"): one["metadata"]["name"] for one in ordered}
        self.extended = {name: of for name, of in named.items() if name}

    def plan(self, pod: Json, node: str) -> dict[str, list[Place]] | None:
        """The devices for each unallocated claim of the pod on this Node; None if they cannot be allocated."""
        found: dict[str, list[Place]] = {}
        taken = set(self._taken)
        for claim in self._claims(pod):
            if claim is None:
                return None
            pools = {place[1] for place in _allocated(claim)}
            if pools and not pools <= {pool for _, pool, _ in NodeDevices(self._store, node).devices}:
                return None
            if pools:
                continue
            places = list(self._choose(claim, node, taken))
            if not places or None in places:
                return None
            found[claim["metadata"]["name"]] = [place for place in places if place is not None]
            taken.update(found[claim["metadata"]["name"]])
        if special := self._special(pod, node):
            places = list(self._choose(special, node, taken))
            if None in places:
                return None
            found[SPECIAL] = [place for place in places if place is not None]
        return found

    def allocate(self, pod: Json, node: str) -> None:
        """Write the allocations of a pod that is about to be bound, and reserve its claims."""
        meta, planned = pod["metadata"], self.plan(pod, node) or {}
        user = {"resource": "pods", "name": meta["name"], "uid": meta["uid"]}
        for claim in self._claims(pod):
            if claim is None:
                continue
            status: Json = {"reservedFor": [*((claim.get("status") or {}).get("reservedFor") or []), user]}
            if places := planned.get(claim["metadata"]["name"]):
                request = claim["spec"]["devices"]["requests"][0]["name"]
                results = [{"request": request, "driver": d, "pool": p, "device": name} for d, p, name in places]
                status["allocation"] = {"devices": {"results": results}}
                self._taken.update(places)
            _write(self._store, claim, status)
        if places := planned.get(SPECIAL):
            self._taken.update(places)
            self._allocate_special(pod, node, places, user)

    def _special(self, pod: Json, node: str) -> Json | None:
        """A claim for the extended resources of the pod that no device plugin offers on the Node; None without them."""
        if not self.extended:
            return None
        found = self._store.get("nodes", node) or {}
        allocatable = (found.get("status") or {}).get("allocatable") or {}
        requests = [
            {"name": f"r{number}", "exactly": {"deviceClassName": self.extended[name], "count": int(amount)}}
            for number, (name, amount) in enumerate(pod_requests(pod["spec"]).items())
            if name in self.extended and not quantity(allocatable.get(name, 0))
        ]
        return {"spec": {"devices": {"requests": requests}}} if requests else None

    def _allocate_special(self, pod: Json, node: str, places: list[Place], user: Json) -> None:
        meta = pod["metadata"]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"], "controller": True}
        notes = {"resource.kubernetes.io/extended-resource-claim": "true"}
        head = {"generateName": f"{meta['name']}-{SPECIAL}-", "ownerReferences": [owner], "annotations": notes}
        made = self._store.create(CLAIMS, {"metadata": head, **(self._special(pod, node) or {})}, meta["namespace"])
        results = [{"request": "r0", "driver": d, "pool": p, "device": name} for d, p, name in places]
        _write(self._store, made, {"reservedFor": [user], "allocation": {"devices": {"results": results}}})

    def _claims(self, pod: Json) -> Iterator[Json | None]:
        known = (pod.get("status") or {}).get("resourceClaimStatuses") or []
        generated = {one["name"]: one["resourceClaimName"] for one in known}
        for one in pod["spec"].get("resourceClaims") or ():
            name = one.get("resourceClaimName") or generated.get(one["name"]) or ""
            yield self._store.get(CLAIMS, name, pod["metadata"]["namespace"])

    def _choose(self, claim: Json, node: str, taken: set[Place]) -> Iterator[Place | None]:
        """The devices of a claim; None for one that is missing. Of alternatives, the first one that is free counts."""
        mine: set[Place] = set()
        for request in claim["spec"]["devices"].get("requests") or ():
            alternatives = [request["exactly"]] if "exactly" in request else request.get("firstAvailable") or ()
            chosen = (self._free(one, node, taken | mine) for one in alternatives)
            found = next((places for places in chosen if places), ())
            if not found:
                yield None
                return
            mine.update(found)
            yield from found

    def _free(self, wanted: Json, node: str, taken: set[Place]) -> list[Place]:
        """The devices that one alternative gets on this Node; none if it lacks some."""
        known = self._store.get(CLASSES, wanted["deviceClassName"])
        selectors = [*((known or {"spec": {}})["spec"].get("selectors") or ()), *(wanted.get("selectors") or ())]
        on_node = NodeDevices(self._store, node)
        fitting = [one for one, device in on_node.devices.items() if known and _selected(selectors, device, one)]
        count = len(fitting) if wanted.get("allocationMode") == "All" else wanted.get("count", 1)
        chosen: list[Place] = []
        for place in fitting:
            if len(chosen) < count and on_node.is_free(place, wanted, (*taken, *chosen)):
                chosen.append(place)
        return chosen if fitting and len(chosen) == count else []


def _allocated(claim: Json) -> Iterator[Place]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    for one in (allocation.get("devices") or {}).get("results") or ():
        yield one["driver"], one["pool"], one["device"]


def _write(store: Store, claim: Json, status: Json) -> None:
    meta = claim["metadata"]
    store.patch(CLAIMS, meta["name"], {"status": status}, meta["namespace"], subresource="status")


# Selectors


def _quantity(text: celtypes.StringType) -> celtypes.IntType:
    return celtypes.IntType(int(quantity(str(text))))


def _compare(one: celtypes.IntType, other: celtypes.IntType) -> celtypes.IntType:
    return celtypes.IntType((one > other) - (one < other))


_ENVIRONMENT = celpy.Environment(runner_class=celpy.InterpretedRunner)
_FUNCTIONS: dict[str, Any] = {
    "quantity": _quantity,
    "compareTo": _compare,
    "isGreaterThan": lambda one, other: celtypes.BoolType(one > other),
    "isLessThan": lambda one, other: celtypes.BoolType(one < other),
    "lowerAscii": lambda text: celtypes.StringType(str(text).lower()),
}


@lru_cache(maxsize=256)
def _program(expression: str) -> celpy.Runner:
    return _ENVIRONMENT.program(_ENVIRONMENT.compile(expression), functions=_FUNCTIONS)


def _selected(selectors: list[Json], device: Json, place: Place) -> bool:
    driver = place[0]
    attributes = {name: next(iter(one.values())) for name, one in (device.get("attributes") or {}).items()}
    capacity = {name: int(quantity(one["value"])) for name, one in (device.get("capacity") or {}).items()}
    value = {"driver": driver, "attributes": {driver: attributes}, "capacity": {driver: capacity}}
    try:
        return all(_program(one["cel"]["expression"]).evaluate({"device": json_to_cel(value)}) for one in selectors)
    except CELEvalError:
        return False
