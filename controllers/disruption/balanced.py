"""The policy Balanced: a command must save a part of the NodePool's price that is worth the disruption.

The saving of a command, as a part of the price of all machines of the NodePool, is divided by its disruption, as a part
of the disruption of all of them. A result of at least one half is accepted.

Source: docs/references/karpenter.md#consolidation.
"""

from collections.abc import Mapping, Sequence

import msgspec

from provisioner.api.owner import nodepool_of

from .candidates import BALANCED, Candidate, cost_of, price_of
from .view import View

LEAST_SCORE = 0.5


class Totals(msgspec.Struct, frozen=True):
    """Of all machines of a NodePool: USD an hour, and the cost of their disruption."""

    price: float = 0.0
    cost: float = 0.0


def totals(view: View) -> Mapping[str, Totals]:
    """By the UID of the NodePool. A machine without a known price counts with its disruption only."""
    found: dict[str, Totals] = {}
    for machine in view.machines:
        owner = nodepool_of(machine.claim)
        if owner is None:
            continue
        before = found.get(owner.uid, Totals())
        try:
            price = price_of(machine, view.types)
        except ValueError:
            price = 0.0
        found[owner.uid] = Totals(before.price + price, before.cost + cost_of(machine))
    return found


def accepts(removed: Sequence[Candidate], saving: float, known: Mapping[str, Totals]) -> bool:
    """Whether every NodePool with the policy Balanced accepts; the saving is divided by the prices of the machines."""
    old = sum(one.price for one in removed)
    for uid in {one.pool.metadata.uid for one in removed if one.policy == BALANCED}:
        own = [one for one in removed if one.pool.metadata.uid == uid]
        whole = known.get(uid, Totals())
        if old <= 0 or whole.price <= 0:
            return False
        saved = saving * sum(one.price for one in own) / old
        if saved / whole.price < LEAST_SCORE * sum(one.cost for one in own) / whole.cost:
            return False
    return True
