"""The recording itself: what the real program exports is what a real Prometheus takes."""

from tools.monitoring.recording import JOB, Recording
from tools.monitoring.scenario import FIRST, SECOND


def test_both_replicas_were_scraped_all_the_time(recording: Recording) -> None:
    """No scrape of a running replica fails; the first one ends when it is told to."""
    up = recording.prometheus.over(f'up{{job="{JOB}"}}', recording.start + 2, recording.end)
    seen = {series["metric"]["pod"]: [value for _, value in series["values"]] for series in up}
    assert set(seen[SECOND]) == {"1"}
    # Once it has gone it stays away.
    assert seen[FIRST] == sorted(seen[FIRST], reverse=True)
    assert set(seen[FIRST]) == {"1", "0"}


def test_one_replica_leads_and_the_other_takes_over(recording: Recording) -> None:
    """At each moment at most one leads, and in the end it is the second."""
    leading = recording.prometheus.over("sum(leader_election_master_status)", recording.start + 2, recording.end)
    assert {value for _, value in leading[0]["values"]} <= {"0", "1"}
    (last,) = recording.prometheus.instant("leader_election_master_status == 1", recording.end)
    assert last["metric"]["pod"] == SECOND
