"""Prices in the Events of purchases and disruption, and in what commands print: USD an hour. Pure."""

from collections import Counter
from collections.abc import Sequence

from .solver.model import NewMachine

# An Event has at most 1 KiB, and a NodeClaim's name 63 characters.
NAMED_MAX = 5


def usd_per_hour(amount: float) -> str:
    """An amount as it is printed everywhere, to a tenth of a cent."""
    return f"{amount:.3f} USD an hour"


def purchase_message(machines: Sequence[NewMachine], names: Sequence[str]) -> str:
    """What the NodeClaims that were created for one NodePool cost. `names`: of the NodeClaims, in the same order.

    The sizes and prices are those that the decision counts on: the cheapest ones that the NodeClaims allow.
    """
    more = f" and {len(names) - NAMED_MAX} others" if len(names) > NAMED_MAX else ""
    created = f"created NodeClaim{'s' if len(names) > 1 else ''} {', '.join(names[:NAMED_MAX])}{more}"
    pods = sum(len(one.pods) for one in machines)
    purpose = f" for {pods} pod{'s' if pods > 1 else ''}" if pods else ""
    counts = Counter(one.instance_types[0] for one in machines)
    sizes = ", ".join(f"{count} of {size}" for size, count in counts.most_common(NAMED_MAX))
    rest = f" and {len(counts) - NAMED_MAX} other sizes" if len(counts) > NAMED_MAX else ""
    prices = [one.price for one in machines if one.price is not None]
    unpriced = len(machines) - len(prices)
    amounts = [
        *([usd_per_hour(sum(prices))] if prices else []),
        *([f"{unpriced} without a known price"] if unpriced else []),
    ]
    return f"{created}{purpose}: {sizes}{rest}; {', and '.join(amounts)}"
