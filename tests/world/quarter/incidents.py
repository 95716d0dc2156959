"""How each incident of the scenario acts on the simulated machines, Azure and the objects of the cluster."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from provisioner.simulator.azure import faults
from provisioner.simulator.azure.agentpool import Pool
from provisioner.simulator.snapshot import pool_mark
from tests.world.harness import EPOCH, Sim

from .fleet import SERVING, SPOT, STATIC, TRAIN, ZONE_LABEL, ZONES, PluginDaemonSet
from .ledger import Ledger, Machine
from .scenario import MINUTE, Incident, Kind

NODE_CLASSES = "agentpoolnodeclasses.gpu-provisioner.sh"
# A user removes a machine that the controller only reports after so long; a Job on a machine ends after so long.
USER_SECONDS, JOB_SECONDS = 40 * MINUTE, 30 * MINUTE
# A rollout goes on with the next Node after so long.
NEXT_SECONDS = 20.0


class Incidents:
    """`begin(incident)` starts one; it goes on by itself, and `ended` waits for all."""

    def __init__(self, sim: Sim, ledger: Ledger, plugin: PluginDaemonSet) -> None:
        self._sim = sim
        self._ledger = ledger
        self._plugin = plugin
        self._tasks: set[asyncio.Task[None]] = set()
        self._never_registers: list[Incident] = []
        self._changes = 0
        self._acts: dict[Kind, Callable[[Incident], Awaitable[None]]] = {
            "dead": self._dead,
            "gpu-lost": self._gpu_lost,
            "xid-hardware": self._gpu_lost,
            "gpu-partial": self._gpu_partial,
            "never-registers": self._never_registers_next,
            "disk": self._disk,
            "zone-loss": self._zone,
            "zone-briefly": self._zone,
            "spot-wave": self._spot_wave,
            "not-ready-briefly": self._not_ready_briefly,
            "detector": self._detector,
            "detector-everywhere": self._detector,
            "xid-application": self._detector,
            "reboot": self._reboot,
            "kubelet-restart": self._reboot,
            "plugin-rollout": self._plugin_rollout,
            "plugin-broken-release": self._plugin_broken_release,
            "driver-rollout": self._driver_rollout,
            "node-image": self._node_image,
            "node-class": self._node_class,
        }
        sim.cloud.subscribe(self._on_pool)

    def begin(self, incident: Incident) -> None:
        """Start it."""

        async def act() -> None:
            await self._acts[incident.kind](incident)

        task = asyncio.get_running_loop().create_task(act())
        self._tasks.add(task)

    async def ended(self) -> None:
        """Wait until all have ended. Raises what one of them raised."""
        await asyncio.gather(*self._tasks)
        self._tasks.clear()

    # faults

    async def _dead(self, incident: Incident) -> None:
        machine = self._ledger.choose(incident.pick, STATIC, SERVING, TRAIN)
        if machine is not None:
            self._ledger.broken(machine, incident)
            self._sim.nodes.set_ready(machine.node, None)

    async def _gpu_lost(self, incident: Incident) -> None:
        machine = self._ledger.choose(incident.pick, STATIC, SERVING)
        if machine is None:
            return
        self._ledger.broken(machine, incident)
        if incident.kind == "xid-hardware":
            self._sim.nodes.set_condition(machine.node, "XIDErrors", "True", "Xid79", "GPU has fallen off the bus")
        self._sim.nodes.set_unhealthy_gpus(machine.node, 1)
        await self._pods_end(machine)

    async def _gpu_partial(self, incident: Incident) -> None:
        machine = self._ledger.choose(incident.pick, TRAIN)
        if machine is not None:
            self._ledger.broken(machine, incident)
            self._sim.nodes.set_unhealthy_gpus(machine.node, 1)
            await self._pods_end(machine)

    async def _pods_end(self, machine: Machine) -> None:
        """The Job on it ends, as those that use a GPU that is gone do sooner or later."""
        await asyncio.sleep(JOB_SECONDS)
        for one in self._sim.store.list("pods", "default", fields=f"spec.nodeName={machine.node}"):
            if "deletionTimestamp" not in one["metadata"]:
                done = {"status": {"phase": "Succeeded"}}
                self._sim.store.patch("pods", one["metadata"]["name"], done, "default", subresource="status")

    async def _never_registers_next(self, incident: Incident) -> None:
        """A user deletes a machine, and the next one that is bought never registers."""
        machine = self._ledger.choose(incident.pick, STATIC)
        if machine is not None:
            self._never_registers.append(incident)
            await self._sim.delete_claim(machine.claim)

    def _on_pool(self, event: str, pool: Pool) -> None:
        machine = self._ledger.machines.get(pool_mark(pool))
        if not self._never_registers or machine is None or event == "gone" or machine.node_pool != STATIC:
            return
        if machine.fault is None and not machine.booted and not pool.machines:
            self._sim.nodes.never_register(pool.name)
            # The row counts from the machine's start, which takes as long as Azure needs.
            self._ledger.broken(machine, self._never_registers.pop(), after=330.0)

    async def _disk(self, incident: Incident) -> None:
        """The default only cordons and reports; a user deletes the machine later."""
        machine = self._ledger.choose(incident.pick, STATIC, SERVING)
        if machine is None:
            return
        self._ledger.broken(machine, incident)
        self._sim.nodes.set_condition(machine.node, "ReadonlyFilesystem", "True", "FilesystemIsReadOnly", "remounted")
        await asyncio.sleep(USER_SECONDS)
        if not machine.deleting:
            await self._sim.delete_claim(machine.claim)

    # several at once

    async def _zone(self, incident: Incident) -> None:
        """Its machines are away. If that lasts long they are lost, as nothing can be had there meanwhile."""
        zone = ZONES[int(incident.pick * len(ZONES))]
        found = [one for one in self._ledger.sound(SERVING) if self._zone_of(one).endswith(f"-{zone}")]
        self._ledger.met(incident.kind, found)
        lost = incident.kind == "zone-loss"
        shortage = faults.capacity("ZonalAllocationFailed", zone=zone)
        if lost:
            self._sim.cloud.faults.append(shortage)
        for one in found:
            one.outages += lost
            one.alarm = "" if lost else incident.kind
            self._sim.nodes.set_ready(one.node, None)
        await asyncio.sleep(incident.seconds)
        if lost:
            self._sim.cloud.faults.remove(shortage)
        for one in found:
            self._answer(one)
        await asyncio.sleep(MINUTE)
        for one in found:
            one.outages, one.alarm = 0, ""

    def _zone_of(self, machine: Machine) -> str:
        node = self._sim.store.get("nodes", machine.node) or {"metadata": {}}
        return (node["metadata"].get("labels") or {}).get(ZONE_LABEL, "")

    async def _spot_wave(self, incident: Incident) -> None:
        """Azure takes half of the spot machines, and has none for a while."""
        found = self._ledger.sound(SPOT)
        self._ledger.met(incident.kind, found)
        shortage = faults.capacity(priority="Spot")
        self._sim.cloud.faults.append(shortage)
        for one in found[: (len(found) + 1) // 2]:
            one.evicted = True
            self._sim.cloud.evict(one.pool)
            await asyncio.sleep(5.0)
        await asyncio.sleep(incident.seconds)
        self._sim.cloud.faults.remove(shortage)

    # alarms about machines that work

    async def _not_ready_briefly(self, incident: Incident) -> None:
        machine = self._alarmed(incident)
        if machine is not None:
            self._sim.nodes.set_ready(machine.node, None)
            await asyncio.sleep(incident.seconds)
            self._answer(machine)
            machine.alarm = ""

    async def _detector(self, incident: Incident) -> None:
        """A node problem detector is wrong about one Node, or, in a bad release, about all."""
        everywhere = incident.kind == "detector-everywhere"
        one = None if everywhere else self._alarmed(incident)
        found = self._ledger.sound() if everywhere else [one] if one is not None else []
        kind = incident.condition or "XIDErrors"
        if everywhere:
            self._ledger.met(incident.kind, found)
        for machine in found:
            machine.alarm = incident.kind
            self._report(machine, kind, "True")
        await asyncio.sleep(incident.seconds)
        for machine in found:
            self._report(machine, kind, "False")
        await asyncio.sleep(MINUTE)
        for machine in found:
            machine.alarm = ""

    async def _reboot(self, incident: Incident) -> None:
        machine = self._alarmed(incident, STATIC)
        if machine is not None:
            act = self._sim.nodes.reboot if incident.kind == "reboot" else self._sim.nodes.restart_kubelet
            act(machine.node)
            await asyncio.sleep(10 * MINUTE)
            machine.alarm = ""

    async def _plugin_rollout(self, incident: Incident) -> None:
        """A new version of the device plugin, on some Nodes after the others (`maxUnavailable` 5 %)."""
        found = self._ledger.sound()
        self._ledger.met(incident.kind, found)
        group = max(1, len(found) // 20)
        self._plugin.release()
        for first in range(0, len(found), group):
            self._plugin.report(len(found), first, len(found) - group)
            batch = [one for one in found[first : first + group] if self._runs(one) and not one.fault]
            for machine in batch:
                machine.alarm = incident.kind
            await asyncio.gather(*(self._without_plugin(one, incident.seconds, "ContainerCreating") for one in batch))
            for machine in batch:
                machine.alarm = ""
        self._plugin.report(len(found), len(found), len(found))

    async def _plugin_broken_release(self, incident: Incident) -> None:
        """The new version crashes on the first Nodes that it reaches, until a user returns to the old one."""
        found = self._ledger.sound()
        self._ledger.met(incident.kind, found)
        reached = found[: max(2, len(found) // 10)]
        self._plugin.release()
        for number, machine in enumerate(reached):
            machine.alarm = incident.kind
            self._plugin.report(len(found), number + 1, len(found) - number - 1)
            self._plugin.restart_pod(machine.node)
            await asyncio.sleep(5.0)
            self._plugin.wait(machine.node, "CrashLoopBackOff", 5)
            self._sim.nodes.stop_plugin(machine.node)
            await asyncio.sleep(NEXT_SECONDS)
        await asyncio.sleep(incident.seconds)
        self._plugin.release()
        for number, machine in enumerate(reached):
            self._plugin.report(len(found), len(found) - len(reached) + number + 1, len(found) - len(reached) + number)
            if self._runs(machine):
                self._plugin.run(machine.node)
                self._sim.nodes.start_plugin(machine.node)
        self._plugin.report(len(found), len(found), len(found))
        await asyncio.sleep(MINUTE)
        for machine in reached:
            machine.alarm = ""

    async def _driver_rollout(self, incident: Incident) -> None:
        """A new driver: its controller cordons a Node, ends the plugin, and lets it run again after the build."""
        found = self._ledger.sound(STATIC)
        self._ledger.met(incident.kind, found)
        for machine in found[: max(2, len(found) // 20)]:
            if self._runs(machine) and not machine.fault:
                machine.alarm = incident.kind
                self._cordon(machine, on=True)
                await self._without_plugin(machine, incident.seconds, "PodInitializing")
                if self._runs(machine):
                    self._cordon(machine, on=False)
                machine.alarm = ""

    async def _without_plugin(self, machine: Machine, seconds: float, reason: str) -> None:
        self._plugin.restart_pod(machine.node)
        self._sim.nodes.stop_plugin(machine.node)
        await asyncio.sleep(5.0)
        if self._runs(machine):
            self._plugin.wait(machine.node, reason)
        await asyncio.sleep(seconds)
        if self._runs(machine):
            self._plugin.run(machine.node)
            self._sim.nodes.start_plugin(machine.node)
        await asyncio.sleep(NEXT_SECONDS)

    # what users and Azure change

    async def _node_image(self, incident: Incident) -> None:
        self._ledger.met(incident.kind, self._ledger.sound())
        self._sim.cloud.release_node_image(f"{EPOCH + timedelta(days=300, seconds=self._sim.now):%Y%m.%d.0}")

    async def _node_class(self, incident: Incident) -> None:
        self._ledger.met(incident.kind, self._ledger.sound())
        self._changes += 1
        self._ledger.class_changed = self._sim.now
        self._sim.store.patch(NODE_CLASSES, "default", {"spec": {"tags": {"change": str(self._changes)}}})

    # helpers

    def _alarmed(self, incident: Incident, *node_pools: str) -> Machine | None:
        machine = self._ledger.choose(incident.pick, *node_pools)
        if machine is not None:
            machine.alarm = incident.kind
            self._ledger.met(incident.kind, (machine,))
        return machine

    def _runs(self, machine: Machine) -> bool:
        """Whether its Node exists and its machine runs: voluntary commands go on during alarms."""
        return machine.node in self._sim.nodes.machines and self._sim.store.get("nodes", machine.node) is not None

    def _answer(self, machine: Machine) -> None:
        if self._runs(machine):
            self._sim.nodes.set_ready(machine.node, True)

    def _report(self, machine: Machine, kind: str, status: str) -> None:
        if self._runs(machine):
            self._sim.nodes.set_condition(machine.node, kind, status, "Found", "found by an agent")

    def _cordon(self, machine: Machine, *, on: bool) -> None:
        self._sim.store.patch("nodes", machine.node, {"spec": {"unschedulable": on or None}})
