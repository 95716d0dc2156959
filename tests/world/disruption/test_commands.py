"""Each disruption command has an ID on every object that it marks: none is judged or undone by what is left of another.

A command that is undone leaves no mark, and a replacement that stays is an ordinary machine.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from provisioner.simulator.audit_log import Call
from provisioner.simulator.azure import faults
from provisioner.simulator.azure.faults import Fault
from tests.world.demand import T4, claims_of, node_class, node_pool
from tests.world.harness import Json, Sim, simulate, simulated
from tests.world.transcript import refuse

from .common import (
    CLAIMS,
    POOLS,
    T4_64,
    allow,
    annotated,
    drift,
    dynamic,
    fleet,
    live,
    marks,
    passes,
    ready,
    replica,
    running,
    sizes,
    stated,
    static,
    tainted,
)

pytestmark = pytest.mark.matrix(quick=1)


async def one_of_three(sim: Sim, **disruption: str) -> Fault:
    """Three pods on one machine, which three smaller ones are to replace: only one can be bought."""
    await sim.apply(node_class())
    budgets = {"budgets": [{"nodes": "100%"}], **disruption}
    await sim.apply(node_pool(requirements=sizes(T4_64), disruption=budgets))
    await sim.start_controller()
    for name in ("a", "b", "c"):
        replica(sim, name)
    await sim.until(lambda: running(sim) == 3 and len(ready(sim)) == 1, 1800.0, "the pods run on one machine")
    fault = faults.capacity(size=T4)
    fault.skip = 1
    sim.cloud.faults.append(fault)
    allow(sim, T4)
    await sim.until(lambda: len(live(sim)) == 4 and tainted(sim), 120.0, "three replacements")
    await sim.until(lambda: len(ready(sim)) == 2, 1800.0, "one of them is Initialized")
    await sim.until(lambda: len(live(sim)) == 2 and not marks(sim), 1800.0, "the command is undone")
    return fault


@simulated()
async def test_a_replacement_that_stays_is_an_ordinary_machine(sim: Sim) -> None:
    """The drift is reverted, and no pod uses the replacement that was bought: it is removed as empty."""
    await one_of_three(sim, consolidateAfter="30s", consolidationPolicy="WhenEmpty")
    allow(sim, T4_64, T4)
    await sim.until(lambda: live(sim) == ["gpu-1"], 600.0, "the empty machine is removed")
    assert running(sim) == 3


@simulated()
async def test_the_number_of_replacements_of_an_undone_command(sim: Sim) -> None:
    """A pod uses the machine that stayed; later one replacement is enough, and is not compared with the three."""
    fault = await one_of_three(sim, consolidateAfter="Never")
    replica(sim, "d", nodeSelector={"node.kubernetes.io/instance-type": T4})
    await sim.until(lambda: running(sim) == 4, 300.0, "another pod uses the machine that stayed")
    sim.cloud.faults.remove(fault)
    for name in ("b", "c"):
        sim.store.delete("pods", name, "default")
    await sim.until(lambda: "gpu-1" not in live(sim), 4 * 3600.0, "it is replaced")


@simulated()
async def test_a_replacement_that_is_still_being_deleted(sim: Sim) -> None:
    """The agent pool of the undone command takes an hour to go; the next command does not wait for it."""
    await static(sim, 1, "2")
    fault = faults.capacity()
    sim.cloud.faults += [fault, Fault(verb="DELETE", operation_seconds=3600.0, times=1, skip=1)]
    drift(sim, "gpu-1")
    await sim.until(lambda: len(claims_of(sim)) == 2, 60.0, "a replacement is created")
    await sim.until(lambda: live(sim) == ["gpu-1"] and not marks(sim), 1800.0, "the command is undone")
    sim.cloud.faults.remove(fault)
    await sim.until(lambda: "gpu-1" not in live(sim), 1800.0, "it is replaced")


def rack(sim: Sim, claim: Json) -> None:
    node = sim.store.get("nodes", claim["status"]["nodeName"])
    taints = [*node["spec"].get("taints", []), {"key": "example.com/rack", "effect": "PreferNoSchedule"}]
    sim.store.patch("nodes", node["metadata"]["name"], {"spec": {"taints": taints}})


def note(sim: Sim, claim: Json) -> None:
    sim.store.patch(CLAIMS, claim["metadata"]["name"], {"metadata": {"annotations": {"example.com/note": "x"}}})


@pytest.mark.parametrize("when", [annotated, stated])
@pytest.mark.parametrize("change", [rack, note])
def test_a_conflict_of_writes_is_repeated_at_once(change: Callable[..., None], when: Callable[[Json], bool]) -> None:
    """Somebody writes to the Node or the NodeClaim between two marks."""

    async def story(sim: Sim) -> None:
        await dynamic(sim, "serving")
        touched = list[str]()

        def touch(_: str, resource: str, obj: Json, __: Json | None) -> None:
            if resource == CLAIMS and not touched and when(obj):
                touched.append(obj["metadata"]["name"])
                change(sim, obj)

        sim.store.subscribe(touch)
        drift(sim, "gpu-1")
        await sim.until(lambda: len(claims_of(sim)) == 2 and tainted(sim), 60.0, "the replacement")
        assert touched == ["gpu-1"]
        await sim.until(lambda: live(sim) == ["gpu-2"] and ready(sim) == ["gpu-2"], 1800.0, "it is replaced")

    simulate(story)


Moment = Callable[[Sim, Callable[[], None]], None]


def change(resource: str, fits: Callable[[Json], bool]) -> Moment:
    """At a change of such an object."""

    def at(sim: Sim, act: Callable[[], None]) -> None:
        sim.store.subscribe(lambda _, kind, obj, __: act() if kind == resource and fits(obj) else None)

    return at


def request(verb: str, kind: str) -> Moment:
    """On the arrival of such a request of the controller, once the NodeClaim has the condition."""

    def at(sim: Sim, act: Callable[[], None]) -> None:
        async def look(call: Call, _: object) -> None:
            if (call.who, call.verb, call.target.kind) == ("ctl0", verb, kind) and stated(sim.claim("gpu-1") or {}):
                act()

        sim.world.before.append(look)

    return at


def on_node(node: Json) -> bool:
    return any(taint["key"] == "karpenter.sh/disrupted" for taint in node.get("spec", {}).get("taints", ()))


def annotate(sim: Sim, key: str, value: str | None) -> None:
    """`kubectl annotate nodeclaim gpu-1`."""
    sim.store.patch(CLAIMS, "gpu-1", {"metadata": {"annotations": {key: value}}})


MOMENTS = {
    "the ID is written": (change(CLAIMS, annotated), 0),
    "the condition is written": (change(CLAIMS, stated), 0),
    "the Node is tainted": (change("nodes", on_node), 0),
    "its pods are listed": (request("LIST", "pods"), 0),
    "the replacement is being created": (request("POST", "nodeclaims"), 1),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_user_removes_the_id_of_a_command(moment: str) -> None:
    """Nothing is bought. While the purchase is under way, the machine that comes has no mark either. A later command
    replaces the old one.
    """

    async def story(sim: Sim) -> None:
        await dynamic(sim, "serving")
        at, bought = MOMENTS[moment]
        removed, made = list[str](), set[str]()

        def remove() -> None:
            found = (sim.claim("gpu-1") or {})["metadata"]["annotations"].get("gpu-provisioner.sh/disruption-command")
            if found and not removed:
                removed.append(found)
                annotate(sim, "gpu-provisioner.sh/disruption-command", None)

        def look(_: str, resource: str, obj: Json, __: Json | None) -> None:
            notes = obj["metadata"].get("annotations") or {}
            if resource == CLAIMS and removed and notes.get("gpu-provisioner.sh/replacement-command") == removed[0]:
                made.add(obj["metadata"]["name"])

        at(sim, remove)
        sim.store.subscribe(look)
        drift(sim, "gpu-1")
        await sim.until(lambda: removed, 60.0, "the ID is removed")
        await passes(sim, 60.0)
        assert len(made) == bought
        left = [sim.store.get(CLAIMS, name) or {} for name in made]
        assert not any("replaces" in key for one in left for key in one.get("metadata", {}).get("annotations", {}))
        await sim.until(lambda: "gpu-1" not in live(sim) and len(ready(sim)) == 1, 3 * 3600.0, "it is replaced")
        await sim.until(lambda: not tainted(sim), 600.0, "no Node is tainted")

    simulate(story)


@simulated()
async def test_a_user_protects_a_machine_before_its_replacement_is_bought(sim: Sim) -> None:
    """After the last mark: nothing is bought, and the Node takes pods again."""
    await dynamic(sim, "serving")
    protected = list[str]()

    def protect() -> None:
        if not protected:
            protected.append("gpu-1")
            annotate(sim, "karpenter.sh/do-not-disrupt", "true")

    change("nodes", on_node)(sim, protect)
    drift(sim, "gpu-1")
    await sim.until(lambda: protected, 60.0, "it is protected")
    await passes(sim, 1800.0)
    assert len(sim.audit_log.calls(verb="POST", kind="nodeclaims")) == 1
    assert not marks(sim)


@pytest.mark.parametrize("kind", ["nodes", "nodeclaims"])
def test_an_undo_that_is_refused_is_not_repeated_each_second(kind: str) -> None:
    """An admission policy protects the taints of Nodes, or the NodeClaim; the user reads it in an Event."""

    async def story(sim: Sim) -> None:
        await static(sim, 1)
        sim.cloud.faults.append(faults.capacity())
        drift(sim, "gpu-1")
        await sim.until(lambda: len(claims_of(sim)) == 2 and tainted(sim), 60.0, "a replacement is created")

        def fits(call: Call) -> bool:
            return call.verb == "PATCH" and call.target.kind == kind and call.target.name in ("gpu-1", *tainted(sim))

        allow_again = refuse(sim, fits, 403, "Forbidden", "admission policy: this object is protected")
        await sim.until(lambda: live(sim) == ["gpu-1"], 1800.0, "the command is to be undone")
        await passes(sim, 60.0)
        before = len([*sim.audit_log.calls(verb="PATCH", kind=kind)])
        await passes(sim, 3600.0)
        assert len([*sim.audit_log.calls(verb="PATCH", kind=kind)]) - before <= 30
        events = sim.store.list("events", fields="involvedObject.name=gpu-1,reason=DisruptionBlocked")
        assert any("admission policy: this object is protected" in one["message"] for one in events)
        allow_again()
        await sim.until(lambda: not marks(sim), 660.0, "the marks are removed")

    simulate(story)


@simulated()
async def test_a_machine_that_must_not_be_marked_costs_no_replacement(sim: Sim) -> None:
    """An admission policy protects its NodeClaim: it is not tried each second."""
    await dynamic(sim, "serving")

    def fits(call: Call) -> bool:
        return call.verb == "PATCH" and call.target.name == "gpu-1" and call.target.kind == "nodeclaims"

    drift(sim, "gpu-1")
    refuse(sim, fits, 403, "Forbidden", "admission policy: this object is protected")
    await passes(sim, 60.0)
    before = len([*sim.audit_log.calls(verb="PATCH", kind="nodeclaims")])
    await passes(sim, 3600.0)
    assert live(sim) == ["gpu-1"]
    assert len([*sim.audit_log.calls(verb="PATCH", kind="nodeclaims")]) - before <= 30


@simulated()
async def test_a_saving_that_must_not_be_marked_is_not_tried_again_at_once(sim: Sim) -> None:
    """An admission policy protects the annotations of the NodeClaim that a cheaper machine could replace."""
    await fleet(sim, T4_64, web=1)
    tries = list[float]()

    def fits(call: Call) -> bool:
        found = call.verb == "PATCH" and call.target.name == "gpu-1" and not call.target.subresource
        tries.extend([sim.now] if found else [])
        return found

    refuse(sim, fits, 403, "Forbidden", "admission policy: this object is protected")
    allow(sim, T4_64, T4)
    await passes(sim, 3600.0)
    assert live(sim) == ["gpu-1"]
    assert 1 <= len(tries) <= 5


@pytest.mark.parametrize("hours", [2, -2])
def test_a_clock_that_is_set_ends_no_replacement(hours: int) -> None:
    """A minute after the replacement was created, and before the next one is."""

    async def story(sim: Sim) -> None:
        await static(sim, 2)
        drift(sim, "gpu-1", "gpu-2")
        await sim.until(lambda: len(claims_of(sim)) == 3, 60.0, "a replacement is created")
        await passes(sim, 60.0)
        sim.controllers["ctl0"].clock.offset = timedelta(hours=hours)
        await sim.until(lambda: ready(sim) == ["gpu-3", "gpu-4"] and len(claims_of(sim)) == 2, 3600.0, "both")

    simulate(story)


@simulated()
async def test_a_taint_of_a_user_outlives_an_undo(sim: Sim) -> None:
    """The Node had it before the command."""
    await static(sim, 1)
    node = sim.store.get("nodes", claims_of(sim)[0]["status"]["nodeName"])
    taints = [*node["spec"].get("taints", ()), {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]
    sim.store.patch("nodes", node["metadata"]["name"], {"spec": {"taints": taints}})
    sim.cloud.faults.append(faults.capacity())
    drift(sim, "gpu-1")
    await sim.until(lambda: len(live(sim)) == 2, 60.0, "a replacement is created")
    await sim.until(lambda: len(live(sim)) == 1, 1800.0, "the command is undone")
    await sim.until(lambda: marks(sim) == tainted(sim), 30.0, "its marks are removed")
    assert tainted(sim) == [node["metadata"]["name"]]


async def without_node_pool(sim: Sim) -> None:
    """`kubectl delete nodepool gpu --cascade=orphan`."""
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Orphan"}
    await sim.request("DELETE", "/apis/karpenter.sh/v1/nodepools/gpu", options)
    await sim.until(lambda: sim.store.get(POOLS, "gpu") is None, 60.0, "the NodePool is gone")


async def without_node_pool_beside_another(sim: Sim) -> None:
    """The controllers of NodePools go on, because another one exists."""
    await sim.apply(node_pool("other"))
    await without_node_pool(sim)


async def disabled(sim: Sim) -> None:
    """`--node-pools=false`."""
    await sim.stop_controller()
    await sim.start_controller("ctl1", node_pools=False)


async def deleted_while_stopped(sim: Sim) -> None:
    """The next process has never seen the NodePool."""
    await sim.stop_controller()
    await without_node_pool(sim)
    await sim.start_controller("ctl1")


@pytest.mark.parametrize(
    "abandon", [without_node_pool, without_node_pool_beside_another, disabled, deleted_while_stopped]
)
def test_the_marks_of_an_abandoned_command_are_removed(abandon: Callable[[Sim], Awaitable[None]]) -> None:
    """While a replacement boots: both machines stay, and take pods."""

    async def story(sim: Sim) -> None:
        await dynamic(sim, "serving")
        drift(sim, "gpu-1")
        await sim.until(lambda: len(claims_of(sim)) == 2 and tainted(sim), 60.0, "the replacement is created")
        await abandon(sim)
        await sim.until(lambda: not marks(sim), 120.0, "the marks are removed")
        await passes(sim, 3600.0)
        assert live(sim) == ["gpu-1", "gpu-2"]
        assert not tainted(sim)

    simulate(story)
