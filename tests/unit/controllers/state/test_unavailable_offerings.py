"""A failed offering is unavailable for a delay; after it, the claim that has waited longest tries it."""

from datetime import UTC, datetime, timedelta

import pytest

from cloudprovider.errors import Scope
from cloudprovider.interface import SPOT, Failure, Offering
from controllers.model.offering_scope import offering_scope
from controllers.state.unavailable_offering import PROBE_MOST_SECONDS
from controllers.state.unavailable_offerings import (
    ENTRIES_MAX,
    EXPIRED_SECONDS,
    TURN_SECONDS,
    UnavailableOfferings,
)

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
A = Offering(size="Standard_A", zone="1")
OLD, YOUNG = START - timedelta(hours=2), START - timedelta(hours=1)


class TrackerAtTimes:
    """The tracker at given times: `at` is in seconds after START, by both clocks."""

    def __init__(self) -> None:
        self.woken: list[str] = []
        self.unavailable_offerings = UnavailableOfferings(self.woken.append)

    def failed(
        self,
        at: float,
        *,
        key: str = "k",
        requested: float | None = None,
        after: float | None = None,
        scope: Scope = "size",
        offering: Offering = A,
    ) -> None:
        sent = START + timedelta(seconds=at if requested is None else requested)
        failure = Failure(kind="no_capacity", reason="QuotaExceeded", message=f"at {at}", scope=scope, after=after)
        wall = START + timedelta(seconds=at)
        self.unavailable_offerings.mark_unavailable(key, offering, failure, requested=sent, wall=wall, now=at)

    def succeeded(self, requested: float, key: str = "k") -> None:
        self.unavailable_offerings.mark_available(key, A, requested=START + timedelta(seconds=requested))

    def available_in(
        self, at: float, key: str = "k", *, created: datetime = OLD, waits: bool = True, offering: Offering = A
    ) -> float:
        (offer,) = self.unavailable_offerings.offers(key, (offering,), created=created, waits=waits, now=at)
        return offer.available_in


def test_each_failed_try_doubles_the_delay_up_to_five_minutes() -> None:
    """30 s, 60 s, ... 300 s; each try is one PUT for all claims."""
    tracker, at, delays = TrackerAtTimes(), 0.0, []
    for _ in range(7):
        tracker.failed(at)
        delays.append(tracker.available_in(at))
        at += delays[-1]
        assert tracker.available_in(at) == 0.0
        tracker.unavailable_offerings.create_started("k", A, at)
    assert delays == [30.0, 60.0, 120.0, 240.0, 300.0, 300.0, 300.0]


@pytest.mark.parametrize(("after", "delay"), [(90.0, 90.0), (3600.0, 300.0)])
def test_the_cloud_sets_the_first_delay_within_five_minutes(after: float, delay: float) -> None:
    """Quota is raised within minutes, so no offering is unavailable for longer."""
    tracker = TrackerAtTimes()
    tracker.failed(0.0, after=after)
    assert tracker.available_in(0.0) == delay
    tracker.failed(300.0, after=after)
    assert tracker.available_in(300.0) == min(2 * delay, 300.0)


def test_a_claim_for_an_offering_that_did_not_fail_has_the_next_turn() -> None:
    """A failure within a region covers all sizes: the size that did not fail is requested before the one that did."""
    tracker, smaller = TrackerAtTimes(), Offering(size="Standard_B")
    tracker.failed(0.0, key="old", scope="region")
    assert tracker.available_in(1.0, "old") > 0
    assert tracker.available_in(31.0, "young", created=YOUNG, offering=smaller) == 0.0
    assert tracker.available_in(31.0, "old") == TURN_SECONDS
    tracker.unavailable_offerings.create_started("young", smaller, 31.0)
    tracker.failed(32.0, key="young", scope="region", offering=smaller)
    assert tracker.available_in(32.0, "young", created=YOUNG, offering=smaller) > 0
    assert tracker.available_in(92.0, "old") == 0.0, "its failure is the older one"


def test_concurrent_failed_attempts_count_once() -> None:
    """Ninety pools that were requested before the first failure fail one after another: that is one failure."""
    tracker = TrackerAtTimes()
    tracker.failed(45.0, key="a", requested=0.0)
    for n in range(90):
        tracker.failed(46.0 + n, key=f"b{n}", requested=1.0)
    assert tracker.available_in(75.0) == 0.0


