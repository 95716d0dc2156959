"""Claims for devices: the controller that creates them from templates, and their allocation by kube-scheduler.

Devices are allocated first fit, from complete pools of one Node at their highest generation.
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

from .requests import quantity

CLAIMS = "resourceclaims.resource.k8s.io"
TEMPLATES = "resourceclaimtemplates.resource.k8s.io"
SLICES = "resourceslices.resource.k8s.io"
CLASSES = "deviceclasses.resource.k8s.io"
KINDS = (CLAIMS, SLICES, CLASSES)
REASON = "cannot allocate all claims"

# Driver, pool and device.
Place = tuple[str, str, str]


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
    """The devices that one scheduling pass can allocate; allocations of the pass count."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._taken = {place for claim in store.each(CLAIMS) for place in _allocated(claim)}

    def plan(self, pod: Json, node: str) -> dict[str, list[Place]] | None:
        """The devices for each unallocated claim of the pod on this Node; None if they cannot be allocated."""
        found: dict[str, list[Place]] = {}
        taken = set(self._taken)
        for claim in self._claims(pod):
            if claim is None:
                return None
            pools = {place[1] for place in _allocated(claim)}
            if pools and not pools <= {pool for _, pool, _ in self._devices(node)}:
                return None
            if pools:
                continue
            places = list(self._choose(claim, node, taken))
            if not places or None in places:
                return None
            found[claim["metadata"]["name"]] = [place for place in places if place is not None]
            taken.update(found[claim["metadata"]["name"]])
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

    def _claims(self, pod: Json) -> Iterator[Json | None]:
        known = (pod.get("status") or {}).get("resourceClaimStatuses") or []
        generated = {one["name"]: one["resourceClaimName"] for one in known}
        for one in pod["spec"].get("resourceClaims") or ():
            name = one.get("resourceClaimName") or generated.get(one["name"]) or ""
            yield self._store.get(CLAIMS, name, pod["metadata"]["namespace"])

    def _choose(self, claim: Json, node: str, taken: set[Place]) -> Iterator[Place | None]:
        """The devices of a claim; None for one that is missing."""
        mine: set[Place] = set()
        for request in claim["spec"]["devices"].get("requests") or ():
            exactly = request["exactly"]
            known = self._store.get(CLASSES, exactly["deviceClassName"])
            selectors = [*((known or {"spec": {}})["spec"].get("selectors") or ()), *(exactly.get("selectors") or ())]
            fitting = [
                place for place, one in self._devices(node).items() if known and _selected(selectors, one, place)
            ]
            free = [place for place in fitting if place not in taken | mine]
            every = exactly.get("allocationMode") == "All"
            wanted = len(fitting) if every else exactly.get("count", 1)
            if not fitting or len(free) < wanted:
                yield None
                return
            mine.update(free[:wanted])
            yield from free[:wanted]

    def _devices(self, node: str) -> dict[Place, Json]:
        pools: dict[tuple[str, str], list[Json]] = {}
        for one in self._store.each(SLICES):
            spec = one["spec"]
            if spec.get("nodeName") == node:
                pools.setdefault((spec["driver"], spec["pool"]["name"]), []).append(spec)
        found: dict[Place, Json] = {}
        for (driver, pool), specs in sorted(pools.items()):
            newest = max(spec["pool"]["generation"] for spec in specs)
            kept = [spec for spec in specs if spec["pool"]["generation"] == newest]
            if len(kept) != kept[0]["pool"]["resourceSliceCount"]:
                continue
            for device in (device for spec in kept for device in spec.get("devices") or ()):
                if not device.get("taints"):
                    found[driver, pool, device["name"]] = device
        return found


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
