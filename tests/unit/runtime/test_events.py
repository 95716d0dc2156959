"""Events on virtual time, against an in-memory API server that stores, expires or rejects them."""

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.model.steps import Event
from provisioner.api.meta import ObjectMeta
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.pod import Pod
from provisioner.runtime.events import RECORDED_MAX, EventRecorder, truncate
from provisioner.runtime.kube import KubeError
from tests.stories import run_by

from .event_story import CLAIM, Story, normal, run


def warning(reason: str, message: str) -> Event:
    return Event(type="Warning", reason=reason, message=message)


@run_by(run, given=2)
async def test_an_event_is_what_kubectl_describe_expects(it: Story, recorder: EventRecorder) -> None:
    """A claim has no namespace, so its Event is in default; times, count and source are set."""
    recorder.record(CLAIM, warning("NoCapacity", "none left in westeurope"))
    await asyncio.sleep(1)
    (event,) = it.api.events.values()
    assert event["involvedObject"] == {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "name": "ws1",
        "namespace": "",
        "uid": "u1",
        "resourceVersion": "7",
    }
    assert event["metadata"]["namespace"] == "default"
    assert event["metadata"]["name"].startswith("ws1.")
    assert (event["type"], event["reason"], event["count"]) == ("Warning", "NoCapacity", 1)
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2026-03-01T00:00:00Z"
    assert event["source"] == {"component": "gpu-provisioner"}


@run_by(run, given=2)
async def test_a_pods_event_lives_in_its_namespace(it: Story, recorder: EventRecorder) -> None:
    """The API server rejects any other namespace."""
    recorder.record(Pod(metadata=ObjectMeta(name="p", namespace="ml", uid="u")), normal("Evicted", "moved"))
    await asyncio.sleep(1)
    assert next(iter(it.api.events)).startswith("ml/p.")


@run_by(run, given=2)
async def test_the_same_stated_again_is_counted_on_the_same_event(it: Story, recorder: EventRecorder) -> None:
    """Queued repetitions are merged, later ones are patched, and another message is another Event."""
    for _ in range(5):
        recorder.record(CLAIM, normal("Waiting", "for quota"))
    await asyncio.sleep(60)
    recorder.record(CLAIM, normal("Waiting", "for quota"))
    recorder.record(CLAIM, normal("Waiting", "for a zone"))
    await asyncio.sleep(1)
    assert [e["count"] for e in it.api.events.values()] == [6, 1]
    first = next(iter(it.api.events.values()))
    assert (first["firstTimestamp"][-9:], first["lastTimestamp"][-9:]) == ("00:00:00Z", "00:01:00Z")
    assert it.api.calls == ["POST", "PATCH", "POST"]


@run_by(run, given=2)
async def test_a_predecessors_event_is_continued(it: Story, recorder: EventRecorder) -> None:
    """The name is a hash of the content: after a restart, or hours later, the count continues."""
    recorder.record(CLAIM, normal("Waiting", "for quota"))
    await asyncio.sleep(1)
    async with asyncio.TaskGroup() as group:
        successor = it.recorder()
        task = group.create_task(successor.run())
        successor.record(CLAIM, normal("Waiting", "for quota"))
        await asyncio.sleep(300)
        successor.record(CLAIM, normal("Waiting", "for quota"))
        await asyncio.sleep(1)
        task.cancel()
    assert [e["count"] for e in it.api.events.values()] == [3]


@run_by(run, given=2)
async def test_an_event_that_expired_is_made_anew(it: Story, recorder: EventRecorder) -> None:
    """Events expire after an hour; a patch of an expired one creates a new one."""
    recorder.record(CLAIM, normal("Waiting", "for quota"))
    await asyncio.sleep(1)
    it.api.events.clear()
    recorder.record(CLAIM, normal("Waiting", "for quota"))
    await asyncio.sleep(1)
    assert [e["count"] for e in it.api.events.values()] == [1]


@run_by(run, given=2)
async def test_what_lasts_is_recorded_again_after_its_time(it: Story, recorder: EventRecorder) -> None:
    """Another message, another object and another process are something else."""
    other = NodeClaim(metadata=ObjectMeta(name="ws1", uid="u2"))
    for _ in range(13):
        recorder.record(CLAIM, normal("Blocked", "by a budget", 120.0))
        recorder.record(CLAIM, normal("Blocked", "by a pod", 300.0))
        recorder.record(other, normal("Blocked", "by a budget", math.inf))
        await asyncio.sleep(20)
    assert [e["count"] for e in it.api.events.values()] == [3, 1, 1]
    successor = it.recorder()
    assert successor.recorded_at(CLAIM, normal("Blocked", "by a budget")) == -math.inf
    assert successor.record(CLAIM, normal("Blocked", "by a budget", 120.0))