def test_the_claim_that_has_waited_longest_tries_first() -> None:
    """The others wait for its result and check again from time to time; if it fails they wait with it."""
    tracker = TrackerAtTimes()
    tracker.failed(0.0)
    assert tracker.available_in(10.0, "young", created=YOUNG) == 20.0
    assert tracker.available_in(10.0, "old", created=OLD) == 20.0
    assert tracker.available_in(31.0, "young", created=YOUNG) == TURN_SECONDS
    assert tracker.available_in(31.0, "old", created=OLD) == 0.0
    tracker.unavailable_offerings.create_started("old", A, 31.0)
    assert tracker.available_in(32.0, "young", created=YOUNG) == TURN_SECONDS
    tracker.woken.clear()
    tracker.failed(33.0, key="old", requested=31.0)
    assert tracker.woken == ["young"]
    assert tracker.available_in(33.0, "young", created=YOUNG) == 60.0


def test_a_success_makes_the_offering_available_for_all() -> None:
    """Only a machine that was requested since the failure: an earlier one proves nothing."""
    tracker = TrackerAtTimes()
    tracker.failed(10.0)
    tracker.available_in(11.0, "waiting")
    tracker.succeeded(5.0)
    assert tracker.available_in(12.0, "waiting") == 28.0
    tracker.woken.clear()
    tracker.succeeded(41.0)
    assert tracker.woken == ["waiting"]
    assert tracker.available_in(42.0, "waiting") == 0.0


def test_the_turn_of_a_deleted_claim_passes_to_the_next() -> None:
    """The next claim is reconciled and may try."""
    tracker = TrackerAtTimes()
    tracker.failed(0.0)
    tracker.available_in(31.0, "old")
    tracker.unavailable_offerings.create_started("old", A, 31.0)
    assert tracker.available_in(32.0, "young", created=YOUNG) == TURN_SECONDS
    tracker.woken.clear()
    tracker.unavailable_offerings.release("old")
    assert tracker.woken == ["young"]
    assert tracker.available_in(33.0, "young", created=YOUNG) == 0.0


def test_a_claim_that_cannot_launch_does_not_block_others() -> None:
    """For example, an older claim whose name is in use is not in the queue."""
    tracker = TrackerAtTimes()
    tracker.failed(0.0)
    tracker.available_in(31.0, "old", waits=False)
    assert tracker.available_in(31.0, "young", created=YOUNG) == 0.0


SPOT_ELSEWHERE = Offering(size="Standard_B", zone="2", capacity_type=SPOT)


@pytest.mark.parametrize(
    ("scope", "delays", "free"),
    [
        ("size", Offering(size="Standard_A", zone="2"), Offering(size="Standard_A", zone="1", capacity_type=SPOT)),
        ("zone", Offering(size="Standard_A", zone="1", capacity_type=SPOT), Offering(size="Standard_A", zone="2")),
        ("priority", Offering(size="Standard_B"), SPOT_ELSEWHERE),
        ("region", Offering(size="Standard_B"), SPOT_ELSEWHERE),
        ("cluster", SPOT_ELSEWHERE, None),
        ("configuration", A, Offering(size="Standard_A", zone="2")),
    ],
)
def test_the_scope_of_a_failure(scope: Scope, delays: Offering, free: Offering | None) -> None:
    """A size in all zones, a zone for all sizes, all of a capacity type, everything, or only the requested offering."""
    tracker = TrackerAtTimes()
    tracker.failed(0.0, scope=scope)
    assert tracker.available_in(1.0, offering=delays) == 29.0
    if free is not None:
        assert tracker.available_in(1.0, offering=free) == 0.0
        assert not offering_scope(A, scope).covers(free)


def test_failures_are_restored_from_older_claims() -> None:
    """After a restart the offerings of a failed claim are unavailable again, once, and known failures are kept."""
    tracker = TrackerAtTimes()
    failure = Failure(kind="no_capacity", reason="QuotaExceeded", message="before", scope="zone")
    both = (A, Offering(size="Standard_B"))
    tracker.unavailable_offerings.restore(both, failure, since=START, idle_seconds=0.0, wall=START, now=0.0)
    offers = tracker.unavailable_offerings.offers("k", both, created=OLD, waits=True, now=10.0)
    assert [(offer.available_in, offer.message) for offer in offers] == [(20.0, "before")] * 2
    tracker.failed(31.0)
    tracker.unavailable_offerings.restore(both, failure, since=OLD, idle_seconds=0.0, wall=START, now=32.0)
    assert tracker.available_in(32.0) == 29.0


