"""What one claim's attempts add to the unavailable offerings, and the order in which a claim tries its offerings."""

from datetime import timedelta
from typing import Any, Literal

import msgspec
import pytest

from cloudprovider.azure.cloud import AksCloud
from cloudprovider.errors import CloudError, NoCapacity, Rejected, Scope
from cloudprovider.interface import Failure, Instance, InstanceState, Offering
from controllers.model.facts import Facts, Offer
from controllers.model.offering_scope import LaunchTemplate
from controllers.model.reported import LaunchFailure, Reported
from controllers.model.steps import CreateInstance
from controllers.nodeclaim.lifecycle.launch import own_blocking_condition
from controllers.nodeclaim.lifecycle.offerings import blocking_condition, exhausted, fallback_message, next_offering
from controllers.state.offering_tracker import OfferingTracker
from controllers.state.quota import QuotaReadings
from controllers.state.unavailable_offerings import UnavailableOfferings
from provisioner.api import labels
from provisioner.api.conditions import ConditionSet
from provisioner.api.nodeclaim import NodeClaim
from provisioner.metrics.observers.label_values import LabelValues
from provisioner.metrics.observers.offerings import OfferingMetrics
from provisioner.runtime.metrics import Metrics
from tests.unit.builders import BORN, KEY, NOW, claim, facts, instance

A, B, C = (Offering(size=f"Standard_{name}") for name in "ABC")
SHORT = NoCapacity("QuotaExceeded", "no cores", scope="size")


def template_of(uid: str, subnet: str = "") -> LaunchTemplate:
    return LaunchTemplate(f"template of {uid}", subnet)


def offering_tracker(
    *offerings: Offering, withdrawn: tuple[str, ...] = ()
) -> tuple[OfferingTracker, UnavailableOfferings]:
    unavailable_offerings = UnavailableOfferings(lambda key: None)
    return OfferingTracker(
        unavailable_offerings,
        lambda made: offerings,
        OfferingMetrics(Metrics(), LabelValues(AksCloud())),
        lambda: 0.0,
        quota=QuotaReadings(
            unavailable_offerings,
            lambda *_: None,
            lambda *_: {},
            wake=lambda key: None,
            begin=lambda: None,
        ),
        template_of=lambda made: template_of(made.uid),
        creating_seconds=1800.0,
        withdrawn=lambda one: f"{one.size} is not offered" if one.size in withdrawn else "",
    ), unavailable_offerings


def refused(offering_tracker: OfferingTracker, offering: Offering, at: float, error: CloudError = SHORT) -> None:
    step = CreateInstance(claim=claim(), name=KEY, offering=offering)
    offering_tracker.create_started(step, at)
    offering_tracker.create_failed(step, error, requested=NOW, wall=NOW, now=at)


def offers_of(offering_tracker: OfferingTracker, known: Facts, at: float) -> tuple[Offer, ...]:
    known = msgspec.structs.replace(known, loop_now=at)
    return offering_tracker.offers(known, blocked=own_blocking_condition(known) is not None)


def pick(offering_tracker: OfferingTracker, at: float, **more: Any) -> Offering | None:
    known = facts(claims=(claim(),), **more)
    return next_offering(msgspec.structs.replace(known, offers=offers_of(offering_tracker, known, at)))


def reporting(status: Literal["True", "False", "Unknown"], reason: str, reports: Reported) -> NodeClaim:
    """A claim with this condition Launched, whose message is of no importance."""
    made = claim(annotations={labels.REPORTED: msgspec.json.encode(reports).decode()})
    conditions = ConditionSet.of(made, BORN).set("Launched", status, reason=reason, message="reworded", now=BORN)
    return msgspec.structs.replace(made, status=msgspec.structs.replace(made.status, conditions=conditions.items))


def test_all_allowed_offerings_are_tried_before_one_is_tried_again() -> None:
    """Each attempt takes longer than a short delay; after the last offering the claim begins again with its first
    choice.
    """
    asking, _ = offering_tracker(A, B, C)
    for at, offering in ((0.0, A), (40.0, B), (80.0, C)):
        assert pick(asking, at) == offering
        refused(asking, offering, at)
    assert pick(asking, 120.0) == A


