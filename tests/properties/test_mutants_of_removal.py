"""Mutation tests for the rules of removal: proof of absence, fresh reads, the drain, ownership across restarts.

Together with `test_mutants.py` these are eleven known design errors (launch before the finalizer, no delete without a
providerID, released on 202, garbage by a stale cache, PUT and DELETE without their preconditions, Node before instance,
deletion by its event alone, ownership in memory, any error is NotFound, random names) and one mutant for each rule of a
removal.
"""

from collections.abc import Callable

import pytest

from tests.world.garbagecollection import test_garbage, test_inferred_removals
from tests.world.health import test_repair, test_repair_policy
from tests.world.nodeclaim import test_adoption_races
from tests.world.termination import test_draining, test_termination, test_volumes
from tests.world.termination.common import ELSEWHERE
from tests.world.transcript import FAST

from . import planted_in_removal as planted
from . import test_dropped_events
from .crash import create_and_delete
from .mutation import Patch, crashes, must_fail, no_fresh_reads, undisturbed
from .stale import BOTH
from .travel import changes, travel


def back_to_the_finalizer() -> None:
    """A new process sees the claim without a Node, as just after the finalizer was added."""
    for point in range(3, changes(BOTH) + 1):
        travel(BOTH, (point, 2), restart=True)


MUTANTS: list[tuple[Callable[[Patch], None], Callable[[], object], str]] = [
    (planted.released_on_202, undisturbed(create_and_delete), "I2"),
    (planted.deleted_by_name_alone, lambda: test_garbage.test_a_foreign_pool_is_never_put(True), "I4"),
    (
        planted.deletion_by_its_event_alone,
        test_termination.test_a_restart_in_the_middle_of_a_removal_goes_on_where_it_was,
        "gone",
    ),
    (planted.ownership_in_memory, crashes(create_and_delete), "I2"),
    (
        planted.any_error_is_not_found,
        lambda: test_termination.test_a_404_of_something_else_never_means_gone(*ELSEWHERE[0]),
        "I2",
    ),
    (
        planted.absence_without_settling,
        lambda: test_termination.test_a_404_that_lags_behind_the_put_is_no_proof(30.0, 30.0),
        "I2",
    ),
    (planted.a_second_delete, lambda: test_termination.test_a_pool_being_deleted_is_not_deleted_again(FAST), "202"),
    (no_fresh_reads, lambda: test_garbage.test_a_stale_list_of_claims_deletes_nothing(True), "I7"),
    (planted.all_tiers_at_once, test_termination.test_pods_leave_in_tiers, "second"),
    (
        planted.protected_pods_evicted,
        test_termination.test_a_pod_that_must_not_be_disrupted_holds_the_machine,
        "I22",
    ),
    (planted.eviction_by_name, test_draining.test_a_pod_made_anew_under_the_same_name_is_not_evicted_by_mistake, "409"),
    (planted.late_bound_pods_ignored, test_draining.test_a_pod_bound_just_after_the_taint_is_evicted_too, "I22"),
    (planted.no_termination_time, test_draining.test_a_pods_grace_longer_than_the_claims_is_cut_short, "it is deleted"),
    (
        planted.volumes_left_attached,
        test_volumes.test_the_machine_waits_until_its_volumes_are_detached,
        "VolumesDetached names the volume",
    ),
    (
        planted.adopted_from_a_live_claim,
        test_inferred_removals.test_a_living_claims_uid_is_not_adopted,
        "I29",
    ),
    (
        planted.current_owner_decides_on_deleted_nodes,
        lambda: test_adoption_races.test_the_deletion_meets_the_hand_over("before", False),
        "no DELETE was sent",
    ),
    (
        planted.crd_deletion_is_a_user_request,
        lambda: test_inferred_removals.test_kubectl_delete_crd(False),
        "assert not",
    ),
    (
        planted.repair_without_limits,
        test_repair.test_h3_four_of_five_within_ten_minutes_are_left_alone_until_most_are_back,
        "assert not",
    ),
    (
        planted.repair_without_end,
        lambda: test_repair_policy.test_h4_a_bad_image_costs_two_machines(False),
        "assert not",
    ),
    (planted.pools_by_a_stale_claim, back_to_the_finalizer, "shown as 2"),
    (
        planted.answers_left_to_the_watch,
        test_dropped_events.test_a_dropped_event_of_a_claim_leads_to_no_refused_write,
        "status=409",
    ),
]


@pytest.mark.matrix(quick=3)
@pytest.mark.parametrize(("mutate", "story", "message"), MUTANTS, ids=[row[0].__name__ for row in MUTANTS])
def test_mutant_is_caught(mutate: Callable[[Patch], None], story: Callable[[], object], message: str) -> None:
    """The test passes with the rule in place and fails with the rule broken."""
    must_fail(mutate, story, message)