@pytest.mark.parametrize(
    ("after", "age", "left"),
    [
        (None, 0.0, 30.0),
        (None, 29.0, 1.0),
        (None, 30.0, 60.0),
        (None, 100.0, 110.0),
        (None, 449.0, 1.0),
        (None, 450.0, 300.0),
        (None, 450.0 + 10 * 300.0 + 50.0, 250.0),
        (200.0, 0.0, 200.0),
        (200.0, 201.0, 299.0),
        (3600.0, 60.0, 240.0),
        (300.0, 301.0, 299.0),
        # Clocks may differ: a report from the future counts as a report of now.
        (None, -50.0, 30.0),
    ],
)
def test_a_delay_continues_after_a_restart(after: float | None, age: float, left: float) -> None:
    """The claim states since when it waits: as many delays as fit into that time have elapsed."""
    tracker = TrackerAtTimes()
    failure = Failure(kind="no_capacity", reason="QuotaExceeded", message="before", scope="size", after=after)
    tracker.unavailable_offerings.restore(
        (A,), failure, since=START - timedelta(seconds=age), idle_seconds=0.0, wall=START, now=0.0
    )
    assert tracker.available_in(0.0) == pytest.approx(left)
    if left > 1.0:
        tracker.failed(left, after=after)
        assert tracker.available_in(left) >= min(left, 60.0), "the row of failures goes on, too"


@pytest.mark.parametrize(
    ("after", "age", "idle", "left"),
    [
        (None, 40.0, 0.0, 50.0),
        (None, 40.0, 12.0, -10.0),
        (None, 3600.0, 3570.0, -3480.0),
        (None, 20.0, 10.0, 10.0),
        (300.0, 350.0, 60.0, -50.0),
        (300.0, 250.0, 60.0, 50.0),
        # Clocks may differ: no delay is longer than the time since the claim's report.
        (None, 20.0, 500.0, 10.0),
    ],
)
def test_time_without_a_leader_counts_as_delay(after: float | None, age: float, idle: float, left: float) -> None:
    """No attempt was made then, so none can have failed: after an hour without a leader the offering is available."""
    tracker = TrackerAtTimes()
    failure = Failure(kind="no_capacity", reason="QuotaExceeded", message="before", scope="size", after=after)
    since = START - timedelta(seconds=age)
    tracker.unavailable_offerings.restore((A,), failure, since=since, idle_seconds=idle, wall=START, now=0.0)
    assert tracker.available_in(0.0) == pytest.approx(max(0.0, left))


def test_the_oldest_of_several_restored_failures_counts() -> None:
    """The last claim to try reports a recent failure, the others the first one; an observed one takes precedence."""
    tracker = TrackerAtTimes()
    failure = Failure(kind="no_capacity", reason="QuotaExceeded", message="before", scope="size")
    for age in (10.0, 100.0, 15.0):
        tracker.unavailable_offerings.restore(
            (A,), failure, since=START - timedelta(seconds=age), idle_seconds=0.0, wall=START, now=0.0
        )
    assert tracker.available_in(0.0) == pytest.approx(110.0)
    tracker.unavailable_offerings.create_started("k", A, 111.0)
    tracker.unavailable_offerings.restore(
        (A,), failure, since=START - timedelta(seconds=930.0), idle_seconds=0.0, wall=START, now=112.0
    )
    assert tracker.available_in(112.0) == 0.0


ELSEWHERE = Offering(size="Standard_A", zone="2")


def test_an_attempt_of_two_shortages_ends_the_turn_of_both() -> None:
    """The zone is still full; whether the size is short elsewhere is tried by the next claim, which is reconciled."""
    tracker = TrackerAtTimes()
    tracker.failed(0.0, scope="zone")
    tracker.failed(0.0, key="other", requested=1.0)
    tracker.available_in(31.0, "old")
    tracker.unavailable_offerings.create_started("old", A, 31.0)
    assert tracker.available_in(32.0, "young", created=YOUNG, offering=ELSEWHERE) == TURN_SECONDS
    tracker.woken.clear()
    tracker.failed(33.0, key="old", requested=31.0, scope="zone")
    assert "young" in tracker.woken
    assert tracker.available_in(33.0, "young", created=YOUNG, offering=ELSEWHERE) == 0.0
    assert tracker.available_in(33.0, "old") == 60.0


def test_a_late_failure_returns_the_turn() -> None:
    """An attempt that another failure has overtaken neither extends the delay nor blocks other claims."""
    tracker = TrackerAtTimes()
    tracker.failed(0.0)
    tracker.available_in(31.0, "old")
    tracker.unavailable_offerings.create_started("old", A, 31.0)
    tracker.failed(40.0, key="other", requested=35.0, scope="zone")
    tracker.woken.clear()
    assert tracker.available_in(60.0, "young", created=YOUNG, offering=ELSEWHERE) == TURN_SECONDS
    tracker.failed(61.0, key="old", requested=31.0, scope="zone")
    assert tracker.woken == ["young"]
    assert tracker.available_in(61.0, "young", created=YOUNG, offering=ELSEWHERE) == 0.0
    assert tracker.available_in(70.0, "old") == TURN_SECONDS, "zone 2 did not fail, so its claim has the turn"
    tracker.unavailable_offerings.release("young")
    assert tracker.available_in(71.0, "old") == 0.0


