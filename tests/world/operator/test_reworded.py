"""Stories in which every process writes messages in words of its own: what the controllers do is the same."""

from collections.abc import Callable
from functools import partial

import pytest

from tests.world.disruption import test_consolidation, test_drift
from tests.world.health import test_never_all_gpus, test_repair, test_repair_policy, test_replacement_loops
from tests.world.metrics import test_metrics
from tests.world.nodeclaim import test_lifecycle, test_limits, test_offerings
from tests.world.provisioning import test_launchless
from tests.world.reworded import reword
from tests.world.termination import test_termination, test_volumes

STORIES: dict[str, Callable[[], None]] = {
    "launch": test_lifecycle.test_ready_as_soon_as_the_node_proves_it,
    "launch, the next size": partial(test_offerings.test_the_next_size_is_tried_after_a_shortage, refused="later"),
    "launch, exhausted": test_offerings.test_exhausted_offerings_are_reported_and_retried,
    "launch, exhausted, a new leader": test_offerings.test_a_restart_forgets_no_shortage,
    "launch, a full subnet": test_offerings.test_a_full_subnet_is_tried_by_one_claim_for_all,
    "launch, overdue": test_metrics.test_a_claim_that_is_overdue_shows_until_it_is_not,
    "launch, refused for an hour": test_launchless.test_a_claim_that_is_refused_for_an_hour_is_overdue_once,
    "launch, a place in line": test_limits.test_a_place_in_line_is_overdue_once,
    "termination, blocked drain": test_termination.test_a_disruption_budget_holds_the_machine_and_is_named,
    "termination, volumes": test_volumes.test_volumes_that_stay_attached_are_overdue,
    "termination, a new leader": test_termination.test_a_restart_in_the_middle_of_a_removal_goes_on_where_it_was,
    "lost GPUs, a new leader": test_repair_policy.test_h1_a_new_leader_while_gpus_are_gone,
    "repair, a new leader": partial(test_repair.test_a_restart_continues_the_time, minute=9),
    "repair, suspended": test_replacement_loops.test_a_loop_of_machines_that_fail_later_than_an_hour,
    "repair, suspended, a new leader": partial(test_never_all_gpus.test_a_size_that_always_lacks_one, releases=True),
    "consolidation": test_consolidation.test_a_machine_that_is_too_large_is_replaced,
    "consolidation, by policy": test_consolidation.test_when_empty_moves_no_pod,
    "drift": test_drift.test_a_machine_of_a_dynamic_nodepool_is_replaced,
}


@pytest.mark.matrix(quick=4)
@pytest.mark.parametrize("story", STORIES)
def test_no_decision_depends_on_words(story: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The story ends as it does with the words of this release."""
    words = reword(monkeypatch)
    STORIES[story]()
    assert len(words) > 0
