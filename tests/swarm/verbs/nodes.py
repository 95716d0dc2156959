"""Faults of machines and their kubelets: a Node that comes late or twice, is not Ready, restarts, or has fewer GPUs."""

import asyncio
from typing import TYPE_CHECKING

from provisioner.simulator.nodes.machine import Machine
from provisioner.simulator.snapshot import condition, pool_mark
from tests.swarm.plan import Event

from .base import verb
from .truth import claim_of, remains, reported

if TYPE_CHECKING:
    from tests.swarm.run import Run

# How often Ready changes while a Node flaps, in seconds.
FLAP_SECONDS = (20.0, 65.0)
# In this time a machine has registered, or is given up.
REGISTERS_SECONDS = 14_400.0
# How often agent pools are looked for that have no machine yet; machines take longer to come.
LOOK_SECONDS = 5.0


def ready(run: "Run", event: Event) -> Machine | None:
    """A machine of ours whose Node is initialized and Ready."""
    ours = {pool.name for pool in run.sim.cloud.pools.values() if pool_mark(pool)}
    found = [one for one in run.sim.nodes.machines.values() if one.pool.name in ours and _is_ready(run, one)]
    machine: Machine | None = run.chosen(event.pick, found)
    return machine


def some_gpus(event: Event, machine: Machine) -> int:
    """How many of its GPUs are concerned: at least one."""
    return 1 + int(event.pick * 1e6) % machine.devices.count


def _is_ready(run: "Run", machine: Machine) -> bool:
    node = run.sim.store.get("nodes", machine.name) or {}
    return machine.answers and condition(node, "Ready") == "True" and "providerID" in node["spec"]


def starting(run: "Run", event: Event) -> str:
    """The agent pool of ours that is created and has no machine yet, "" if there is none."""
    pools = run.sim.cloud.pools.values()
    found = [one.name for one in pools if pool_mark(one) and one.state == "Creating" and not one.machines]
    return run.chosen(event.pick, found) or ""


async def boots(run: "Run", pool: str, until: float) -> bool:
    """Whether a machine of the pool boots until then."""
    while pool in run.sim.cloud.pools and run.sim.now < until:
        if run.sim.cloud.pools[pool].machines:
            return True
        await asyncio.sleep(1.0)
    return False


@verb("node-not-ready")
async def node_not_ready(run: "Run", event: Event) -> None:
    """The kubelet of a machine does not answer while it lasts."""
    machine = ready(run, event)
    if machine:
        run.injected(event)
        run.sim.nodes.set_ready(machine.name, None)
        await run.lasts(event)
        if remains(run, machine):
            run.sim.nodes.set_ready(machine.name, True)


@verb("nodes-not-ready")
async def nodes_not_ready(run: "Run", event: Event) -> None:
    """No kubelet of our machines answers while it lasts: a fault of the network, or of a service that all need."""
    ours = {pool.name for pool in run.sim.cloud.pools.values() if pool_mark(pool)}
    machines = [one for one in run.sim.nodes.machines.values() if one.pool.name in ours and _is_ready(run, one)]
    for machine in machines:
        run.injected(event)
        run.sim.nodes.set_ready(machine.name, None)
    await run.lasts(event)
    for machine in machines:
        if remains(run, machine):
            run.sim.nodes.set_ready(machine.name, True)


@verb("node-flaps")
async def node_flaps(run: "Run", event: Event) -> None:
    """A Node changes between Ready, not ready and unknown while it lasts."""
    machine, until = ready(run, event), run.sim.now + event.seconds
    if not machine:
        return
    run.injected(event)
    least, most = FLAP_SECONDS
    period, words = least + (most - least) * event.pick, (None, True, False, True)
    for number in range(int(event.seconds / period)):
        if not remains(run, machine):
            return
        run.sim.nodes.set_ready(machine.name, words[number % len(words)])
        await asyncio.sleep(period)
    await asyncio.sleep(max(0.0, until - run.sim.now))
    if remains(run, machine):
        run.sim.nodes.set_ready(machine.name, True)


@verb("registers-late")
async def registers_late(run: "Run", event: Event) -> None:
    """The kubelet of a machine that is being created does not register while it lasts, which may be for ever."""
    name = starting(run, event)
    if name:
        run.injected(event)
        run.sim.nodes.never_register(name)
        await run.lasts(event)
        run.sim.nodes.register(name)


@verb("never-ready")
async def never_ready(run: "Run", event: Event) -> None:
    """The Node of a machine that is being created registers and is never Ready; once in a run."""
    name = starting(run, event)
    if name and not run.outcome.happened[event.fault]:
        run.injected(event)
        run.sim.nodes.never_ready(name)


