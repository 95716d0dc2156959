"""The limit of a NodePool on what its machines cost together, in USD an hour.

A dynamic NodePool has it in `spec.limits`. The CRD allows only `nodes` there for a static one, which has it as an
annotation. A machine without a known price exceeds every limit, so that nothing is bought that could exceed it.

Source: docs/how-to/prices.md#a-limit-in-money.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal

import msgspec

from provisioner.api.field_error import FieldError
from provisioner.api.labels import COST_PER_HOUR
from provisioner.api.nodepool import NodePool
from provisioner.api.quantity import parse_quantity

LIMIT = f"spec.limits[{COST_PER_HOUR}]"
ANNOTATION = f"metadata.annotations[{COST_PER_HOUR}]"
UNPRICED = "state it with a NodeOverlay or --prices"
UNIT = 1000


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What machines cost, in thousandths of USD an hour; NodeClaims without a known price are `unpriced` instead."""

    thousandths: int = 0
    unpriced: tuple[str, ...] = ()

    @property
    def written(self) -> str:
        """USD an hour."""
        return usd(self.thousandths)


def usd(thousandths: int) -> str:
    """An amount in USD, as a quantity."""
    return f"{Decimal(thousandths) / UNIT:f}"


def field_of(pool: NodePool) -> str:
    """Where the NodePool states the limit."""
    return LIMIT if pool.spec.replicas is None else ANNOTATION


def limits_of(pool: NodePool) -> Mapping[str, str | int | float]:
    """The limits of the NodePool, that on the cost included wherever it is stated."""
    stated = pool.metadata.annotations.get(COST_PER_HOUR)
    return (
        pool.spec.limits
        if pool.spec.replicas is None or stated is None
        else {**pool.spec.limits, COST_PER_HOUR: stated}
    )


def limit(pool: NodePool) -> int | None:
    """In thousandths of USD an hour; None without one. One that cannot be read is a condition of the NodePool."""
    try:
        return int(parse_quantity(limits_of(pool)[COST_PER_HOUR]) * UNIT)
    except (KeyError, ValueError):
        return None


def errors(pool: NodePool) -> Iterator[FieldError]:
    """Of the limit on the cost."""
    annotated = pool.metadata.annotations.get(COST_PER_HOUR)
    if annotated is not None and pool.spec.replicas is None:
        remedy = f"write {LIMIT} instead: the annotation is for NodePools with spec.replicas"
        yield FieldError(ANNOTATION, "FieldValueInvalid", "this NodePool has no spec.replicas", annotated, remedy)
    stated, field = limits_of(pool).get(COST_PER_HOUR), field_of(pool)
    try:
        negative = stated is not None and parse_quantity(stated) < 0
    except ValueError as error:
        if field == ANNOTATION:  # those of `spec.limits` are reported with the others
            yield FieldError(field, "FieldValueInvalid", str(error), str(stated), 'write USD an hour, such as "12.5"')
        return
    if negative:
        remedy = 'write USD an hour of 0 or more, such as "12.5"'
        yield FieldError(field, "FieldValueInvalid", "it is negative", str(stated), remedy)


def note(pool: NodePool, cost: Cost | None) -> str:
    """What keeps the NodePool from buying, whatever the price of another machine is; "" if nothing does.

    `cost`: of its machines, None if prices are not known yet.
    """
    most = limit(pool)
    if most is None or cost is None:
        return ""
    if cost.unpriced:
        names = ", ".join(cost.unpriced[:3])
        return f"{field_of(pool)}: nothing is bought while the price of NodeClaim {names} is not known; {UNPRICED}"
    if cost.thousandths > most:
        return f"{field_of(pool)} is {usd(most)}, and its machines cost {cost.written} USD an hour: nothing is bought"
    return ""


def affordable(pool: NodePool, cost: Cost, each: int | None, *, coming: int = 0) -> tuple[int | None, str]:
    """How many more machines that cost up to `each` the limit allows, None for any number; and why not more.

    `each`: None if a price is not known. `coming`: further ones that `cost` does not contain yet.
    """
    most = limit(pool)
    if most is None:
        return None, ""
    if why := note(pool, cost):
        return 0, why
    field = field_of(pool)
    if each is None:
        return 0, f"{field}: nothing is bought without a known price of each allowed size; {UNPRICED}"
    if each == 0:
        return None, ""
    left = max(0, most - cost.thousandths - coming * each) // each
    why = (
        f"{field} is {usd(most)}: its machines cost {cost.written} USD an hour, another one up to {usd(each)}; raise it"
    )
    return left, why