SCARCE: list[tuple[str, list[tuple[Offering, float, CloudError]], tuple[str, ...], float, str | None]] = [
    ("nothing is known", [], (), 10.0, ""),
    ("all failed", [(A, 0.0, SHORT), (B, 1.0, SHORT)], (), 10.0, "Standard_A: QuotaExceeded"),
    ("one did not", [(A, 0.0, SHORT)], (), 10.0, ""),
    ("within the hour", [(A, 0.0, SHORT), (B, 1.0, SHORT)], (), 3599.0, "Standard_A: QuotaExceeded"),
    ("an hour ago", [(A, 0.0, SHORT), (B, 1.0, SHORT)], (), 3601.0, ""),
    ("one is not offered", [(A, 0.0, SHORT)], ("Standard_B",), 10.0, "Standard_A: QuotaExceeded"),
    ("none is offered", [], ("Standard_A", "Standard_B"), 10.0, "Standard_A is not offered"),
    (
        "refused for its own launch template",
        [(A, 0.0, Rejected("PolicyDenied", "no", scope="size")), (B, 0.0, SHORT)],
        (),
        10.0,
        "Standard_A: PolicyDenied",
    ),
]


@pytest.mark.parametrize(("case", "failed", "withdrawn", "at", "expected"), SCARCE, ids=[row[0] for row in SCARCE])
def test_scarcity(
    case: str,
    failed: list[tuple[Offering, float, CloudError]],
    withdrawn: tuple[str, ...],
    at: float,
    expected: str | None,
) -> None:
    """Another machine in the place of one cannot be had, by none of the offerings of its claim."""
    tracker, _ = offering_tracker(A, B, withdrawn=withdrawn)
    for offering, when, error in failed:
        refused(tracker, offering, when, error)
    assert tracker.scarcity(claim(), A, at) == expected, case


def test_scarcity_is_unknown_without_offerings() -> None:
    """Such as before the location of the cluster was read."""
    tracker, _ = offering_tracker()
    assert tracker.scarcity(claim(), A, 0.0) is None


@pytest.mark.parametrize("scope", ["region", "priority", "size", "zone", "cluster", "subnet"])
def test_a_failure_of_wider_scope_marks_no_other_offering_as_tried(scope: Scope) -> None:
    """The others become unavailable with it, and are tried first afterwards; until they failed too, nothing is
    exhausted.
    """
    first, second = Offering(size="Standard_A", zone="1"), Offering(size="Standard_A", zone="2")
    asking, _ = offering_tracker(first, second)
    refused(asking, first, 0.0, NoCapacity("QuotaExceeded", "no cores", scope=scope))
    known = facts(claims=(claim(),))
    known = msgspec.structs.replace(known, offers=offers_of(asking, known, 1.0))
    assert [offer.tried for offer in known.offers] == [True, False]
    assert not exhausted(known)
    assert pick(asking, 301.0) == second
    refused(asking, second, 301.0, NoCapacity("QuotaExceeded", "no cores", scope=scope))
    known = msgspec.structs.replace(known, offers=offers_of(asking, known, 302.0))
    assert exhausted(known) == (scope not in ("cluster", "subnet"))
    assert pick(asking, 602.0) == first


def test_a_new_claim_tries_its_first_choice_after_the_delay() -> None:
    """The order of the claim applies: one claim tries the first choice again before it takes the second."""
    asking, unavailable_offerings = offering_tracker(A, B)
    refused(asking, A, 0.0)
    asking.forget(KEY)
    assert pick(asking, 1.0) == B
    assert pick(asking, 31.0) == A
    unavailable_offerings.create_started("another", A, 31.0)
    assert pick(asking, 32.0) == B


def test_a_lost_response_passes_the_turn() -> None:
    """The result of the PUT is unknown; the claim looks for its pool, and other claims do not wait for that."""
    asking, unavailable_offerings = offering_tracker(A)
    refused(asking, A, 0.0)
    pick(asking, 31.0)
    asking.create_started(CreateInstance(claim=claim(), name=KEY, offering=A), 31.0)
    other: dict[str, Any] = {"created": NOW, "waits": True}
    assert unavailable_offerings.offers("other", (A,), now=31.0, **other)[0].available_in > 0
    known = facts(claims=(claim(),), adoption_refused="waits for a person")
    offers_of(asking, known, 32.0)
    assert unavailable_offerings.offers("other", (A,), now=32.0, **other)[0].available_in == 0.0