def test_a_claim_that_waits_for_another_offering_does_not_hold_the_turn() -> None:
    """The oldest claim needs a zone that is unavailable: another claim tries the size elsewhere meanwhile."""
    tracker = TrackerAtTimes()
    tracker.failed(0.0)
    tracker.failed(0.0, scope="zone", after=300.0)
    assert tracker.available_in(31.0, "old") == 269.0
    assert tracker.available_in(31.0, "young", created=YOUNG, offering=ELSEWHERE) == 0.0
    tracker.failed(32.0, key="young", offering=ELSEWHERE)
    assert tracker.available_in(300.0, "old") == 0.0
    assert tracker.available_in(300.0, "young", created=YOUNG, offering=ELSEWHERE) == TURN_SECONDS


def test_claims_with_different_offerings_share_turns() -> None:
    """The older claim goes first at the size that both allow, and the younger one at what only it allows."""
    tracker = TrackerAtTimes()
    b, c = Offering(size="Standard_B"), Offering(size="Standard_C")
    for offering in (A, b, c):
        tracker.failed(0.0, offering=offering)
    tracker.unavailable_offerings.offers("old", (b, A), created=OLD, waits=True, now=31.0)
    young = tracker.unavailable_offerings.offers("young", (A, c), created=YOUNG, waits=True, now=31.0)
    assert [offer.available_in for offer in young] == [TURN_SECONDS, 0.0]
    tracker.unavailable_offerings.create_started("old", b, 31.0)
    assert tracker.available_in(32.0, "young", created=YOUNG) == 0.0


def test_an_attempt_without_end_does_not_block_others() -> None:
    """A pool that stays in Creating shows no shortage: after ten minutes the next claim tries."""
    tracker = TrackerAtTimes()
    tracker.failed(0.0)
    tracker.available_in(31.0, "old")
    tracker.unavailable_offerings.create_started("old", A, 31.0)
    assert tracker.available_in(30.0 + PROBE_MOST_SECONDS, "young", created=YOUNG) == TURN_SECONDS
    assert tracker.available_in(31.0 + PROBE_MOST_SECONDS, "young", created=YOUNG) == 0.0
    tracker.unavailable_offerings.create_started("young", A, 700.0)
    assert tracker.available_in(701.0, "third") == TURN_SECONDS
    tracker.succeeded(31.0, "old")
    assert tracker.available_in(702.0, "third") == 0.0


def test_a_put_in_the_second_of_a_failure_clears_nothing() -> None:
    """Times of PUTs have whole seconds, so the PUT may precede the failure: only an attempt of its own counts."""
    tracker = TrackerAtTimes()
    tracker.failed(10.5)
    tracker.succeeded(10.0)
    assert tracker.available_in(11.0) == 29.5
    tracker.available_in(41.0, "old")
    tracker.unavailable_offerings.create_started("old", A, 41.0)
    tracker.succeeded(10.0, "old")
    assert tracker.available_in(42.0, "other") == 0.0


def test_unused_offerings_are_dropped() -> None:
    """An hour after the delay, unless a claim still waits for it; and their number is bounded."""
    tracker = TrackerAtTimes()
    tracker.failed(0.0)
    tracker.failed(0.0, offering=Offering(size="Standard_B"))
    late = 31.0 + EXPIRED_SECONDS
    tracker.unavailable_offerings.offers("k", (A,), created=OLD, waits=True, now=30.0)
    tracker.unavailable_offerings.offers("other", (), created=OLD, waits=False, now=late)
    assert [about.size for about, _ in tracker.unavailable_offerings.unavailable(late)] == ["Standard_A"]
    tracker.unavailable_offerings.release("k")
    tracker.unavailable_offerings.offers("other", (), created=OLD, waits=False, now=late)
    assert tracker.unavailable_offerings.unavailable(late) == ()
    for n in range(ENTRIES_MAX + 5):
        tracker.failed(late + n, key=f"k{n}", offering=Offering(size=f"Standard_{n}"))
    known = {about.size for about, _ in tracker.unavailable_offerings.unavailable(late)}
    assert len(known) == ENTRIES_MAX
    assert "Standard_4" not in known
    assert "Standard_5" in known
