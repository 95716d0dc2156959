"""The window in which pods are collected, on a clock of its own."""

import pytest

from controllers.provisioning.batch import Batch

ROWS = [
    ("no pod", [], None),
    ("one pod", [0.0], 1.0),
    ("two pods", [0.0, 0.5], 1.5),
    ("a pod after the window would have closed", [0.0, 0.9, 1.8], 2.8),
    ("a steady stream ends after 10 s", [0.5 * number for number in range(30)], 10.0),
]


@pytest.mark.parametrize(("times", "closes"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_window(times: list[float], closes: float | None) -> None:
    """It closes 1 s after its last new pod, at most 10 s after its first."""
    batch = Batch()
    for number, now in enumerate(times):
        batch.add(f"uid-{number}", now)
    now = times[-1] if times else 0.0
    assert batch.remaining(now) == (None if closes is None else pytest.approx(max(0.0, closes - now)))


def test_known_pod_does_not_extend_it() -> None:
    """A status update of a pod that is in the window already changes nothing."""
    batch = Batch()
    batch.add("uid", 0.0)
    batch.add("uid", 0.9)
    assert batch.remaining(1.0) == 0.0


def test_next_window() -> None:
    """After a decision the next pod opens another window."""
    batch = Batch()
    batch.add("uid", 0.0)
    batch.close(batch.collected)
    assert batch.remaining(1.0) is None
    batch.add("uid", 5.0)
    assert batch.remaining(5.0) == 1.0


def test_pod_that_arrives_during_a_decision() -> None:
    """It is part of the next window, which does not wait until pods are tried again."""
    batch = Batch()
    batch.add("decided", 0.0)
    decided = batch.collected
    batch.add("late", 1.5)
    batch.close(decided)
    assert batch.collected == {"late"}
    assert batch.remaining(1.5) == 1.0


def test_window_after_a_long_stream() -> None:
    """What is left when a window of 10 s closes opens a window of its own."""
    batch = Batch()
    for number in range(21):
        batch.add(f"p{number}", number / 2)
    decided = batch.collected
    batch.add("late", 10.5)
    batch.close(decided)
    assert batch.remaining(10.6) == pytest.approx(0.9)