def test_the_condition_of_a_launched_claim_is_not_restored() -> None:
    """A failure in a claim's condition counts only when this process first observes the claim, not after its pool was
    created and deleted.
    """
    asking, unavailable_offerings = offering_tracker(A)
    offers_of(asking, facts(claims=(claim(),), instance=pool(A, InstanceState.CREATING)), 0.0)
    short = LaunchFailure(reason="QuotaExceeded", message="no cores", exhausted=True)
    known = facts(claims=(reporting("False", "QuotaExceeded", Reported(failure=short)),))
    offers_of(asking, known, 10.0)
    assert unavailable_offerings.unavailable(10.0) == ()
    fresh, remembered = offering_tracker(A)
    offers_of(fresh, known, 10.0)
    assert len(remembered.unavailable(10.0)) == 1


def test_a_retry_annotation_makes_offerings_available_once() -> None:
    """Each new value does; the value at the start of the process and the removal of the annotation do not."""
    asking, _ = offering_tracker(A, B)
    for offering in (A, B):
        refused(asking, offering, 0.0)

    def rests(at: float, word: str) -> bool:
        known = facts(claims=(claim(annotations={labels.RETRY: word} if word else {}),))
        return all(offer.available_in > 0 for offer in offers_of(asking, known, at))

    assert [rests(1.0, "old"), rests(2.0, ""), rests(3.0, "old")] == [True, True, False]
    refused(asking, A, 4.0)
    refused(asking, B, 4.0)
    assert [rests(5.0, "old"), rests(6.0, "new"), rests(7.0, "new")] == [True, False, False]


FULL = "SubnetIsFull: Subnet gpu is full. Free addresses in the subnet or use a larger one"
NO_CORES = LaunchFailure(reason="QuotaExceeded", message="no cores", exhausted=True)
NO_ADDRESS = LaunchFailure(reason="SubnetIsFull", message=FULL, scope="subnet", after=300.0)


@pytest.mark.parametrize(
    ("offerings", "failure", "left"),
    [
        ((A,), NO_CORES, {A: 30.0, B: None}),
        # It is not known which of the two sizes failed: both are unavailable, for as long as any shortage is.
        ((A, B), NO_CORES, {A: 30.0, B: 30.0, C: None}),
        ((A,), msgspec.structs.replace(NO_CORES, scope="region"), {A: 30.0, B: 30.0}),
        # Others can still be tried: the claim does not report that all are exhausted.
        ((A,), msgspec.structs.replace(NO_CORES, exhausted=False), {A: None}),
        # A full subnet affects all offerings.
        ((A, B), NO_ADDRESS, {A: 300.0, B: 300.0, C: 300.0}),
        # Not of this condition, or not known: written by an earlier release.
        ((A,), msgspec.structs.replace(NO_CORES, reason="AllocationFailed"), {A: None}),
        ((A,), None, {A: None}),
    ],
)
def test_unavailable_offerings_are_restored_from_conditions(
    offerings: tuple[Offering, ...], failure: LaunchFailure | None, left: dict[Offering, float | None]
) -> None:
    """After a restart: scope and time, as far as the claim reports them."""
    asking, unavailable_offerings = offering_tracker(*offerings)
    reason = failure.reason if failure is not None and failure.reason == "SubnetIsFull" else "QuotaExceeded"
    words = reporting("False", reason, Reported(failure=failure))
    (launched,) = [c for c in words.status.conditions if c.type == "Launched"]
    offers_of(asking, facts(claims=(words,), now=launched.last_transition_time), 0.0)
    rests = dict(unavailable_offerings.unavailable(0.0))
    for offering, seconds in left.items():
        found = [one for about, one in rests.items() if about.covers(offering, template_of("any"))]
        assert found == ([] if seconds is None else [seconds]), offering


def test_a_shortage_of_the_cluster_is_reported_without_the_phrase_that_ends_a_ragengine() -> None:
    """One claim's full subnet delays all claims, and no claim reports that its sizes are exhausted."""
    asking, unavailable_offerings = offering_tracker(A, B)
    full = NoCapacity("SubnetIsFull", FULL, scope="subnet", after=300.0)
    asking.create_started(CreateInstance(claim=claim(), name="other", offering=C), 0.0)
    step = CreateInstance(claim=claim(), name="other", offering=C)
    asking.create_failed(step, full, requested=NOW, wall=NOW, now=0.0)
    known = facts(claims=(claim(),))
    known = msgspec.structs.replace(known, offers=offers_of(asking, known, 1.0))
    held = blocking_condition(known)
    assert held is not None
    assert (held.status, held.reason, held.message, held.recheck) == ("False", "SubnetIsFull", FULL, 299.0)
    assert not exhausted(known)
    (rest,) = unavailable_offerings.unavailable(1.0)
    assert rest[1] == 299.0


