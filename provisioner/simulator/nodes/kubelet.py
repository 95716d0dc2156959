"""The kubelets, with their device plugins, and the cloud node manager's part of each Node.

A kubelet creates its Node once. An existing Node of that name, deleting or not, is reused: it keeps its labels and
taints; only the default labels are refreshed and extended resources set to 0. Changed devices reach the Node with the
next update of its status, which is at once when its conditions change. Every timer checks that the machine still runs;
those of the kubelet also that it was not restarted since.

Source: docs/references/kubernetes.md#node-lifecycle,
docs/references/kubernetes.md#extended-resources-and-the-device-manager.
"""

import uuid
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random  # noqa: TID251 - the type only

from provisioner.api import labels
from provisioner.simulator.azure.settings import AzureSettings, Range
from provisioner.simulator.kube.store import Store
from provisioner.simulator.scheduler import Scheduler

from . import node_objects as objects
from .device_plugin import Devices
from .dra_driver import DraDrivers
from .machine import Machine, NodeSettings
from .node_status import NodeWriter


class Kubelets:
    """All kubelets. `machines`: the running ones, by Node name; `on_ready(node)` is called when a kubelet is Ready
    again, `on_reboot(node)` when it has started after a reboot.

    `plugin_delay_seconds`: the delay of device plugins, if set, instead of `settings.gpu_seconds`. `never_ready`: the
    agent pools whose Nodes register and do not become Ready.
    """

    def __init__(
        self,
        store: Store,
        azure: AzureSettings,
        settings: NodeSettings,
        *,
        scheduler: Scheduler,
        writer: NodeWriter,
        rng: Random,
        on_ready: Callable[[str], None],
        on_reboot: Callable[[str], None],
    ) -> None:
        self.machines: dict[str, Machine] = {}
        self.plugin_delay_seconds: float | None = None
        self.never_ready: set[str] = set()
        self._store = store
        self._azure = azure
        self._settings = settings
        self._scheduler = scheduler
        self._writer = writer
        self._rng = rng
        self._on_ready = on_ready
        self._on_reboot = on_reboot
        self._drivers = DraDrivers(store, settings, scheduler)

    def boot_id(self) -> str:
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))

    def register_after(self, machine: Machine, between: Range) -> None:
        """The kubelet registers after a delay."""
        self._later(between, self._register, machine)

    def restart(self, machine: Machine) -> None:
        """Only the kubelet restarts: GPUs are stale until its first status, and 0 until the plugin registers."""
        machine.starts += 1
        machine.sync_due = False
        self._later(self._settings.status_seconds, self._restarted, machine)

    def reboot(self, machine: Machine) -> None:
        """The machine posts no status for a while, then has another boot id; its GPUs follow later."""
        machine.starts += 1
        machine.sync_due = machine.answers = False
        silence = self._settings.unresponsive_seconds
        self._later((silence, silence), self._lost, machine)
        self._later(self._settings.reboot_seconds, self._rebooted, machine)

    def report(self, machine: Machine, devices: Devices) -> None:
        """Set the machine's devices; the Node's status follows."""
        machine.devices = devices
        if self._drivers.serves(machine):
            if machine.driver_runs:
                self._drivers.publish(machine)
        elif not machine.sync_due:
            machine.sync_due = True
            period = self._settings.sync_seconds
            self._after(period - (self._scheduler.time() - machine.synced_at) % period, self.sync, machine)

    def report_at_once(self, machine: Machine, devices: Devices) -> None:
        """Set the machine's devices, and write them to the Node's status."""
        self.report(machine, devices)
        self.sync(machine)

    def sync(self, machine: Machine) -> None:
        """Write the machine's devices to the Node's status, if its kubelet runs and no DRA driver has them."""
        machine.sync_due = False
        devices = machine.devices
        if machine.answers and devices.report is not None and not self._drivers.serves(machine):
            capacity, allocatable = ({devices.resource: str(number)} for number in devices.report)
            self._writer.status(machine.name, {"capacity": capacity, "allocatable": allocatable})

    def lose_gpus(self, machine: Machine, count: int) -> None:
        """So many GPUs are gone until the machine reboots: the plugin, which starts again, does not find them.

        With `device_health` "lost", a DRA driver does not start again by itself.
        """
        if self._drivers.serves(machine) and machine.driver_runs and self._settings.device_health == "lost":
            machine.unanswered_gpus += count
            self._drivers.publish(machine)
            return
        machine.lost_gpus += count
        self.report(machine, replace(machine.devices, count=machine.devices.count - count).served())

    def start_plugin(self, machine: Machine) -> None:
        """The plugin starts and registers."""
        machine.plugin, machine.driver_runs = "running", True
        machine.lost_gpus += machine.unanswered_gpus
        machine.devices = replace(machine.devices, count=machine.devices.count - machine.unanswered_gpus)
        machine.unanswered_gpus = 0
        self.report(machine, machine.devices.served())

    def stop_plugin(self, machine: Machine, *, for_good: bool) -> None:
        """The plugin stops; without a new registration its devices are removed later."""
        machine.plugin = "dead" if for_good else "stopped"
        if self._drivers.serves(machine):
            self._drivers.stop(machine)
            return
        self.report(machine, machine.devices.stopped())
        self._begin_grace(machine)

    # timers

    def _later(self, between: Range, action: Callable[[Machine], None], machine: Machine) -> None:
        self._after(self._rng.uniform(*between), action, machine)

    def _after(self, seconds: float, action: Callable[[Machine], None], machine: Machine) -> None:
        starts = machine.starts

        def act() -> None:
            if self.machines.get(machine.name) is machine and machine.starts == starts:
                action(machine)

        self._scheduler.after(seconds, act)

    def _beside(self, between: Range, action: Callable[[Machine], None], machine: Machine) -> None:
        """A timer of another program, which goes on when the kubelet restarts."""

        def act() -> None:
            if self.machines.get(machine.name) is machine:
                action(machine)

        self._scheduler.after(self._rng.uniform(*between), act)

    def _register(self, machine: Machine) -> None:
        machine.answers = True
        self._drivers.wipe(machine)
        name, pool = machine.name, machine.pool
        known = self._store.get("nodes", name)
        if known is None:
            self._store.create("nodes", objects.registration(self._azure, self._settings, pool, name))
            if self._settings.agent_taints:
                self._beside(self._settings.agent_seconds, self._agent_started, machine)
        else:
            self._store.patch("nodes", name, {"metadata": {"labels": objects.default_labels(pool, name)}})
            if machine.devices.resource in ((known.get("status") or {}).get("capacity") or {}):
                machine.devices = machine.devices.inherited()
        every = self._settings.allocatable_shares
        shares = every.get(pool.size, every.get("", {}))
        self._writer.status(name, objects.status(self._azure, pool, machine.boot_id, machine.instance, shares))
        self._first_sync(machine)
        self._writer.healthy(name)
        self._writer.ready(name, False, message="container runtime network not ready: cni plugin not initialized")
        self._beside(self._settings.initialize_seconds, self._initialize, machine)
        self._later(self._settings.ready_seconds, self._ready, machine)

    def _initialize(self, machine: Machine) -> None:
        """The cloud node manager's part."""
        node = self._store.get("nodes", machine.name)
        if node is not None:
            provider_id, found = objects.initialization(self._azure, machine.pool, machine.instance)
            kept = [t for t in node["spec"].get("taints") or () if t["key"] != labels.UNINITIALIZED_TAINT]
            patch = {"metadata": {"labels": found}, "spec": {"providerID": provider_id, "taints": kept or None}}
            self._store.patch("nodes", machine.name, patch)

    def _agent_started(self, machine: Machine) -> None:
        """The agents on the Node remove their taints."""
        node = self._store.get("nodes", machine.name)
        if node is not None:
            theirs = [objects.taint(text) for text in self._settings.agent_taints]
            kept = [one for one in node["spec"].get("taints") or () if one not in theirs]
            self._store.patch("nodes", machine.name, {"spec": {"taints": kept or None}})

    def _ready(self, machine: Machine) -> None:
        if machine.answers and machine.pool.name not in self.never_ready:
            self._writer.ready(machine.name, True, message="kubelet is posting ready status")
            self.sync(machine)
            self._on_ready(machine.name)
            self._start_plugin(machine)

    def _restarted(self, machine: Machine) -> None:
        self._stopped_with_kubelet(machine)
        self._later(self._settings.first_status_seconds, self._first_sync, machine)
        if not self._writer.is_ready(machine.name):
            self._later(self._settings.ready_seconds, self._ready, machine)
        if machine.plugin == "running":
            self._after(self._settings.register_seconds, self._register_again, machine)
        self._start_plugin(machine)

    def _stopped_with_kubelet(self, machine: Machine) -> None:
        """The kubelet starts: it waits for the plugin or driver to register."""
        machine.driver_runs = False
        self._drivers.wipe(machine)
        machine.devices = machine.devices.restarted()
        self._begin_grace(machine)

    def _first_sync(self, machine: Machine) -> None:
        machine.synced_at = self._scheduler.time()
        self.sync(machine)

    def _register_again(self, machine: Machine) -> None:
        if machine.plugin == "running":
            self.start_plugin(machine)

    def _lost(self, machine: Machine) -> None:
        if not machine.answers:
            self._writer.ready(machine.name, None)

    def _rebooted(self, machine: Machine) -> None:
        machine.answers = True
        if machine.plugin != "dead":
            machine.plugin = "starting"
        machine.devices = replace(machine.devices, count=machine.devices.count + machine.lost_gpus)
        machine.lost_gpus = machine.unanswered_gpus = 0
        machine.boot_id = self.boot_id()
        info = objects.node_info(machine.pool, machine.boot_id)
        self._writer.status(machine.name, {"nodeInfo": info})
        self._writer.ready(machine.name, False, message="container runtime is down")
        self._stopped_with_kubelet(machine)
        self._first_sync(machine)
        self._on_reboot(machine.name)
        self._later(self._settings.ready_seconds, self._ready, machine)

    def _start_plugin(self, machine: Machine) -> None:
        if machine.plugin == "starting":
            delay = self.plugin_delay_seconds
            between = self._settings.gpu_seconds if delay is None else (delay, delay)
            self._later(between, self._serve, machine)

    def _serve(self, machine: Machine) -> None:
        if machine.plugin == "starting":
            self.start_plugin(machine)
            self.sync(machine)

    def _begin_grace(self, machine: Machine) -> None:
        machine.plugin_stops += 1
        self._after(self._settings.endpoint_stop_seconds, partial(self._expire, machine.plugin_stops), machine)

    def _expire(self, stops: int, machine: Machine) -> None:
        expired = machine.devices.expired()
        if machine.plugin_stops == stops and expired != machine.devices:
            self.report(machine, expired)
