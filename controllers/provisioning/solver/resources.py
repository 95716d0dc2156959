"""Vectors of resources in integer thousandths."""

from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING
from functools import lru_cache
from math import ceil

from provisioner.api.quantity import parse_quantity

from .model import Resources

# Stands for any number of pods that no resource and no constraint limits.
UNLIMITED = 1_000_000
# The cost of a machine without a known price: more than any limit can be.
UNPRICED = 10**30


def parse(quantities: Mapping[str, str | int | float]) -> dict[str, int]:
    """Quantities in thousandths, rounded up. Raises ValueError that names the resource."""
    parsed = {}
    for name, quantity in quantities.items():
        try:
            parsed[name] = _thousandths(quantity)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return parsed


def cost(price: float | None) -> int:
    """A price in USD an hour in thousandths, rounded up, as limits count it."""
    return UNPRICED if price is None else ceil(price * 1000 - 1e-6)


@lru_cache(maxsize=4096)  # the Nodes of a cluster have few sizes
def _thousandths(quantity: str | int | float) -> int:
    return int((parse_quantity(quantity) * 1000).to_integral_value(ROUND_CEILING))


def total(parts: Iterable[Resources]) -> dict[str, int]:
    """The sum, resource by resource."""
    summed: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            summed[name] = summed.get(name, 0) + amount
    return summed


def largest(parts: Iterable[Resources]) -> dict[str, int]:
    """The maximum, resource by resource."""
    most: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            most[name] = max(most.get(name, amount), amount)
    return most


def without(available: Resources, used: Resources) -> dict[str, int]:
    """What remains of `available`; negative where more is used."""
    return {name: amount - used.get(name, 0) for name, amount in available.items()}


def fits(requests: Resources, available: Resources) -> bool:
    """Whether the requests fit; a resource that is not available counts as 0."""
    return all(amount <= available.get(name, 0) for name, amount in requests.items() if amount > 0)


def times(requests: Resources, available: Resources) -> int | None:
    """How many times the requests fit; None if they request nothing."""
    counts = [available.get(name, 0) // amount for name, amount in requests.items() if amount > 0]
    return max(0, min(counts)) if counts else None