def pool(offering: Offering, state: InstanceState, **more: Any) -> Instance:
    return instance(state, raw_state="Creating", **{"size": offering.size, **more})


def test_a_second_choice_is_reported_with_its_cause() -> None:
    """The cause remains as reported after another claim succeeded; the first choice adds no text."""
    asking, _ = offering_tracker(A, B)
    refused(asking, A, 0.0)
    creating = pool(B, InstanceState.CREATING)
    known = facts(claims=(claim(),), instance=creating)
    known = msgspec.structs.replace(known, offers=offers_of(asking, known, 1.0))
    words = fallback_message(known, creating)
    assert words == "Standard_B is choice 2 of 2, Standard_A failed with QuotaExceeded"
    asking.update_from_instance(
        "other", pool(A, InstanceState.RUNNING, put_time=NOW.replace(hour=13)), claim=None, wall=NOW, now=2.0
    )
    later = facts(claims=(reporting("Unknown", "Creating", Reported(first_choice="QuotaExceeded")),), instance=creating)
    later = msgspec.structs.replace(later, offers=offers_of(asking, later, 3.0))
    assert later.offers[0].reason == ""
    assert fallback_message(later, creating) == words
    assert fallback_message(later, pool(A, InstanceState.CREATING)) == ""


def test_a_failed_pool_counts_as_one_failure() -> None:
    """A list every four seconds contains it until it is removed."""
    asking, unavailable_offerings = offering_tracker(A)
    failure = Failure(reason="AllocationFailed", message="no room", kind=NoCapacity.kind)
    failed = pool(A, InstanceState.FAILED, failure=failure)
    for at in (0.0, 4.0, 8.0):
        asking.update_from_instance(KEY, failed, claim=claim(), wall=NOW, now=at)
    assert [left for _, left in unavailable_offerings.unavailable(8.0)] == [22.0]


POLICY = Rejected("RequestDisallowedByPolicy", "not allowed")
BROKEN = Failure(reason="NodesNotReady", message="no Node", kind=Rejected.kind, scope="request")


def test_a_refused_request_is_followed_by_the_next_offering() -> None:
    """Once all are refused, they are requested again after 5 min, then 10, up to an hour."""
    asking, _ = offering_tracker(A, B)
    refused(asking, A, 0.0, POLICY)
    assert pick(asking, 1.0) == B
    refused(asking, B, 1.0, POLICY)
    assert pick(asking, 299.0) is None
    assert pick(asking, 302.0) == A
    refused(asking, A, 302.0, POLICY)
    assert pick(asking, 303.0) == B
    refused(asking, B, 303.0, POLICY)
    assert pick(asking, 900.0) is None
    assert pick(asking, 904.0) == A


def test_a_refused_request_concerns_its_launch_template() -> None:
    """No other claim, and not the phrase by which KAITO's RAGEngine gives up."""
    asking, _ = offering_tracker(A)
    refused(asking, A, 0.0, POLICY)
    assert asking.obstacles(1.0)(A) == ""
    ((scope, cause),) = asking.refused(template_of(claim().uid), 1.0)
    assert scope.covers(A, template_of(claim().uid))
    assert not scope.covers(A)
    assert cause == "not allowed"
    assert asking.refused(template_of("another"), 1.0) == ()
    known = facts(claims=(claim(),))
    known = msgspec.structs.replace(known, offers=offers_of(asking, known, 1.0))
    assert not exhausted(known)
    held = blocking_condition(known)
    assert held is not None
    assert (held.status, held.reason, held.message) == ("False", "RequestDisallowedByPolicy", "not allowed")
    assert asking.launch_obstacle(KEY, claim(), wall=NOW, now=1.0) == "refused"
    assert asking.launch_obstacle(KEY, claim(), wall=NOW, now=301.0) == "none"


def test_a_nodeclaim_that_the_api_server_refuses_concerns_none_that_exists() -> None:
    """The next one is created five minutes later, or once a machine that was requested since then runs."""
    asking, _ = offering_tracker(A)
    template, denied = template_of(claim().uid), Failure(reason="LaunchFailed", message="denied", kind=Rejected.kind)
    asking.template_refused(template, (A,), denied, wall=NOW, now=0.0)
    assert [cause for _, cause in asking.refused(template, 1.0)] == ["denied"]
    assert asking.launch_obstacle(KEY, claim(), wall=NOW, now=1.0) == "none"
    assert pick(asking, 1.0) == A
    known = facts(claims=(claim(),))
    assert blocking_condition(msgspec.structs.replace(known, offers=offers_of(asking, known, 1.0))) is None
    assert asking.scarcity(claim(), B, 301.0) == "Standard_A: LaunchFailed"
    running = pool(A, InstanceState.RUNNING, put_time=NOW + timedelta(seconds=2))
    asking.update_from_instance(KEY, running, claim=claim(), wall=NOW, now=200.0)
    assert asking.refused(template, 201.0) == ()
    assert asking.scarcity(claim(), B, 201.0) == ""


