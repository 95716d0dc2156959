"""What was found wanting rests; after its rest the claim that has waited longest tries it for all."""

from datetime import UTC, datetime, timedelta

import pytest

from cloudprovider.errors import Scope
from cloudprovider.interface import SPOT, Failure, Offering
from controllers.model.offering_scope import offering_scope
from controllers.state.unavailable_offerings import (
    ENTRIES_MAX,
    EXPIRED_SECONDS,
    PROBE_MOST_SECONDS,
    TURN_SECONDS,
    UnavailableOfferings,
)

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
A = Offering(size="Standard_A", zone="1")
OLD, YOUNG = START - timedelta(hours=2), START - timedelta(hours=1)


class Book:
    """Cooldowns at moments: `at` is in seconds after START, by both clocks."""

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

    def came(self, requested: float, key: str = "k") -> None:
        self.unavailable_offerings.mark_available(key, A, requested=START + timedelta(seconds=requested))

    def holds(
        self, at: float, key: str = "k", *, created: datetime = OLD, waits: bool = True, offering: Offering = A
    ) -> float:
        (offer,) = self.unavailable_offerings.offers(key, (offering,), created=created, waits=waits, now=at)
        return offer.available_in


def test_each_failed_try_doubles_the_delay_up_to_five_minutes() -> None:
    """30 s, 60 s, ... 300 s; each try is one PUT for all claims."""
    book, at, rests = Book(), 0.0, []
    for _ in range(7):
        book.failed(at)
        rests.append(book.holds(at))
        at += rests[-1]
        assert book.holds(at) == 0.0
        book.unavailable_offerings.create_started("k", A, at)
    assert rests == [30.0, 60.0, 120.0, 240.0, 300.0, 300.0, 300.0]


@pytest.mark.parametrize(("after", "delay"), [(90.0, 90.0), (3600.0, 300.0)])
def test_the_cloud_sets_the_first_delay_within_five_minutes(after: float, delay: float) -> None:
    """Quota is raised within minutes, so no offering is unavailable for longer."""
    book = Book()
    book.failed(0.0, after=after)
    assert book.holds(0.0) == delay
    book.failed(300.0, after=after)
    assert book.holds(300.0) == min(2 * delay, 300.0)


def test_a_claim_for_an_offering_that_did_not_fail_has_the_next_turn() -> None:
    """A failure within a region covers all sizes: the size that did not fail is requested before the one that did."""
    book, smaller = Book(), Offering(size="Standard_B")
    book.failed(0.0, key="old", scope="region")
    assert book.holds(1.0, "old") > 0
    assert book.holds(31.0, "young", created=YOUNG, offering=smaller) == 0.0
    assert book.holds(31.0, "old") == TURN_SECONDS
    book.unavailable_offerings.create_started("young", smaller, 31.0)
    book.failed(32.0, key="young", scope="region", offering=smaller)
    assert book.holds(32.0, "young", created=YOUNG, offering=smaller) > 0
    assert book.holds(92.0, "old") == 0.0, "its failure is the older one"


def test_tries_on_their_way_count_once() -> None:
    """Ninety pools requested before anybody knew fail in turn: that is one failure."""
    book = Book()
    book.failed(45.0, key="a", requested=0.0)
    for n in range(90):
        book.failed(46.0 + n, key=f"b{n}", requested=1.0)
    assert book.holds(75.0) == 0.0


def test_the_claim_that_has_waited_longest_tries_for_all() -> None:
    """The others wait for its verdict, and look again now and then; when it fails they rest with it."""
    book = Book()
    book.failed(0.0)
    assert book.holds(10.0, "young", created=YOUNG) == 20.0
    assert book.holds(10.0, "old", created=OLD) == 20.0
    assert book.holds(31.0, "young", created=YOUNG) == TURN_SECONDS
    assert book.holds(31.0, "old", created=OLD) == 0.0
    book.unavailable_offerings.create_started("old", A, 31.0)
    assert book.holds(32.0, "young", created=YOUNG) == TURN_SECONDS
    book.woken.clear()
    book.failed(33.0, key="old", requested=31.0)
    assert book.woken == ["young"]
    assert book.holds(33.0, "young", created=YOUNG) == 60.0


