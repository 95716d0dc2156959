"""The moments of a claim's life: how to bring a simulation to each, and a predicate that proves it.

When `reach` has returned, the moment lasts long enough for a user to send a command; a moment without a duration of its
own is held by a `Gate` until `go_on` is called. `proof` checks cluster, cloud and audit log.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Literal

from aiohttp import web

from provisioner.simulator.audit_log import Call
from provisioner.simulator.azure import faults
from provisioner.simulator.azure.settings import AzureSettings

from .harness import Json, Sim
from .main_job import NAME
from .transcript import BUDGETS, claim_condition, deleting, finalizers, node_name, node_of, pool_calls, run_pod

# The Node comes before its pool's end, as it mostly does.
AZURE = AzureSettings(create_seconds=(60.0, 90.0), delete_seconds=(30.0, 60.0), node_share=(0.6, 0.8))
# A dozen seconds or more after it: enough to act on the pool's end, less than it takes to succeed to a dead leader.
NODE_LATE = replace(AZURE, node_share=(1.2, 1.3))
POD, BUDGET = "guarded", "guard"

GoOn = Callable[[], None]


class Gate:
    """Holds the first matching call, on its arrival or after its effect and before its response, until opened."""

    def __init__(self, sim: Sim, fits: Callable[[Call], bool], when: Literal["arrives", "is done"]) -> None:
        self._fits = fits
        self._opened = asyncio.Event()
        self.held: Call | None = None
        if when == "arrives":
            sim.world.before.append(self._on_arrival)
        else:
            sim.world.after.append(self._on_effect)

    def open(self) -> None:
        """Let the held call continue; other calls are not held."""
        self._opened.set()

    async def _on_arrival(self, call: Call, request: web.Request) -> web.StreamResponse | None:
        await request.read()  # it has left its sender whole: what becomes of that one changes nothing
        await self._hold(call)
        return None

    async def _on_effect(self, call: Call, _: web.StreamResponse) -> None:
        await self._hold(call)

    async def _hold(self, call: Call) -> None:
        if self.held is None and self._fits(call):
            self.held = call
            await self._opened.wait()


@dataclass(frozen=True)
class Moment:
    """`reach` starts from a claim that was applied this instant under a living controller.

    `proof` is true at that moment and not at the ones before it.
    """

    name: str
    reach: Callable[[Sim], Awaitable[GoOn]]
    proof: Callable[[Sim], bool]
    azure: AzureSettings = AZURE


def _nothing_is_held() -> None:
    """This moment lasts without a gate."""


async def _gated(sim: Sim, fits: Callable[[Call], bool], when: Literal["arrives", "is done"], within: float) -> GoOn:
    gate = Gate(sim, fits, when)
    await sim.until(lambda: gate.held, within, "the call that is to be held")
    return gate.open


def _claim(sim: Sim) -> Json:
    claim = sim.claim(NAME)
    assert claim is not None
    return claim


def _state(sim: Sim) -> str:
    """The pool's state in ARM; "" without a pool."""
    return sim.cloud.pools[NAME].state if NAME in sim.cloud.pools else ""


def _is_deleting(sim: Sim) -> bool:
    return deleting(_claim(sim)) or any(deleting(node) for node in sim.nodes_of(NAME))


# How each is reached


async def _before_the_put(sim: Sim) -> GoOn:
    """The claim has just got the finalizer, and the controller has not got the response."""
    return await _gated(sim, lambda call: call.verb == "PATCH" and call.target.name == NAME, "is done", 30)


async def _put_in_flight(sim: Sim) -> GoOn:
    """The PUT was sent, and ARM has not processed it."""
    return await _gated(sim, lambda call: (call.verb, call.target.kind) == ("PUT", "pools"), "arrives", 30)


async def _creating(sim: Sim) -> GoOn:
    await sim.until(lambda: claim_condition(sim, "Launched")[1] == "Creating", 30, "the pool is being created")
    return _nothing_is_held


async def _succeeded_without_node(sim: Sim) -> GoOn:
    await sim.until(lambda: sim.condition(NAME, "Launched") == "True", 200, "the pool runs")
    return _nothing_is_held