@run_by(run, given=2)
async def test_what_changes_is_recorded_once_in_a_while(it: Story, recorder: EventRecorder) -> None:
    """Messages that change with pods, with one reason; other Events of that reason have no such limit."""
    assert recorder.record(CLAIM, normal("Draining", "waits for a, b", 3600.0, 120.0))
    assert not recorder.record(CLAIM, normal("Draining", "waits for b", 3600.0, 120.0))
    assert recorder.record(CLAIM, normal("Draining", "is overdue"))
    await asyncio.sleep(120)
    assert not recorder.record(CLAIM, normal("Draining", "waits for a, b", 3600.0, 120.0))
    assert recorder.record(CLAIM, normal("Draining", "waits for b", 3600.0, 120.0))


@run_by(run, given=2)
async def test_what_was_recorded_is_known_for_an_hour(it: Story, recorder: EventRecorder) -> None:
    """Then its Event has expired. At most so many are known, the latest ones."""
    recorder.record(CLAIM, lasting := normal("Waiting", "for a user", math.inf))
    await asyncio.sleep(3601)
    recorder.record(CLAIM, normal("Waiting", "for quota"))
    assert recorder.record(CLAIM, lasting)
    assert not recorder.record(CLAIM, lasting)
    for n in range(RECORDED_MAX):
        await asyncio.sleep(0.1)
        assert recorder.record(CLAIM, normal("Flood", str(n)))
    assert recorder.record(CLAIM, lasting)


@run_by(run, given=2)
async def test_what_is_dropped_is_recorded_later(it: Story, recorder: EventRecorder) -> None:
    for n in range(100):
        recorder.record(CLAIM, normal("Flood", str(n)))
    assert not recorder.record(CLAIM, lasting := normal("Waiting", "for a user", 3600.0))
    await asyncio.sleep(1)
    assert recorder.record(CLAIM, lasting)


@run_by(run, given=2)
async def test_a_flood_is_dropped_and_counted_not_queued(it: Story, recorder: EventRecorder) -> None:
    """A burst of a hundred, then ten a second: the caller never waits."""
    for n in range(1000):
        recorder.record(CLAIM, normal("Flood", str(n)))
    await asyncio.sleep(2)
    assert len(it.api.events) == 100
    for n in range(1000, 2000):
        recorder.record(CLAIM, normal("Flood", str(n)))
    await asyncio.sleep(2)
    assert len(it.api.events) == 120
    assert it.counted("dropped") == 1880
    assert it.counted("sent") == 120


@run_by(run, given=2)
async def test_a_refused_event_is_given_up_and_a_throttled_one_waits(it: Story, recorder: EventRecorder) -> None:
    """403 is final; Retry-After of 429 is honoured; after three attempts the recorder continues."""
    it.api.refuse_with = [(403, {})]
    recorder.record(CLAIM, normal("A", "refused"))
    await asyncio.sleep(1)
    assert (it.counted("dropped"), it.api.events) == (1, {})
    it.api.refuse_with = [(429, {"Retry-After": "9"})]
    recorder.record(CLAIM, normal("B", "throttled"))
    await asyncio.sleep(8)
    assert it.api.events == {}
    await asyncio.sleep(2)
    assert len(it.api.events) == 1
    it.api.refuse_with = [(500, {})] * 3
    recorder.record(CLAIM, normal("C", "unlucky"))
    await asyncio.sleep(60)
    assert it.counted("dropped") == 2
    recorder.record(CLAIM, normal("D", "lucky"))
    await asyncio.sleep(1)
    assert len(it.api.events) == 2


@run_by(run, given=2)
async def test_an_event_can_be_written_before_an_action(it: Story, recorder: EventRecorder) -> None:
    """The Event exists when the call returns, redacted like any other; an error is raised to the caller."""
    await recorder.record_now(CLAIM, warning("FinalizerRemovedManually", "ada did it with Bearer c4nary-0123456"))
    (event,) = it.api.events.values()
    assert (event["reason"], event["count"]) == ("FinalizerRemovedManually", 1)
    assert event["message"].startswith("ada did it with ")
    assert "c4nary" not in event["message"]
    it.api.refuse_with = [(403, {})]
    with pytest.raises(KubeError) as refused:
        await recorder.record_now(CLAIM, warning("FinalizerRemovedManually", "again"))
    assert refused.value.status == 403
    assert len(it.api.events) == 1


@run_by(run, given=2)
async def test_no_secret_and_no_novel_is_written(it: Story, recorder: EventRecorder) -> None:
    """Messages are redacted first, then truncated to 1024 bytes between two characters."""
    recorder.record(Node(metadata=ObjectMeta(name="n", uid="u")), warning("R", "Bearer c4nary-0123456 " + "ü" * 900))
    await asyncio.sleep(1)
    (event,) = it.api.events.values()
    assert "c4nary" not in event["message"]
    assert len(event["message"].encode()) <= 1024
    assert event["message"].endswith("ü…")


@given(st.text(), st.integers(3, 50))
def test_a_cut_text_is_a_prefix_within_its_bytes(text, limit) -> None:
    """For any characters."""
    short = truncate(text, limit)
    assert len(short.encode()) <= limit
    assert short == text.encode("utf-8", "replace").decode() or text.startswith(short.removesuffix("…"))