def test_a_machine_ends_the_rest_for_all() -> None:
    """Only one that was requested since: a machine from before proves nothing."""
    book = Book()
    book.failed(10.0)
    book.holds(11.0, "waiting")
    book.came(5.0)
    assert book.holds(12.0, "waiting") == 28.0
    book.woken.clear()
    book.came(41.0)
    assert book.woken == ["waiting"]
    assert book.holds(42.0, "waiting") == 0.0


def test_a_try_that_is_given_up_passes_to_the_next() -> None:
    """The claim that tries is deleted: whoever is next is woken and may try."""
    book = Book()
    book.failed(0.0)
    book.holds(31.0, "old")
    book.unavailable_offerings.create_started("old", A, 31.0)
    assert book.holds(32.0, "young", created=YOUNG) == TURN_SECONDS
    book.woken.clear()
    book.unavailable_offerings.release("old")
    assert book.woken == ["young"]
    assert book.holds(33.0, "young", created=YOUNG) == 0.0


def test_who_cannot_ask_does_not_hold_up_those_who_can() -> None:
    """An older claim whose name is taken, say, is not in the line."""
    book = Book()
    book.failed(0.0)
    book.holds(31.0, "old", waits=False)
    assert book.holds(31.0, "young", created=YOUNG) == 0.0


SPOT_ELSEWHERE = Offering(size="Standard_B", zone="2", capacity_type=SPOT)


@pytest.mark.parametrize(
    ("scope", "rests", "free"),
    [
        ("size", Offering(size="Standard_A", zone="2"), Offering(size="Standard_A", zone="1", capacity_type=SPOT)),
        ("zone", Offering(size="Standard_A", zone="1", capacity_type=SPOT), Offering(size="Standard_A", zone="2")),
        ("priority", Offering(size="Standard_B"), SPOT_ELSEWHERE),
        ("region", Offering(size="Standard_B"), SPOT_ELSEWHERE),
        ("cluster", SPOT_ELSEWHERE, None),
        ("configuration", A, Offering(size="Standard_A", zone="2")),
    ],
)
def test_what_a_failure_speaks_of(scope: Scope, rests: Offering, free: Offering | None) -> None:
    """A size in all its zones, a zone on all terms, all on these terms, everything, or only what was requested."""
    book = Book()
    book.failed(0.0, scope=scope)
    assert book.holds(1.0, offering=rests) == 29.0
    if free is not None:
        assert book.holds(1.0, offering=free) == 0.0
        assert not offering_scope(A, scope).covers(free)


def test_a_claim_from_before_our_time_is_believed() -> None:
    """After a restart its offerings rest anew, once, and nothing that is known is forgotten for it."""
    book = Book()
    failure = Failure(kind="no_capacity", reason="QuotaExceeded", message="before", scope="zone")
    both = (A, Offering(size="Standard_B"))
    book.unavailable_offerings.restore(both, failure, since=START, idle_seconds=0.0, wall=START, now=0.0)
    offers = book.unavailable_offerings.offers("k", both, created=OLD, waits=True, now=10.0)
    assert [(offer.available_in, offer.message) for offer in offers] == [(20.0, "before")] * 2
    book.failed(31.0)
    book.unavailable_offerings.restore(both, failure, since=OLD, idle_seconds=0.0, wall=START, now=32.0)
    assert book.holds(32.0) == 29.0


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
        # Clocks may differ: what was reported later than now was reported now.
        (None, -50.0, 30.0),
    ],
)
def test_a_rest_goes_on_after_a_restart_where_it_was(after: float | None, age: float, left: float) -> None:
    """A claim states since when it could not be served: as many rests as fit into that time are over."""
    book = Book()
    failure = Failure(kind="no_capacity", reason="QuotaExceeded", message="before", scope="size", after=after)
    book.unavailable_offerings.restore(
        (A,), failure, since=START - timedelta(seconds=age), idle_seconds=0.0, wall=START, now=0.0
    )
    assert book.holds(0.0) == pytest.approx(left)
    if left > 1.0:
        book.failed(left, after=after)
        assert book.holds(left) >= min(left, 60.0), "the row of failures goes on, too"


