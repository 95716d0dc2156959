"""Conditions are set, ordered and summarized in Ready as in Karpenter."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.api.conditions import DEPENDENTS, READY, ConditionSet, Status, truncate
from provisioner.api.meta import Condition, ObjectMeta
from provisioner.api.nodeclaim import NodeClaim, NodeClaimStatus
from provisioner.api.text import printable

CREATED = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return CREATED + timedelta(seconds=seconds)


def claim(*conditions: Condition, generation: int = 1, deleting: bool = False) -> NodeClaim:
    metadata = ObjectMeta(
        name="ws3f2a91c0d",
        generation=generation,
        creation_timestamp=CREATED,
        deletion_timestamp=after(500) if deleting else None,
    )
    return NodeClaim(metadata=metadata, status=NodeClaimStatus(conditions=conditions))


def opened(seconds: float = 5) -> ConditionSet:
    return ConditionSet.of(claim(), after(seconds))


def ready_claim(generation: int = 1, deleting: bool = False) -> NodeClaim:
    conditions = opened()
    for position, condition_type in enumerate(DEPENDENTS):
        conditions = conditions.set_true(condition_type, after(60 * (position + 1)))
    return claim(*conditions.items, generation=generation, deleting=deleting)


def shown(conditions: ConditionSet, condition_type: str) -> Condition:
    found = conditions.get(condition_type)
    assert found is not None
    return found


def test_the_initial_conditions_are_unknown_since_the_creation() -> None:
    """Deadlines start at the creation of the claim."""
    conditions = opened(seconds=90)
    assert [c.type for c in conditions.items] == ["Launched", "Registered", "Initialized", "Ready"]
    for condition in conditions.items:
        assert (condition.status, condition.last_transition_time, condition.observed_generation) == (
            "Unknown",
            CREATED,
            1,
        )
    for condition_type in DEPENDENTS:
        assert shown(conditions, condition_type).reason == "AwaitingReconciliation"
        assert shown(conditions, condition_type).message == "object is awaiting reconciliation"
    assert shown(conditions, READY).reason == "ReconcilingDependents"
    assert shown(conditions, READY).message == "Launched=Unknown, Registered=Unknown, Initialized=Unknown"


def test_initial_conditions_are_stable() -> None:
    """A claim that has them needs no write."""
    conditions = opened()
    assert conditions.changed(claim())
    again = claim(*conditions.items)
    assert ConditionSet.of(again, after(900)).items == conditions.items
    assert not ConditionSet.of(again, after(900)).changed(again)


def test_only_missing_conditions_are_initialized() -> None:
    """Existing conditions are kept, and Ready is computed from all."""
    launched = Condition(
        type="Launched", status="True", reason="Launched", last_transition_time=after(30), observed_generation=1
    )
    conditions = ConditionSet.of(claim(launched), after(90))
    assert shown(conditions, "Launched") == launched
    assert shown(conditions, READY).message == "Registered=Unknown, Initialized=Unknown"


def test_ready_becomes_true_with_the_last_dependent() -> None:
    """At the same time."""
    conditions = opened()
    conditions = conditions.set_true("Launched", after(60)).set_true("Registered", after(120))
    assert shown(conditions, READY).status == "Unknown"
    assert shown(conditions, READY).last_transition_time == CREATED
    conditions = conditions.set_true("Initialized", after(180))
    assert shown(conditions, READY) == Condition(
        type="Ready", status="True", reason="Ready", message="", last_transition_time=after(180), observed_generation=1
    )
    assert [c.type for c in conditions.items] == ["Launched", "Registered", "Initialized", "Ready"]


def test_set_true_has_the_type_as_its_reason_and_no_message() -> None:
    conditions = (
        opened()
        .set("Launched", "Unknown", reason="Creating", message="since 12:00", now=after(5))
        .set_true("Launched", after(60))
    )
    launched = shown(conditions, "Launched")
    assert (launched.status, launched.reason, launched.message) == ("True", "Launched", "")


def test_the_transition_time_changes_only_with_the_status() -> None:
    first = opened().set("Launched", "False", reason="SkuNotAvailable", message="zone 1", now=after(60))
    second = first.set("Launched", "False", reason="QuotaExceeded", message="family", now=after(600))
    assert shown(second, "Launched").last_transition_time == after(60)
    assert shown(second, "Launched").reason == "QuotaExceeded"
    third = second.set("Launched", "Unknown", reason="Creating", message="", now=after(700))
    assert shown(third, "Launched").last_transition_time == after(700)


def test_setting_the_same_condition_returns_the_same_set() -> None:
    """So that no write is needed."""
    conditions = opened().set("Launched", "False", reason="QuotaExceeded", message="family", now=after(60))
    assert conditions.set("Launched", "False", reason="QuotaExceeded", message="family", now=after(999)) is conditions


def test_one_failed_dependent_makes_ready_false() -> None:
    """False takes precedence over Unknown; the message lists the latest change first."""
    conditions = opened().set("Registered", "False", reason="MultipleNodesFound", message="two", now=after(60))
    ready = shown(conditions, READY)
    assert (ready.status, ready.reason) == ("False", "UnhealthyDependents")
    assert ready.message == "Registered=False, Launched=Unknown, Initialized=Unknown"


def test_ready_follows_initialized() -> None:
    """In both directions and at the same time."""
    healthy = ready_claim()
    lost = ConditionSet.of(healthy, after(999)).set(
        "Initialized", "False", reason="NodeNotReady", message="kubelet", now=after(1000)
    )
    assert shown(lost, READY).status == "False"
    assert shown(lost, READY).last_transition_time == after(1000)
    back = lost.set_true("Initialized", after(1100))
    assert shown(back, READY).status == "True"
    assert shown(back, READY).last_transition_time == shown(back, "Initialized").last_transition_time == after(1100)


def test_a_condition_of_an_older_generation_does_not_count_for_ready() -> None:
    """Ready is Unknown until each dependent has been set for the current generation."""
    conditions = ConditionSet.of(ready_claim(generation=2), after(999))
    assert shown(conditions, READY).status == "True"
    conditions = conditions.set_true("Launched", after(1000))
    ready = shown(conditions, READY)
    assert (ready.status, ready.reason, ready.observed_generation) == ("Unknown", "ReconcilingDependents", 2)
    assert ready.message == "Initialized=True, Registered=True"
    conditions = conditions.set_true("Registered", after(1001)).set_true("Initialized", after(1002))
    assert shown(conditions, READY).status == "True"
    assert shown(conditions, "Launched").last_transition_time == after(60)


def test_a_failure_of_an_older_generation_leaves_ready_unknown() -> None:
    failed = opened().set("Launched", "False", reason="QuotaExceeded", message="family", now=after(60))
    conditions = ConditionSet.of(claim(*failed.items, generation=2), after(70)).set(
        "Drained", "Unknown", reason="Draining", message="", now=after(70)
    )
    assert shown(conditions, READY).status == "Unknown"


def test_any_set_updates_all_observed_generations_of_a_deleting_claim() -> None:
    """A deletion increases the generation, and Ready must not change because of it."""
    deleting = ready_claim(generation=2, deleting=True)
    conditions = ConditionSet.of(deleting, after(600)).set(
        "Drained", "Unknown", reason="Draining", message="Draining", now=after(600)
    )
    assert {c.observed_generation for c in conditions.items} == {2}
    assert shown(conditions, READY).status == "True"


def test_an_independent_condition_does_not_affect_ready() -> None:
    """Its transition time is that of its first set."""
    conditions = ConditionSet.of(ready_claim(), after(600))
    ready = shown(conditions, READY)
    conditions = conditions.set("Drained", "Unknown", reason="Draining", message="2 pods", now=after(600))
    assert shown(conditions, "Drained").last_transition_time == after(600)
    assert shown(conditions, READY) == ready
    assert [c.type for c in conditions.items] == ["Launched", "Registered", "Initialized", "Drained", "Ready"]


def test_the_first_condition_that_is_not_true_is_the_cause() -> None:
    """Conditions that await their predecessors follow those that have a reason, whatever their transition times."""
    conditions = opened().set("Launched", "Unknown", reason="Creating", message="", now=after(5))
    assert [c.type for c in conditions.items] == ["Launched", "Registered", "Initialized", "Ready"]
    conditions = conditions.set("Launched", "False", reason="QuotaExceeded", message="", now=after(45))
    assert [c.type for c in conditions.items] == ["Launched", "Registered", "Initialized", "Ready"]
    conditions = conditions.set_true("Launched", after(60))
    conditions = conditions.set("Registered", "Unknown", reason="NodeNotFound", message="", now=after(61))
    first = next(c for c in conditions.items if c.status != "True")
    assert (first.type, first.reason) == ("Registered", "NodeNotFound")


def test_conditions_are_ordered_by_transition_time_with_ready_last() -> None:
    conditions = opened().set("Initialized", "False", reason="NodeLost", message="", now=after(50))
    conditions = conditions.set_true("Drifted", after(20)).set_true("Launched", after(70))
    assert [c.type for c in conditions.items] == ["Drifted", "Initialized", "Launched", "Registered", "Ready"]


def test_clear_removes_a_condition_and_sorts_by_name() -> None:
    """As in Karpenter."""
    conditions = opened().set_true("Drifted", after(20)).set_true("Consolidatable", after(30)).clear("Drifted")
    assert [c.type for c in conditions.items] == ["Consolidatable", "Initialized", "Launched", "Ready", "Registered"]


def test_clear_of_an_absent_condition_returns_the_same_set() -> None:
    conditions = opened()
    assert conditions.clear("Drifted") is conditions


@pytest.mark.parametrize("condition_type", [READY, *DEPENDENTS])
def test_ready_and_its_dependents_cannot_be_cleared(condition_type: str) -> None:
    with pytest.raises(ValueError, match="always present"):
        opened().clear(condition_type)


def test_times_are_whole_seconds_in_utc() -> None:
    """The API server stores no fractions."""
    moment = datetime(2026, 3, 1, 14, 0, 7, 999_999, tzinfo=timezone(timedelta(hours=2)))
    launched = shown(opened().set_true("Launched", moment), "Launched")
    assert launched.last_transition_time == after(7)
    assert launched.last_transition_time.tzinfo is UTC


def test_a_time_without_a_zone_is_rejected() -> None:
    with pytest.raises(ValueError, match="time zone"):
        opened().set_true("Launched", datetime(2026, 3, 1))  # noqa: DTZ001


@pytest.mark.parametrize("reason", ["", "Creating", "A", "E_1", "a,b:c_"])
def test_valid_reasons(reason: str) -> None:
    """A letter, then letters, digits, underscores, commas and colons; or empty."""
    assert (
        shown(opened().set("Launched", "False", reason=reason, message="", now=after(1)), "Launched").reason == reason
    )


@pytest.mark.parametrize("reason", ["Not-Allowed", "1st", "has space", "dot.ted", "ends:", "Line\n", "Ü", "x" * 1025])
def test_invalid_reasons_are_rejected(reason: str) -> None:
    """The API server would reject the status."""
    with pytest.raises(ValueError, match="reason"):
        opened().set("Launched", "False", reason=reason, message="", now=after(1))


def test_long_messages_are_truncated() -> None:
    """Setting the same message again returns the same set."""
    conditions = opened().set("Launched", "False", reason="Rejected", message="é" * 500, now=after(1))
    message = shown(conditions, "Launched").message
    assert len(message.encode()) <= 256
    assert message.endswith("é...")
    assert conditions.set("Launched", "False", reason="Rejected", message="é" * 500, now=after(2)) is conditions


@pytest.mark.parametrize(
    ("message", "limit", "cut"),
    [
        ("", 5, ""),
        ("abcde", 5, "abcde"),
        ("abcdef", 5, "ab..."),
        ("ééé", 6, "ééé"),
        ("éééé", 6, "é..."),
        ("😀😀", 7, "😀..."),
        ("😀😀", 6, "..."),
        ("abcdef", 3, "..."),
        ("abcdef", 2, ".."),
        ("abcdef", 0, ""),
    ],
)
def test_a_message_is_truncated_between_characters(message: str, limit: int, cut: str) -> None:
    """The limit is in bytes and includes the ellipsis."""
    assert truncate(message, limit) == cut


def test_characters_that_are_not_printable_are_escaped() -> None:
    """An unpaired surrogate cannot be encoded in UTF-8; others move the cursor of a terminal, or hide text."""
    assert truncate("bad \ud83d end") == r"bad \ud83d end"
    assert truncate("\x1b[2J\u202e\r\nFORGED") == r"\x1b[2J\u202e\r\nFORGED"


@given(st.text(max_size=300), st.integers(min_value=3, max_value=300))
def test_a_truncated_message_is_a_prefix_within_the_limit(message: str, limit: int) -> None:
    """Truncating it again returns the same text."""
    cut = truncate(message, limit)
    assert len(cut.encode()) <= limit
    shown = printable(message)
    assert shown.startswith(cut.removesuffix("...")) or shown == cut
    assert truncate(cut, limit) == cut


STEPS = st.lists(
    st.tuples(
        st.sampled_from([*DEPENDENTS, "Drained", "Drifted"]),
        st.sampled_from(["True", "False", "Unknown"]),
        st.integers(0, 30),
    ),
    max_size=12,
)


@given(STEPS, st.booleans())
def test_ready_is_the_summary_of_its_dependents(steps: list[tuple[str, Status, int]], deleting: bool) -> None:
    """After any sequence of sets; types are unique, and times change only with a status."""
    conditions = ConditionSet.of(claim(deleting=deleting), CREATED)
    moment = CREATED
    for condition_type, status, seconds in steps:
        moment += timedelta(seconds=seconds)
        before = conditions.get(condition_type)
        conditions = conditions.set(condition_type, status, reason="Because", message="", now=moment)
        if before is not None and before.status == status:
            assert shown(conditions, condition_type).last_transition_time == before.last_transition_time
    statuses = [shown(conditions, t).status for t in DEPENDENTS]
    expected = "False" if "False" in statuses else "Unknown" if "Unknown" in statuses else "True"
    assert shown(conditions, READY).status == expected
    types = [c.type for c in conditions.items]
    assert len(types) == len(set(types))
    assert types[-1] == READY
