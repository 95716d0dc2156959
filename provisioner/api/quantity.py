"""Kubernetes quantities: `1024Gi`, `500m`, `1e3`, `2`.

Parses exactly what Kubernetes parses, without binary rounding. Values above 2^63-1 are capped, and values finer than
one nano are rounded away from zero, as in Kubernetes. Numbers, which YAML allows, are accepted.

Source: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/,
docs/references/kaito.md#its-agent-pools.
"""

import functools
import re
from decimal import ROUND_CEILING, ROUND_UP, Context, Decimal, localcontext

LARGEST = Decimal(2**63 - 1)
SMALLEST_STEP = Decimal("1e-9")
GIB = 2**30

_QUANTITY = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?")
_MULTIPLIERS = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    **{suffix: Decimal(1000**power) for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(1024**power) for power, suffix in enumerate("KMGTPE", start=1)},
}
# Enough for 2^63-1 in steps of a nano; the bound keeps all arithmetic exact.
_LENGTH = 100
_EXACT = Context(prec=200, traps=[])
# The machines of a cluster have few different capacities.
_KEPT = 4096


@functools.lru_cache(maxsize=_KEPT)
def parse_quantity(value: str | int | float) -> Decimal:
    """The quantity as a number. Raises ValueError with the value if Kubernetes would reject it."""
    text = value if isinstance(value, str) else repr(value)
    match = _QUANTITY.fullmatch(text)
    if match is None or len(text) > _LENGTH:
        raise ValueError(
            f"{text[:_LENGTH]!r} is not a quantity: write a number, then nothing, one of n u m k M G T P E, "
            "one of Ki Mi Gi Ti Pi Ei, or an exponent"
        )
    number, suffix = match[1], match[2] or ""
    with localcontext(_EXACT):
        if suffix in _MULTIPLIERS:
            amount = Decimal(number) * _MULTIPLIERS[suffix]
        else:
            amount = _scaled(Decimal(number), int(suffix[1:]))
        amount = max(-LARGEST, min(LARGEST, amount))
        return amount.quantize(SMALLEST_STEP, rounding=ROUND_UP).normalize()


def _scaled(number: Decimal, exponent: int) -> Decimal:
    # Beyond these bounds the result is the cap or one nano for any digits (at most `_LENGTH`).
    return number.scaleb(max(-2 * _LENGTH, min(2 * _LENGTH, exponent)))


def as_gib_ceil(value: str | int | float) -> int:
    """The quantity in whole GiB, rounded up, so that a disk is never smaller than requested.

    The sign is preserved. Raises ValueError as `parse_quantity` does.
    """
    with localcontext(_EXACT):
        return int((parse_quantity(value) / GIB).to_integral_value(rounding=ROUND_CEILING))