@pytest.mark.parametrize(
    ("after", "age", "idle", "left"),
    [
        (None, 40.0, 0.0, 50.0),
        (None, 40.0, 12.0, -10.0),
        (None, 3600.0, 3570.0, -3480.0),
        (None, 20.0, 10.0, 10.0),
        (300.0, 350.0, 60.0, -50.0),
        (300.0, 250.0, 60.0, 50.0),
        # Clocks may differ: nobody rests for longer than since the claim reports it.
        (None, 20.0, 500.0, 10.0),
    ],
)
def test_time_in_which_nobody_led_is_rest_alone(after: float | None, age: float, idle: float, left: float) -> None:
    """Nobody tried then, so no try can have failed: who comes back after an hour need not rest any more."""
    book = Book()
    failure = Failure(kind="no_capacity", reason="QuotaExceeded", message="before", scope="size", after=after)
    since = START - timedelta(seconds=age)
    book.unavailable_offerings.restore((A,), failure, since=since, idle_seconds=idle, wall=START, now=0.0)
    assert book.holds(0.0) == pytest.approx(max(0.0, left))


def test_of_several_claims_the_one_that_waits_longest_is_believed() -> None:
    """The last claim to try reports a recent failure, the others the first one; an observed attempt counts more."""
    book = Book()
    failure = Failure(kind="no_capacity", reason="QuotaExceeded", message="before", scope="size")
    for age in (10.0, 100.0, 15.0):
        book.unavailable_offerings.restore(
            (A,), failure, since=START - timedelta(seconds=age), idle_seconds=0.0, wall=START, now=0.0
        )
    assert book.holds(0.0) == pytest.approx(110.0)
    book.unavailable_offerings.create_started("k", A, 111.0)
    book.unavailable_offerings.restore(
        (A,), failure, since=START - timedelta(seconds=930.0), idle_seconds=0.0, wall=START, now=112.0
    )
    assert book.holds(112.0) == 0.0


ELSEWHERE = Offering(size="Standard_A", zone="2")


def test_a_try_of_two_shortages_ends_both_though_it_failed_of_one() -> None:
    """The zone is still full; whether the size is short elsewhere is the next claim's to try, and it is woken."""
    book = Book()
    book.failed(0.0, scope="zone")
    book.failed(0.0, key="other", requested=1.0)
    book.holds(31.0, "old")
    book.unavailable_offerings.create_started("old", A, 31.0)
    assert book.holds(32.0, "young", created=YOUNG, offering=ELSEWHERE) == TURN_SECONDS
    book.woken.clear()
    book.failed(33.0, key="old", requested=31.0, scope="zone")
    assert "young" in book.woken
    assert book.holds(33.0, "young", created=YOUNG, offering=ELSEWHERE) == 0.0
    assert book.holds(33.0, "old") == 60.0


def test_a_late_verdict_gives_the_turn_back() -> None:
    """A try that somebody else's failure has overtaken makes nothing rest longer, and holds nobody up."""
    book = Book()
    book.failed(0.0)
    book.holds(31.0, "old")
    book.unavailable_offerings.create_started("old", A, 31.0)
    book.failed(40.0, key="other", requested=35.0, scope="zone")
    book.woken.clear()
    assert book.holds(60.0, "young", created=YOUNG, offering=ELSEWHERE) == TURN_SECONDS
    book.failed(61.0, key="old", requested=31.0, scope="zone")
    assert book.woken == ["young"]
    assert book.holds(61.0, "young", created=YOUNG, offering=ELSEWHERE) == 0.0
    assert book.holds(70.0, "old") == TURN_SECONDS, "zone 2 did not fail, so its claim has the turn"
    book.unavailable_offerings.release("young")
    assert book.holds(71.0, "old") == 0.0


