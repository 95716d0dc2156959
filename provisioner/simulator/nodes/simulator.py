"""Machines and their Nodes: kubelet, cloud node manager, node controller and device plugin of the simulated cluster.

Each machine of a pool (`Pool.machines`) gets the Node that AKS would create, with a name and providerID that depend
only on cluster, pool and instance. It is initialized, becomes Ready and shows its GPUs after delays. The Node of a
deleted machine becomes Unknown after 40 s and is then deleted; finalizers delay that. A deleted Node of a running
machine is not created again (unless `reregister`). There are no heartbeats: a Node is written only when it changes.

Source: docs/references/agent-pools.md#names-and-ids, docs/references/agent-pools.md#labels-and-taints,
docs/references/kubernetes.md#node-lifecycle, docs/references/kubernetes.md#extended-resources-and-the-device-manager.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from random import Random  # noqa: TID251 - the type only
from typing import Any

from provisioner.simulator.azure import bodies
from provisioner.simulator.azure.agentpool import Pool
from provisioner.simulator.azure.cloud import AzureCloud
from provisioner.simulator.azure.pool_store import Kind
from provisioner.simulator.kube.store import Store
from provisioner.simulator.scheduler import Scheduler

from .daemon_sets import DaemonSets
from .device_plugin import Devices, devices_of
from .kubelet import Kubelets
from .machine import Machine, NodeSettings
from .node_status import NodeWriter
from .pod_lifecycle import PodLifecycle
from .taint_eviction import TaintEviction

AT_ONCE = (0.0, 0.0)
# Azure announces an eviction so long before, and the node problem detector reports it with these reasons.
NOTICE_SECONDS = 30.0
EVICTION_CONDITIONS = (("VMEventScheduled", "VMEventScheduled"), ("PreemptionScheduled", "SpotEvictionIncoming"))


class NodeSimulator:
    """`run()` must be running. The controls take Node names and act at once; KeyError for a Node without a machine.

    What they do to a device plugin is on the Node with the next update of its status.
    """

    def __init__(
        self, store: Store, cloud: AzureCloud, settings: NodeSettings, rng: Random, now: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._cloud = cloud
        self._settings = settings
        self._scheduler = Scheduler(cloud.settings.speed)
        self._now = now
        self._writer = NodeWriter(store, now)
        self._pods = PodLifecycle(
            store,
            self._scheduler,
            self._answering,
            lambda node: self.machines[node].devices,
            now,
            start_seconds=settings.pod_start_seconds,
            stop_seconds=settings.pod_stop_seconds,
            orphan_seconds=settings.orphan_pod_seconds,
        )
        self._kubelets = Kubelets(
            store,
            cloud.settings,
            settings,
            scheduler=self._scheduler,
            writer=self._writer,
            rng=rng,
            on_ready=self._pods.kubelet_ready,
            on_reboot=self._pods.rebooted,
        )
        DaemonSets(store, self._scheduler)
        if settings.taint_evictions:
            TaintEviction(store, self._scheduler)
        self._never_register: list[str] = []
        self._two_nodes: list[str] = []
        cloud.subscribe(self._on_pool)
        store.subscribe(self._on_object)

    async def run(self) -> None:
        """Run the timers of the machines, until cancelled."""
        await self._scheduler.run()

    @property
    def machines(self) -> dict[str, Machine]:
        """The running machines, by Node name."""
        return self._kubelets.machines

    # controls

    @property
    def plugin_delay_seconds(self) -> float | None:
        """The delay of device plugins after Ready; None: `settings.gpu_seconds`."""
        return self._kubelets.plugin_delay_seconds

    @plugin_delay_seconds.setter
    def plugin_delay_seconds(self, seconds: float | None) -> None:
        self._kubelets.plugin_delay_seconds = seconds

    def never_register(self, pool: str) -> None:
        """Future machines of this pool boot, but their kubelets never register."""
        self._never_register.append(pool)

    def register(self, pool: str) -> None:
        """The machines of this pool that never registered do it now, and future ones as others."""
        self._never_register = [name for name in self._never_register if name != pool]
        for machine in self.machines.values():
            if machine.pool.name == pool and not machine.answers and self._store.get("nodes", machine.name) is None:
                self._kubelets.register_after(machine, AT_ONCE)

    def never_ready(self, pool: str) -> None:
        """The Nodes of this pool register and do not become Ready."""
        self._kubelets.never_ready.add(pool)

    def image_corrected(self, pool: str) -> None:
        """The Nodes of this pool become Ready once their kubelets have restarted."""
        self._kubelets.never_ready.discard(pool)

    def two_nodes(self, pool: str) -> None:
        """The next machine of this pool is created with a second one."""
        self._two_nodes.append(pool)

    def set_ready(self, node: str, ready: bool | None, reason: str = "") -> None:
        """Set the Ready condition; None: the kubelet stopped posting status (Unknown)."""
        machine = self.machines[node]
        machine.answers = ready is not None
        self._writer.ready(node, ready, reason)
        if machine.answers:
            self._kubelets.sync(machine)
            self._pods.kubelet_ready(node)

    def set_condition(self, node: str, kind: str, word: str, reason: str = "", message: str = "") -> None:
        """Set a condition, as a node problem detector does; `word`: True, False or Unknown."""
        self._writer.condition(node, kind, word, reason, message)

    def announce_eviction(self, node: str, *, evicted: bool = True) -> None:
        """Azure announces the eviction of a spot VM, as AKS's node problem detector reports it, and evicts it then.

        `evicted`: whether it does; otherwise the VM is kept, and the conditions end.
        """
        at, machine = self._now() + timedelta(seconds=NOTICE_SECONDS), self.machines[node]
        when = at.strftime("%a, %d %b %Y %H:%M:%S GMT")
        message = f"Preempt Scheduled: {when}. For more information, see https://aka.ms/aks-spot-eviction. EventId: A1"
        for kind, reason in EVICTION_CONDITIONS:
            self._writer.condition(node, kind, "True", reason, message)
        after = partial(self._evict, machine) if evicted else partial(self._keep, node)
        self._scheduler.after(NOTICE_SECONDS, after)

    def set_gpus(self, node: str, count: int, *, unhealthy: int = 0) -> None:
        """The device plugin advertises this many devices, and the Node shows them at once."""
        machine = self.machines[node]
        machine.plugin = "running"
        resource = machine.devices.resource or "nvidia.com/gpu"
        devices = Devices(resource=resource, count=count, unhealthy=unhealthy, state="serving")
        self._kubelets.report_at_once(machine, devices)

    def set_unhealthy_gpus(self, node: str, count: int) -> None:
        """So many devices are unhealthy until the plugin starts again: allocatable decreases, capacity does not."""
        machine = self.machines[node]
        self._kubelets.report(machine, machine.devices.failed(count))

    def lose_gpus(self, node: str, count: int) -> None:
        """So many GPUs fall off the bus, and are back after a reboot."""
        self._kubelets.lose_gpus(self.machines[node], count)

    def stop_plugin(self, node: str) -> None:
        """The device plugin stops: allocatable is 0, and capacity 0 after five minutes; a reboot starts it again."""
        self._kubelets.stop_plugin(self.machines[node], for_good=False)

    def kill_plugin(self, node: str) -> None:
        """The device plugin stops for good: only `start_plugin` starts it again."""
        self._kubelets.stop_plugin(self.machines[node], for_good=True)

    def start_plugin(self, node: str) -> None:
        """The device plugin starts and registers, with all devices healthy."""
        self._kubelets.start_plugin(self.machines[node])

    def restart_kubelet(self, node: str) -> None:
        """The kubelet restarts; the devices are 0 until the plugin, if it runs, has registered again."""
        self._kubelets.restart(self.machines[node])

    def reboot(self, node: str) -> None:
        """The machine reboots; its Node may become Unknown meanwhile."""
        self._kubelets.reboot(self.machines[node])

    # changes of pools and objects

    def _on_pool(self, kind: Kind, pool: Pool) -> None:
        present = () if kind == "gone" else pool.machines
        for machine in list(self.machines.values()):
            same_pool = (machine.pool.name, machine.pool.incarnation) == (pool.name, pool.incarnation)
            if same_pool and machine.instance not in present:
                self._power_off(machine)
        for instance in present:
            name = bodies.node_name(self._cloud.settings, pool.name, instance)
            if name not in self.machines:
                self._power_on(name, pool, instance)

    def _on_object(self, kind: str, resource: str, obj: dict[str, Any], before: dict[str, Any] | None) -> None:
        if resource == "pods" and kind != "DELETED":
            self._pods.updated(obj)
        elif resource == "nodes" and kind == "DELETED":
            name = obj["metadata"]["name"]
            self._pods.node_gone(name)
            if self._settings.reregister and name in self.machines:
                self._kubelets.register_after(self.machines[name], self._settings.status_seconds)

    # power

    def _evict(self, machine: Machine) -> None:
        if self.machines.get(machine.name) is machine:
            self._cloud.evict(machine.pool.name)

    def _keep(self, node: str) -> None:
        for kind, _ in EVICTION_CONDITIONS:
            self._writer.condition(node, kind, "False", f"No{kind}", "VM has no scheduled event")

    def _answering(self, node: str) -> bool:
        machine = self.machines.get(node)
        return machine is not None and machine.answers

    def _power_on(self, name: str, pool: Pool, instance: int) -> None:
        boot_id = self._kubelets.boot_id()
        devices = devices_of(pool, self._cloud.settings.rtx_pro_fraction_gpus)
        machine = Machine(name=name, pool=pool, instance=instance, devices=devices, boot_id=boot_id)
        self.machines[name] = machine
        if pool.name not in self._never_register:
            self._kubelets.register_after(machine, AT_ONCE)
        if pool.name in self._two_nodes:
            self._two_nodes.remove(pool.name)
            self._scheduler.after(0.0, partial(self._add_second, pool))

    def _add_second(self, pool: Pool) -> None:
        if pool.name in self._cloud.pools:
            self._cloud.add_machine(pool.name)

    def _power_off(self, machine: Machine) -> None:
        del self.machines[machine.name]
        machine.answers = False
        self._scheduler.after(self._settings.unresponsive_seconds, partial(self._notice, machine.name))

    def _notice(self, name: str) -> None:
        """The node controller sets Unknown; then the cloud node manager finds that Azure has no such machine."""
        if name not in self.machines:
            self._writer.ready(name, None)
            self._scheduler.after(self._settings.node_manager_seconds, partial(self._collect, name))

    def _collect(self, name: str) -> None:
        node = self._store.get("nodes", name)
        if name not in self.machines and node is not None and "deletionTimestamp" not in node["metadata"]:
            self._store.delete("nodes", name)
