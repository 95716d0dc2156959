"""The NodeOverlay (`karpenter.sh/v1alpha1`): prices and extended resources of instance types, as its user states them.

Source: docs/references/karpenter.md#nodeoverlay.
"""

import re
from collections.abc import Mapping
from decimal import Decimal

from .meta import EMPTY, Condition, ObjectMeta, Struct, condition_of
from .requirements import Requirement

_PRICE = re.compile(r"\d+(\.\d+)?")
_ADJUSTMENT = re.compile(r"([+-](\d*\.)?\d+)(%?)")
_LEAST_PERCENTAGE = Decimal(-100)
# Higher amounts, which users state for machines that they do not want, would overflow sums of prices.
_HIGHEST = Decimal(1_000_000)


class NodeOverlaySpec(Struct, frozen=True, kw_only=True):
    """`requirements`: the instance types and offerings that it applies to. `price`: USD an hour.

    `price_adjustment`: an amount in USD an hour, or a percentage, with its sign. `capacity`: extended resources that
    machines have besides those that are known. Of several overlays the one with the greatest weight applies.
    """

    requirements: tuple[Requirement, ...] = ()
    price: str | None = None
    price_adjustment: str | None = None
    capacity: Mapping[str, str | int | float] = EMPTY
    weight: int | None = None


class NodeOverlayStatus(Struct, frozen=True, kw_only=True):
    conditions: tuple[Condition, ...] = ()


class NodeOverlay(Struct, frozen=True, kw_only=True):
    api_version: str = "karpenter.sh/v1alpha1"
    kind: str = "NodeOverlay"
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeOverlaySpec = NodeOverlaySpec()
    status: NodeOverlayStatus = NodeOverlayStatus()

    @property
    def name(self) -> str:
        return self.metadata.name

    def condition(self, kind: str, *statuses: str) -> Condition | None:
        """The condition of this type, if it has one of these statuses (any if none is given)."""
        return condition_of(self.status.conditions, kind, *statuses)


def overlaid_price(spec: NodeOverlaySpec, price: float | None) -> float | None:
    """The price of an offering, USD an hour, which is `price` without the overlay; None: it is not known.

    Amounts, percentages and prices above 1,000,000 count as that.

    Raises ValueError that names the field, its value and the remedy.
    """
    if spec.price is not None:
        if _PRICE.fullmatch(spec.price) is None:
            raise ValueError(f"spec.price: {spec.price!r} is not a price; write USD an hour, such as 3.25")
        return float(min(Decimal(spec.price), _HIGHEST))
    if spec.price_adjustment is None:
        return price
    match = _ADJUSTMENT.fullmatch(spec.price_adjustment)
    amount = Decimal(match[1]) if match is not None else None
    if match is None or amount is None or (match[3] and amount < _LEAST_PERCENTAGE):
        raise ValueError(
            f"spec.priceAdjustment: {spec.price_adjustment!r} is no adjustment; write a percentage of at least -100%,"
            " such as -15%, or USD an hour with a sign, such as +0.5"
        )
    if price is None:
        return None
    amount = max(-_HIGHEST, min(amount, _HIGHEST))
    changed = Decimal(str(price)) * (1 + amount / 100) if match[3] else Decimal(str(price)) + amount
    return float(max(Decimal(0), min(changed, _HIGHEST)))