@verb("image-broken")
async def image_broken(run: "Run", event: Event) -> None:
    """The Nodes of all machines that are created while it lasts register and are not Ready; then users correct them."""
    pools, until = set[str](), run.sim.now + event.seconds
    while run.sim.now < until:
        while name := _booting(run, pools):
            run.injected(event)
            pools.add(name)
            run.sim.nodes.never_ready(name)
        await asyncio.sleep(min(LOOK_SECONDS, until - run.sim.now))
    for name in pools:
        run.sim.nodes.image_corrected(name)
    for machine in [one for one in run.sim.nodes.machines.values() if one.pool.name in pools]:
        if remains(run, machine):
            run.sim.nodes.restart_kubelet(machine.name)


def _booting(run: "Run", known: set[str]) -> str:
    """Another agent pool of ours that has no machine yet."""
    pools = [one for one in run.sim.cloud.pools.values() if pool_mark(one) and one.state == "Creating"]
    return next((one.name for one in pools if not one.machines and one.name not in known), "")


@verb("registers-twice")
async def registers_twice(run: "Run", event: Event) -> None:
    """A pool that is being created gets a second machine beside its own, which is gone when it ends."""
    name, until = starting(run, event), run.sim.now + event.seconds
    if not await boots(run, name, until):
        return
    run.injected(event)
    before = run.sim.cloud.pools[name]
    run.sim.cloud.add_machine(name)
    await asyncio.sleep(max(0.0, until - run.sim.now))
    pool = run.sim.cloud.pools.get(name)
    if pool is not None and pool.incarnation == before.incarnation:
        run.sim.cloud.remove_machine(name, before.next_instance)


@verb("reboot")
async def reboot(run: "Run", event: Event) -> None:
    """A machine reboots."""
    machine = ready(run, event)
    if machine:
        run.injected(event)
        run.sim.nodes.reboot(machine.name)


@verb("kubelet-restart")
async def kubelet_restart(run: "Run", event: Event) -> None:
    """A kubelet restarts; its machine goes on."""
    machine = ready(run, event)
    if machine:
        run.injected(event)
        run.sim.nodes.restart_kubelet(machine.name)


@verb("plugin-stops")
async def plugin_stops(run: "Run", event: Event) -> None:
    """The device plugin of a machine stops, and starts again."""
    machine = ready(run, event)
    if machine:
        run.injected(event)
        run.sim.nodes.stop_plugin(machine.name)
        await run.lasts(event)
        if remains(run, machine):
            run.sim.nodes.start_plugin(machine.name)


@verb("gpus-unhealthy")
async def gpus_unhealthy(run: "Run", event: Event) -> None:
    """Devices are unhealthy until the plugin starts again."""
    machine = ready(run, event)
    if machine and machine.devices.healthy:
        run.injected(event)
        run.sim.nodes.set_unhealthy_gpus(machine.name, some_gpus(event, machine))
        await run.lasts(event)
        if remains(run, machine):
            run.sim.nodes.start_plugin(machine.name)


@verb("gpus-lost")
async def gpus_lost(run: "Run", event: Event) -> None:
    """GPUs fall off the bus; a user reboots the machine when it ends."""
    machine = ready(run, event)
    if machine and machine.devices.healthy:
        run.injected(event)
        claim, since = claim_of(run, machine), run.sim.now
        run.sim.nodes.lose_gpus(machine.name, some_gpus(event, machine))
        await run.lasts(event)
        reported(run, machine, claim, since)
        if remains(run, machine):
            run.sim.nodes.reboot(machine.name)


@verb("gpus-fewer")
async def gpus_fewer(run: "Run", event: Event) -> None:
    """The next machine that is created lacks GPUs from its start on, until a user reboots it."""
    name, until = starting(run, event), run.sim.now + event.seconds
    if not await boots(run, name, until):
        return
    machine = next((one for one in run.sim.nodes.machines.values() if one.pool.name == name), None)
    if machine is not None and machine.devices.count:
        run.injected(event)
        run.sim.nodes.lose_gpus(machine.name, some_gpus(event, machine))
        await asyncio.sleep(max(0.0, until - run.sim.now))
        gone = lambda: run.sim.nodes.machines.get(machine.name) is not machine  # noqa: E731 - one expression
        await run.sim.until(lambda: gone() or remains(run, machine), REGISTERS_SECONDS, f"{machine.name} has a Node")
        if not gone():
            run.sim.nodes.reboot(machine.name)
