"""Mutation tests: each rule is broken by one small patch, and a named test must fail.

A surviving mutant would mean that no test covers the rule. The patch replaces the rule's function in the module that
calls it; tests and simulator are unchanged.
"""

from collections.abc import Callable

import pytest

from tests.world.garbagecollection import test_garbage
from tests.world.nodeclaim import test_main_job, test_offerings
from tests.world.operator import test_leadership
from tests.world.termination import test_termination

from . import planted
from .crash import create_and_delete, delete_while_creating
from .mutation import Patch, crashes, must_fail, undisturbed

MUTANTS: list[tuple[Callable[[Patch], None], Callable[[], object], str]] = [
    (planted.put_before_the_finalizer, test_termination.test_deleted_during_its_put, "I29"),
    (planted.released_without_proof, lambda: test_termination.test_deleted_while_its_put_is_in_flight(20.0), "'claim'"),
    (planted.no_delete_without_a_provider_id, undisturbed(delete_while_creating), "I2"),
    (planted.node_before_the_pool, undisturbed(create_and_delete), "I2"),
    (planted.every_pool_is_ours, lambda: test_garbage.test_foreign_pools_are_never_touched("", {}), "I4"),
    (planted.put_over_what_is_there, lambda: test_garbage.test_a_foreign_pool_is_never_put(True), "I4"),
    (planted.put_without_a_precondition, test_garbage.test_a_foreign_pool_that_came_unseen_is_never_put, "I4"),
    (planted.random_names, crashes(create_and_delete), "I3"),
    (planted.garbage_after_one_look, lambda: test_garbage.test_a_stale_list_of_claims_deletes_nothing(True), "I7"),
    (planted.no_circuit_breaker, test_garbage.test_all_nodes_deleted_by_hand_trip_the_circuit_breaker, "gpu5"),
    (
        planted.no_fence,
        test_leadership.test_a_leader_cut_off_from_the_api_server_stops_writing_to_azure_in_time,
        "I6",
    ),
    (planted.no_finalizer_on_nodes, test_main_job.test_claim_becomes_a_ready_gpu_node_and_goes_again, "I2"),
    (planted.every_claim_tries, lambda: test_offerings.test_many_claims_cost_one_put_a_step("later"), "<= 15"),
    (
        planted.backoff_that_does_not_double,
        lambda: test_offerings.test_many_claims_cost_one_put_a_step("at once"),
        "<= 15",
    ),
    (
        planted.no_drain,
        test_termination.test_a_pod_that_must_not_be_disrupted_holds_the_machine,
        "the drain is overdue",
    ),
]


@pytest.mark.matrix(quick=3)
@pytest.mark.parametrize(("mutate", "story", "message"), MUTANTS, ids=[row[0].__name__ for row in MUTANTS])
def test_mutant_is_caught(mutate: Callable[[Patch], None], story: Callable[[], object], message: str) -> None:
    """The test passes with the rule in place and fails with the rule broken."""
    must_fail(mutate, story, message)