def test_who_waits_for_more_than_the_turn_does_not_hold_it() -> None:
    """The oldest wants a zone that still rests: another claim tries the size elsewhere meanwhile."""
    book = Book()
    book.failed(0.0)
    book.failed(0.0, scope="zone", after=300.0)
    assert book.holds(31.0, "old") == 269.0
    assert book.holds(31.0, "young", created=YOUNG, offering=ELSEWHERE) == 0.0
    book.failed(32.0, key="young", offering=ELSEWHERE)
    assert book.holds(300.0, "old") == 0.0
    assert book.holds(300.0, "young", created=YOUNG, offering=ELSEWHERE) == TURN_SECONDS


def test_claims_with_different_lists_share_the_turns_of_the_size_they_share() -> None:
    """The older one may request the size too: it goes first there, and the younger one at what only it allows."""
    book = Book()
    b, c = Offering(size="Standard_B"), Offering(size="Standard_C")
    for offering in (A, b, c):
        book.failed(0.0, offering=offering)
    book.unavailable_offerings.offers("old", (b, A), created=OLD, waits=True, now=31.0)
    young = book.unavailable_offerings.offers("young", (A, c), created=YOUNG, waits=True, now=31.0)
    assert [offer.available_in for offer in young] == [TURN_SECONDS, 0.0]
    book.unavailable_offerings.create_started("old", b, 31.0)
    assert book.holds(32.0, "young", created=YOUNG) == 0.0


def test_a_try_that_never_ends_holds_nobody_for_ever() -> None:
    """A pool that hangs in Creating shows no shortage: after ten minutes the next claim tries."""
    book = Book()
    book.failed(0.0)
    book.holds(31.0, "old")
    book.unavailable_offerings.create_started("old", A, 31.0)
    assert book.holds(30.0 + PROBE_MOST_SECONDS, "young", created=YOUNG) == TURN_SECONDS
    assert book.holds(31.0 + PROBE_MOST_SECONDS, "young", created=YOUNG) == 0.0
    book.unavailable_offerings.create_started("young", A, 700.0)
    assert book.holds(701.0, "third") == TURN_SECONDS
    book.came(31.0, "old")
    assert book.holds(702.0, "third") == 0.0


def test_a_time_of_put_has_whole_seconds_and_clears_nothing_by_that() -> None:
    """Asked for in the second in which another attempt failed, perhaps before it: only a try of its own states."""
    book = Book()
    book.failed(10.5)
    book.came(10.0)
    assert book.holds(11.0) == 29.5
    book.holds(41.0, "old")
    book.unavailable_offerings.create_started("old", A, 41.0)
    book.came(10.0, "old")
    assert book.holds(42.0, "other") == 0.0


def test_what_nobody_asks_for_any_more_is_forgotten() -> None:
    """An hour after its rest, unless a claim still waits for it; and there is a bound to all that is known."""
    book = Book()
    book.failed(0.0)
    book.failed(0.0, offering=Offering(size="Standard_B"))
    late = 31.0 + EXPIRED_SECONDS
    book.unavailable_offerings.offers("k", (A,), created=OLD, waits=True, now=30.0)
    book.unavailable_offerings.offers("other", (), created=OLD, waits=False, now=late)
    assert [about.size for about, _ in book.unavailable_offerings.unavailable(late)] == ["Standard_A"]
    book.unavailable_offerings.release("k")
    book.unavailable_offerings.offers("other", (), created=OLD, waits=False, now=late)
    assert book.unavailable_offerings.unavailable(late) == ()
    for n in range(ENTRIES_MAX + 5):
        book.failed(late + n, key=f"k{n}", offering=Offering(size=f"Standard_{n}"))
    known = {about.size for about, _ in book.unavailable_offerings.unavailable(late)}
    assert len(known) == ENTRIES_MAX
    assert "Standard_4" not in known
    assert "Standard_5" in known