async def _registered(sim: Sim) -> GoOn:
    await sim.until(lambda: sim.condition(NAME, "Registered") == "True", 200, "the Node is registered")
    return _nothing_is_held


async def _ready(sim: Sim) -> GoOn:
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", 400, "the claim is Ready")
    return _nothing_is_held


async def _not_ready(sim: Sim) -> GoOn:
    await _ready(sim)
    sim.nodes.set_ready(node_name(sim), None)
    await sim.until(lambda: claim_condition(sim, "Initialized")[1] == "NodeNotReady", 10, "the condition is set")
    return _nothing_is_held


async def _draining(sim: Sim) -> GoOn:
    """The claim was deleted, and a disruption budget blocks the eviction of its pod."""
    await _ready(sim)
    run_pod(sim, POD, node_name(sim))
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": POD}}}
    sim.store.create(BUDGETS, {"metadata": {"name": BUDGET}, "spec": spec}, "default")
    await sim.delete_claim(NAME)
    await sim.until(lambda: BUDGET in claim_condition(sim, "Drained")[2], 30, "the claim names the budget")
    return _nothing_is_held


async def _deleting(sim: Sim) -> GoOn:
    """The claim was deleted, and ARM has accepted the DELETE."""
    await _ready(sim)
    await sim.delete_claim(NAME)
    await sim.until(lambda: _state(sim) == "Deleting", 60, "the pool is being deleted")
    return _nothing_is_held


async def _failed(sim: Sim) -> GoOn:
    """The creation has failed and the claim states the cause; the controller has not got the response."""
    sim.cloud.faults.append(faults.capacity(times=1))

    def reported(call: Call) -> bool:
        return call.target.subresource == "status" and sim.condition(NAME, "Launched") == "False"

    return await _gated(sim, reported, "is done", 90)


# What each is

BEFORE_PUT = Moment(
    "before the PUT",
    _before_the_put,
    lambda sim: finalizers(_claim(sim)) != [] and not pool_calls(sim, "PUT") and not _state(sim),
)
PUT_IN_FLIGHT = Moment(
    "PUT in flight",
    _put_in_flight,
    lambda sim: [call.status for call in pool_calls(sim, "PUT")] == [None] and not _state(sim),
)
CREATING = Moment(
    "Creating",
    _creating,
    lambda sim: (
        _state(sim) == "Creating" and claim_condition(sim, "Launched")[1] == "Creating" and not sim.nodes_of(NAME)
    ),
)
SUCCEEDED = Moment(
    "Succeeded without Node",
    _succeeded_without_node,
    lambda sim: _state(sim) == "Succeeded" and not sim.nodes_of(NAME) and not _is_deleting(sim),
    NODE_LATE,
)
REGISTERED = Moment(
    "Registered",
    _registered,
    lambda sim: finalizers(node_of(sim)) != [] and sim.condition(NAME, "Initialized") != "True",
)
READY = Moment(
    "Ready",
    _ready,
    lambda sim: sim.condition(NAME, "Ready") == "True" and not _is_deleting(sim),
)
NOT_READY = Moment(
    "NotReady",
    _not_ready,
    lambda sim: claim_condition(sim, "Initialized")[:2] == ("False", "NodeNotReady") and not _is_deleting(sim),
)
DRAINING = Moment(
    "draining",
    _draining,
    lambda sim: (
        claim_condition(sim, "Drained")[:2] == ("Unknown", "Draining")
        and deleting(node_of(sim))
        and not pool_calls(sim, "DELETE")
    ),
)
DELETING = Moment(
    "Deleting",
    _deleting,
    lambda sim: _state(sim) == "Deleting" and len(pool_calls(sim, "DELETE")) == 1 and deleting(node_of(sim)),
)
FAILED = Moment(
    "Failed",
    _failed,
    lambda sim: (
        _state(sim) == "Failed" and sim.condition(NAME, "Launched") == "False" and not pool_calls(sim, "DELETE")
    ),
)

MOMENTS = (
    BEFORE_PUT,
    PUT_IN_FLIGHT,
    CREATING,
    SUCCEEDED,
    REGISTERED,
    READY,
    NOT_READY,
    DRAINING,
    DELETING,
    FAILED,
)