def test_a_final_error_makes_nothing_unavailable() -> None:
    """The spec of the claim is invalid, which its condition states."""
    asking, unavailable_offerings = offering_tracker(A)
    refused(asking, A, 0.0, Rejected("ZoneInvalid", "no zone", final=True))
    assert unavailable_offerings.unavailable(0.0) == ()


def test_two_machines_in_a_row_that_failed() -> None:
    """One may fail by itself; a machine that runs begins a new row."""
    asking, _ = offering_tracker(A)
    template = template_of(claim().uid)

    def ends(state: InstanceState, at: float, failure: Failure | None = None) -> None:
        made = pool(A, state, failure=failure, etag=str(at), put_time=NOW + timedelta(seconds=at))
        asking.update_from_instance(KEY, made, claim=claim(), wall=NOW + timedelta(seconds=at), now=at)

    ends(InstanceState.FAILED, 0.0, BROKEN)
    assert asking.refused(template, 1.0) == ()
    ends(InstanceState.RUNNING, 10.0)
    ends(InstanceState.FAILED, 20.0, BROKEN)
    assert asking.refused(template, 21.0) == ()
    ends(InstanceState.FAILED, 30.0, BROKEN)
    ((scope, _),) = asking.refused(template, 31.0)
    assert scope.covers(B, template)
    assert asking.refused(template, 331.0) == ()


def test_a_pool_that_is_created_for_too_long() -> None:
    """Its size is refused once; the end of the creation ends the obstacle."""
    asking, _ = offering_tracker(A)
    creating = pool(A, InstanceState.CREATING, put_time=NOW)
    asking.update_from_instance(KEY, creating, claim=claim(), wall=NOW, now=0.0)
    late = NOW + timedelta(minutes=30)
    assert asking.launch_obstacle(KEY, claim(), wall=late - timedelta(seconds=1), now=1799.0) == "none"
    assert asking.launch_obstacle(KEY, claim(), wall=late, now=1800.0) == "slow"
    assert asking.launch_obstacle(KEY, claim(), wall=late, now=2200.0) == "slow"
    assert asking.refused(template_of(claim().uid), 2200.0) == ()
    asking.update_from_instance(KEY, pool(A, InstanceState.RUNNING), claim=claim(), wall=late, now=2201.0)
    assert asking.launch_obstacle(KEY, claim(), wall=late, now=2202.0) == "none"


def test_a_clock_that_is_set_makes_no_creation_too_long() -> None:
    """Half of the time is observed; a pool that is created again under the same name begins anew."""
    asking, _ = offering_tracker(A)
    late = NOW + timedelta(days=183)
    asking.update_from_instance(KEY, pool(A, InstanceState.CREATING, put_time=NOW), claim=claim(), wall=NOW, now=0.0)
    assert asking.launch_obstacle(KEY, claim(), wall=late, now=10.0) == "none"
    asking.update_from_instance(KEY, pool(A, InstanceState.CREATING, put_time=NOW), claim=claim(), wall=late, now=20.0)
    assert asking.launch_obstacle(KEY, claim(), wall=late, now=899.0) == "none"
    assert asking.launch_obstacle(KEY, claim(), wall=late, now=900.0) == "slow"
    again = pool(A, InstanceState.CREATING, put_time=NOW + timedelta(hours=1))
    asking.update_from_instance(KEY, again, claim=claim(), wall=late, now=1300.0)
    assert asking.launch_obstacle(KEY, claim(), wall=late, now=1310.0) == "none"


def test_a_clock_that_is_set_back_makes_no_creation_shorter() -> None:
    """It is too long once all of the time was observed."""
    asking, _ = offering_tracker(A)
    early = NOW - timedelta(days=183)
    asking.update_from_instance(KEY, pool(A, InstanceState.CREATING, put_time=NOW), claim=claim(), wall=NOW, now=0.0)
    assert asking.launch_obstacle(KEY, claim(), wall=early, now=1799.0) == "none"
    assert asking.launch_obstacle(KEY, claim(), wall=early, now=1800.0) == "slow"
