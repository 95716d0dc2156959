"""Events of pods have one rate for all tenants: whose are recorded first when there are more than the rate allows."""

import math
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from controllers.model.steps import Event
from controllers.provisioning.pods import CachedPod
from controllers.provisioning.solver.model import Decision
from controllers.reconcile.scheduling_events import FAILED_SECONDS, SchedulingEvents
from provisioner.api.meta import ObjectMeta

EVERY_SECONDS = 10.0


class Recorder:
    """Takes so many Events in each pass."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.left = most
        self.taken: list[str] = []
        self.now = 0.0
        self._at: dict[tuple[str, str], float] = {}

    def record_event(self, pod: CachedPod, event: Event) -> bool:
        self.left -= 1
        if self.left >= 0:
            self.taken.append(pod.name)
            self._at[pod.metadata.uid, event.message] = self.now
        return self.left >= 0

    def recorded_at(self, pod: CachedPod, event: Event) -> float:
        return self._at.get((pod.metadata.uid, event.message), -math.inf)


class Passes:
    """One decision after another, in which no machine takes the pods."""

    def __init__(self, most: int) -> None:
        self.recorder = Recorder(most)
        actuator: Any = self.recorder
        self.events = SchedulingEvents(actuator)

    def run(
        self, names: Iterable[str], why: str = "no machine takes it", *, seconds: float = EVERY_SECONDS
    ) -> list[str]:
        """The pods that have an Event in this pass; the oldest pods are named first."""
        split = [name.split("/") for name in names]
        pods = [CachedPod(metadata=ObjectMeta(namespace=of, name=name, uid=f"uid-{of}-{name}")) for of, name in split]
        found: Any = SimpleNamespace(places={}, unusable={}, errors={}, notes={})
        decision = Decision(machines=(), existing={}, errors={pod.name: why for pod in pods})
        self.recorder.now += seconds
        self.recorder.left, self.recorder.taken = self.recorder.most, []
        self.events.record(pods, found, decision, {}, self.recorder.now)
        return self.recorder.taken


def named(namespace: str, count: int, first: int = 0) -> list[str]:
    return [f"{namespace}/{number:04}" for number in range(first, first + count)]


def test_a_pod_among_thousands_has_an_event_at_once() -> None:
    """4,000 pods of another namespace are older, and have had no Event either."""
    passes, evil = Passes(50), named("evil", 4000)
    assert "good/0" in passes.run([*evil, "good/0"])
    seen = {one for _ in range(80) for one in passes.run([*evil, "good/0"])}
    assert len(seen) >= 4000, "their first Events come before repetitions, which are due after five minutes"


def test_what_is_new_comes_before_repetitions() -> None:
    """Also what is new about a pod that had an Event; nothing is repeated early."""
    passes, names = Passes(10), named("a", 10)
    assert passes.run(names) == names
    assert passes.run(names) == []
    passes.recorder.most = 2
    assert passes.run([*names, "a/new"], seconds=FAILED_SECONDS) == ["a/new", "a/0000"]
    assert passes.run([*names, "a/new"]) == ["a/0001", "a/0002"], "those whose Event is the oldest"
    assert passes.run([*names, "b/0"], "another cause") == ["b/0", "a/0003"]


def test_namespaces_take_turns() -> None:
    """More namespaces than Events: each has one before any has its second."""
    passes = Passes(3)
    names = [one for namespace in "abcdefgh" for one in named(namespace, 5)]
    taken = [one.partition("/")[0] for _ in range(8) for one in passes.run(names)]
    assert [sorted(taken[:8]), sorted(taken[8:16])] == [[*"abcdefgh"], [*"abcdefgh"]]


def test_new_pods_of_one_namespace_do_not_keep_others_from_news() -> None:
    """One creates more pods in each pass than there are Events; another one's pod has another cause in each."""
    passes = Passes(4)
    for number in range(20):
        assert "good/0" in passes.run([*named("evil", 100, 100 * number), "good/0"], f"cause {number}")
