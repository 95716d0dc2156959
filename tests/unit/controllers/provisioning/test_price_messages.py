"""What the Events about purchases state."""

import pytest

from controllers.provisioning.price_messages import purchase_message
from controllers.provisioning.solver.model import NewMachine

A100, T4 = "Standard_NC24ads_A100_v4", "Standard_NC4as_T4_v3"


def machine(size: str, price: float | None, *pods: str) -> NewMachine:
    return NewMachine(
        node_pool="default", pods=pods, instance_types=(size, T4), requirements={}, requests={}, price=price
    )


TABLE = [
    ("one", [machine(A100, 3.673, "a", "b")], f"created NodeClaim n0 for 2 pods: 1 of {A100}; 3.673 USD an hour"),
    ("static", [machine(T4, 0.526)], f"created NodeClaim n0: 1 of {T4}; 0.526 USD an hour"),
    (
        "several sizes",
        [machine(T4, 0.526, "a"), machine(A100, 3.673, "b"), machine(T4, 0.526, "c")],
        f"created NodeClaims n0, n1, n2 for 3 pods: 2 of {T4}, 1 of {A100}; 4.725 USD an hour",
    ),
    (
        "one of two without a price",
        [machine(A100, 3.673, "a"), machine(T4, None, "b")],
        f"created NodeClaims n0, n1 for 2 pods: 1 of {A100}, 1 of {T4}; 3.673 USD an hour, and 1 without a known price",
    ),
    ("no price", [machine(T4, None, "a")], f"created NodeClaim n0 for 1 pod: 1 of {T4}; 1 without a known price"),
    ("free", [machine(T4, 0.0, "a")], f"created NodeClaim n0 for 1 pod: 1 of {T4}; 0.000 USD an hour"),
    (
        "many",
        [machine(T4, 1.0)] * 7,
        f"created NodeClaims n0, n1, n2, n3, n4 and 2 others: 7 of {T4}; 7.000 USD an hour",
    ),
]


@pytest.mark.parametrize(("case", "machines", "expected"), TABLE, ids=[row[0] for row in TABLE])
def test_purchases(case: str, machines: list[NewMachine], expected: str) -> None:
    assert purchase_message(machines, [f"n{i}" for i in range(len(machines))]) == expected, case


def test_a_message_is_bounded() -> None:
    """The API server takes 1 KiB."""
    sizes = [machine(f"Standard_{'x' * 50}{i}", 1.0) for i in range(40)]
    assert len(purchase_message(sizes, ["n" * 63] * 40)) < 1024
