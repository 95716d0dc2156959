"""The policy Balanced: which commands its NodePools accept, as tables."""

import msgspec
import pytest

from controllers.disruption.balanced import Totals, accepts, totals
from controllers.disruption.candidates import Candidate
from controllers.disruption.consolidation import consolidate
from tests.unit.controllers.provisioning.observed import TYPES

from .fleet import D4, D16, T4, Fleet, pool

PRICE = {kind.name: kind.offerings[0].price for kind in TYPES.types}
# Two NodePools of ten machines for one USD an hour each, with seven pods each.
KNOWN = {"uid-gpu": Totals(10.0, 80.0), "uid-b": Totals(10.0, 80.0), "uid-free": Totals(0.0, 80.0)}


def machine(price: float = 1.0, cost: float = 8.0, *, of: str = "gpu", policy: str = "Balanced") -> Candidate:
    (found,) = Fleet(pool(of)).add("a", of=of).view().machines
    return Candidate(
        machine=found,
        pool=pool(of),
        policy=policy,
        node="a",
        size=D4,
        capacity_type="on-demand",
        price=price,
        cost=cost,
    )


@pytest.mark.parametrize(
    ("removed", "saving", "accepted"),
    [
        ([machine()], 1.0, True),
        # The part of the price is half of the part of the disruption, or a little less.
        ([machine()], 0.5, True),
        ([machine()], 0.499, False),
        ([machine()], 0.0, False),
        ([machine()], -1.0, False),
        # Much disruption for the saving, and little.
        ([machine(cost=32.0)], 1.0, False),
        ([machine(cost=16.0)], 1.0, True),
        ([machine(cost=1.0)], 0.07, True),
        # A part of several machines counts as one move.
        ([machine(), machine()], 2.0, True),
        ([machine(), machine(cost=40.0)], 2.0, False),
        # Other policies are not compared.
        ([machine(policy="WhenEmptyOrUnderutilized")], 0.0, True),
        ([machine(policy="WhenEmpty")], 0.0, True),
        # Each NodePool accepts its part of the saving, by the prices of its machines.
        ([machine(), machine(of="b")], 1.0, True),
        ([machine(), machine(of="b", policy="WhenEmptyOrUnderutilized")], 1.0, True),
        ([machine(), machine(of="b", cost=32.0)], 2.0, False),
        ([machine(price=0.1), machine(price=1.9, of="b")], 2.0, False),
        # What has no price saves nothing, and a NodePool that is not known refuses.
        ([machine(price=0.0)], 1.0, False),
        ([machine(of="free")], 1.0, False),
        ([machine(of="unknown")], 1.0, False),
    ],
)
def test_accepts(removed: list[Candidate], saving: float, *, accepted: bool) -> None:
    assert accepts(removed, saving, KNOWN) is accepted


@pytest.mark.parametrize("factor", [0.1, 10.0, 1000.0])
def test_only_parts_are_compared(factor: float) -> None:
    """Neither the size of the NodePool nor the level of its prices."""
    for saving in (0.5, 0.499):
        found = {"uid-gpu": Totals(10.0 * factor, 80.0 * factor)}
        assert accepts([machine(cost=8.0 * factor)], saving * factor, found) is (saving == 0.5)


def test_totals_are_of_all_machines() -> None:
    """Also of those that are no candidates, and of one without a known price, which counts with its disruption."""
    fleet = Fleet(pool(policy="Balanced"), pool("other"))
    fleet.add("a", D16, [(1, 0), (1, 0)]).add("b", D4, [(1, 0)], blocked="-").add("c", "Standard_X", [(1, 0)])
    found = totals(fleet.add("d", T4, [], of="other").view())
    assert {uid: round(one.cost, 3) for uid, one in found.items()} == {"uid-gpu": 7.0, "uid-other": 1.0}
    assert found["uid-gpu"].price == pytest.approx((PRICE[D16] or 0.0) + (PRICE[D4] or 0.0))


def test_a_price_does_not_depend_on_what_can_be_bought_now() -> None:
    fleet = Fleet().add("a", D16, [(1, 0)])
    before = totals(fleet.view())
    types = tuple(
        msgspec.structs.replace(
            kind, offerings=tuple(msgspec.structs.replace(one, available=False) for one in kind.offerings)
        )
        for kind in TYPES.types
    )
    assert totals(fleet.view(types=msgspec.structs.replace(TYPES, types=types))) == before


@pytest.mark.parametrize(
    ("fleet", "removed"),
    [
        (Fleet(pool(policy="Balanced")).add("a", D4, [(0.1, 0)]).add("b", D4, [(0.1, 0)]), "a"),
        (
            Fleet(pool(policy="Balanced"))
            .add("a", D16, [(1, 0)])
            .add("b", D16, [(1, 0)])
            .add("c", D16, [(1, 0)], blocked="-"),
            "a b",
        ),
        (Fleet(pool(policy="Balanced"), pool("b")).add("a", D4, [(1, 0)]).add("b", D4, [(2, 0)], of="b"), "a"),
        (Fleet(pool(policy="Balanced")).add("a", D4, [(3, 0)]).add("b", D4, [(3, 0)]), ""),
    ],
    ids=["one of two", "several", "the only one of its NodePool", "full machines"],
)
def test_what_balanced_removes(fleet: Fleet, removed: str) -> None:
    command = consolidate(fleet.view()).command
    assert " ".join(sorted(one.claim.name for one in command.machines) if command is not None else ()) == removed
