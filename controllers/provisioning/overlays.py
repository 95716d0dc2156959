"""The instance types as NodeOverlays change them: prices of offerings, and extended resources.

An overlay applies to the offerings that satisfy its requirements, which may concern the labels of an offering and its
instance type, `karpenter.sh/nodepool`, and the labels of the NodePool's template. The overlays are read in the order of
their weights, of equal ones by descending names. The first price of an offering counts, and the first amount of each
resource. An overlay that sets what one of equal weight sets as well is not used at all, nor is an invalid one. Machines
of NodeClaims without a NodePool have the prices of the overlays whose requirements need no label of one.

Source: docs/references/karpenter.md#nodeoverlay.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

import msgspec

from cloudprovider.cloud import InstanceOffering, InstanceType
from provisioner.api import labels, reasons
from provisioner.api.nodeoverlay import NodeOverlay, overlaid_price
from provisioner.api.nodepool import NodePool
from provisioner.api.requirements import Requirements, combine, conflict, conflicting, invalid, of_entries, of_labels
from provisioner.api.value_sets import ABSENT, ValueSet, one_of

from .solver.resources import parse

BUILT_IN = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})
# NodePool, instance type, zone and capacity type of an offering; the first two and an extended resource.
Place = tuple[str, str, str, str]
Amount = tuple[str, str, str]
K = TypeVar("K", Place, Amount)


class Unused(msgspec.Struct, frozen=True, kw_only=True):
    """Why an overlay is not used: a reason of its conditions, and the message."""

    reason: str
    message: str


class Overlaid(msgspec.Struct, frozen=True, kw_only=True):
    """`types`: the instance types by NodePool, "" for machines without one; empty if none differs.

    `unused`: the overlays that are not used. `offerings`: to how many offerings of NodePools each other one applies.
    """

    types: Mapping[str, tuple[InstanceType, ...]] = {}
    unused: Mapping[str, Unused] = {}
    offerings: Mapping[str, int] = {}


class _Set(msgspec.Struct, kw_only=True):
    """What the overlays read so far set, and the overlay that did so last."""

    overlay: NodeOverlay
    last: NodeOverlay


class _Offerings:
    """The labels of all offerings. A cluster can have 1,000 overlays, each of which is compared with all of them."""

    def __init__(self, types: Iterable[InstanceType]) -> None:
        self._labels = {
            (kind.name, one.zone, one.capacity_type): combine(kind.requirements, one.requirements, _of_offering(one))
            for kind in types
            for one in kind.offerings
        }
        self._defined = frozenset(key for one in self._labels.values() for key in one)

    def places(self, templates: Mapping[str, Requirements], wanted: Requirements) -> Iterator[Place]:
        """Those of each NodePool that satisfy the requirements of an overlay. `templates`: the labels by NodePool."""
        ours = {key: one for key, one in wanted.items() if key in self._defined}
        theirs = {key: one for key, one in wanted.items() if key not in self._defined}
        found = dict[frozenset[tuple[str, ValueSet]], list[tuple[str, str, str]]]()
        for pool, template in templates.items():
            if conflict(template, theirs):
                continue
            fixed = {key: template[key] for key in ours if key in template}
            alike = frozenset(fixed.items())
            if alike not in found:
                found[alike] = [
                    place
                    for place, known in self._labels.items()
                    if not conflict(combine(known, fixed) if fixed else known, ours)
                ]
            yield from ((pool, *place) for place in found[alike])


def overlaid(overlays: Iterable[NodeOverlay], pools: Iterable[NodePool], types: tuple[InstanceType, ...]) -> Overlaid:
    """The instance types of each NodePool. `types`: without overlays."""
    templates = {
        pool.name: of_labels({**pool.spec.template.metadata.labels, labels.NODEPOOL: pool.name}) for pool in pools
    }
    templates[""] = {}
    offerings, used = _Offerings(types), dict[str, int]()
    prices, amounts, unused = dict[Place, _Set](), dict[Amount, _Set](), dict[str, Unused]()
    for one in sorted(overlays, key=lambda one: (_weight(one), one.name), reverse=True):
        if one.metadata.deleting:
            continue
        try:
            wanted = _required(one)
        except ValueError as error:
            unused[one.name] = Unused(reason=reasons.OVERLAY_INVALID, message=str(error))
            continue
        places = [*offerings.places(templates, wanted)]
        machines = dict.fromkeys(place[:2] for place in places)
        priced = places if _has_price(one) else []
        sized = [(*machine, resource) for machine in machines for resource in one.spec.capacity]
        conflicting = _conflicting(one, prices, priced) or _conflicting(one, amounts, sized)
        if conflicting:
            unused[one.name] = Unused(reason=reasons.OVERLAY_CONFLICT, message=conflicting)
            continue
        _note(one, prices, priced)
        _note(one, amounts, sized)
        used[one.name] = sum(place[0] != "" for place in places)
    by_pool = {}
    if prices or amounts:
        added = dict[tuple[str, str], dict[str, str | int | float]]()
        for (pool, size, resource), first in amounts.items():
            added.setdefault((pool, size), {})[resource] = first.overlay.spec.capacity[resource]
        by_pool = {
            pool: tuple(_changed(kind, pool, prices, added.get((pool, kind.name), {})) for kind in types)
            for pool in templates
        }
    return Overlaid(types=by_pool, unused=unused, offerings=used)


def _weight(overlay: NodeOverlay) -> int:
    return overlay.spec.weight or 0


def _has_price(overlay: NodeOverlay) -> bool:
    return overlay.spec.price is not None or overlay.spec.price_adjustment is not None


def _required(overlay: NodeOverlay) -> Requirements:
    """Raises ValueError that names the field for an overlay that cannot be used."""
    spec = overlay.spec
    if spec.price is not None and spec.price_adjustment is not None:
        raise ValueError("spec.price and spec.priceAdjustment exclude each other: remove one")
    overlaid_price(spec, 0.0)
    if wrong := [*invalid(spec.requirements)] or [*conflicting(spec.requirements).values()]:
        raise ValueError(f"spec.requirements: {wrong[0]}")
    if standard := sorted(BUILT_IN & spec.capacity.keys()):
        raise ValueError(f"spec.capacity[{standard[0]}]: only extended resources can be added; remove it")
    try:
        parse(spec.capacity)
    except ValueError as error:
        raise ValueError(f"spec.capacity: {error}") from None
    return of_entries(spec.requirements)


def _of_offering(offering: InstanceOffering) -> Requirements:
    return {
        labels.ZONE: one_of((offering.zone,)) if offering.zone else ABSENT,
        labels.CAPACITY_TYPE: one_of((offering.capacity_type,)),
    }


def _conflicting(overlay: NodeOverlay, known: Mapping[K, _Set], keys: Iterable[K]) -> str:
    for key in keys:
        before = known.get(key) if key[0] else None
        if before is not None and _weight(before.last) == _weight(overlay):
            return (
                f"it sets the same as NodeOverlay {before.last.name} for {key[1]} in NodePool {key[0]}:"
                " give one of them another spec.weight"
            )
    return ""


def _note(overlay: NodeOverlay, known: dict[K, _Set], keys: Iterable[K]) -> None:
    for key in keys:
        if key in known:
            known[key].last = overlay
        else:
            known[key] = _Set(overlay=overlay, last=overlay)


def _changed(
    kind: InstanceType, pool: str, prices: Mapping[Place, _Set], added: Mapping[str, str | int | float]
) -> InstanceType:
    """The instance type as machines of the NodePool have it. `added`: resources that overlays add to it."""
    offerings = tuple(
        _priced(one, prices.get((pool, kind.name, one.zone, one.capacity_type))) for one in kind.offerings
    )
    more = parse(added)
    if not more and all(new is old for new, old in zip(offerings, kind.offerings, strict=True)):
        return kind
    return msgspec.structs.replace(
        kind, offerings=offerings, capacity={**more, **kind.capacity}, allocatable={**more, **kind.allocatable}
    )


def _priced(offering: InstanceOffering, found: _Set | None) -> InstanceOffering:
    if found is None:
        return offering
    price = overlaid_price(found.overlay.spec, offering.price)
    return offering if price is None else msgspec.structs.replace(offering, price=price, order_price=price)
