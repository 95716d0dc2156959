"""The recording: Prometheus scrapes both replicas, and sees the change of the leader."""

from tools.monitoring.recording import JOB, Recording
from tools.monitoring.scenario import FIRST, SECOND


def test_both_replicas_were_scraped(recording: Recording) -> None:
    """The first one until it is stopped, the second one until the end."""
    up = recording.prometheus.over(f'up{{job="{JOB}"}}', recording.start, recording.end)
    seen = {series["metric"]["pod"]: [value for _, value in series["values"]] for series in up}
    assert seen[FIRST].count("1") > 10
    assert (seen[FIRST][-1], seen[SECOND][-1]) == ("0", "1")


def test_one_replica_leads_and_the_other_takes_over(recording: Recording) -> None:
    """The first replica is the leader while both run; in the end it is the second."""
    led = recording.prometheus.over("leader_election_master_status == 1", recording.start, recording.end)
    assert {series["metric"]["pod"] for series in led} == {FIRST, SECOND}
    (last,) = recording.prometheus.instant("leader_election_master_status == 1", recording.end)
    assert last["metric"]["pod"] == SECOND
