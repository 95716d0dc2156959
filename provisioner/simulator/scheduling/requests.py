"""The resources that a pod occupies on a Node.

Amounts are numbers in base units: cores, bytes, devices. Containers without a request have their limit as request, as
after the defaulting of kube-apiserver.

Source: https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers,
https://kubernetes.io/docs/concepts/scheduling-eviction/pod-overhead/,
https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/.
"""

from collections.abc import Iterable
from decimal import Decimal
from functools import lru_cache
from typing import Any

Json = dict[str, Any]
Amounts = dict[str, Decimal]

_SUFFIXES = {
    **{f"{unit}i": Decimal(1024**power) for power, unit in enumerate("KMGTPE", start=1)},
    **{unit: Decimal(1000**power) for power, unit in enumerate("kMGTPE", start=1)},
    "m": Decimal("1e-3"),
    "u": Decimal("1e-6"),
    "n": Decimal("1e-9"),
}
# Resources of the pod as a whole, which replace the sums of its containers.
_POD_LEVEL = ("cpu", "memory")


@lru_cache(maxsize=4096)
def quantity(text: str | int | float) -> Decimal:
    """A quantity as a number. Raises ArithmeticError if it is none."""
    written = str(text)
    for suffix, factor in _SUFFIXES.items():
        if written.endswith(suffix):
            return Decimal(written.removesuffix(suffix)) * factor
    return Decimal(written)


def amounts(resources: Json | None) -> Amounts:
    """A resource list as numbers."""
    return {name: quantity(value) for name, value in (resources or {}).items()}


def pod_requests(spec: Json) -> Amounts:
    """The effective requests of a pod: its containers or its largest initialization, and its overhead."""
    running = _sum(_container(container) for container in spec.get("containers") or ())
    sidecars: Amounts = {}
    largest: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = _sum([sidecars, _container(container)])
        if container.get("restartPolicy") == "Always":
            sidecars = own
        largest = _maximum(largest, own)
    found = _maximum(_sum([running, sidecars]), largest)
    whole = spec.get("resources") or {}
    for name, amount in (amounts(whole.get("limits")) | amounts(whole.get("requests"))).items():
        if name in _POD_LEVEL or name.startswith("hugepages-"):
            found[name] = amount
    return {name: amount for name, amount in _sum([found, amounts(spec.get("overhead"))]).items() if amount}


def _container(container: Json) -> Amounts:
    resources = container.get("resources") or {}
    return amounts(resources.get("limits")) | amounts(resources.get("requests"))


def _sum(parts: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, Decimal(0)) + amount
    return total


def _maximum(one: Amounts, other: Amounts) -> Amounts:
    return {name: max(one.get(name, Decimal(0)), other.get(name, Decimal(0))) for name in {**one, **other}}
