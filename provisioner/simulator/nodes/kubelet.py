"""What runs on one machine: kubelet and device plugin; and the node manager's part of its Node.

Kubelet creates its Node once. A Node of that name that is still there, deleting or not, is adopted: it keeps
the labels and taints of its predecessor, only default labels are refreshed and extended resources zeroed. Every timer
checks that its machine still has power and its kubelet has not started again since.

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
from .machine import Machine, NodeSettings
from .node_status import NodeWriter


class Kubelets:
    """All kubelets. `machines`: those with power, by Node name; `back(node)` is called when a kubelet answers again.

    `plugin_delay_seconds`: if set, how long device plugins take, instead of `settings.gpu_seconds`.
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
        back: Callable[[str], None],
    ) -> None:
        self.machines: dict[str, Machine] = {}
        self.plugin_delay_seconds: float | None = None
        self._store = store
        self._azure = azure
        self._settings = settings
        self._scheduler = scheduler
        self._writer = writer
        self._rng = rng
        self._back = back

    def boot_id(self) -> str:
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))

    def register_after(self, machine: Machine, between: Range) -> None:
        """The kubelet reaches the API that much later."""
        self._later(between, self._register, machine)

    def restart(self, machine: Machine) -> None:
        """Kubelet alone restarts: the API keeps stale GPUs until its first status, then none until the plugin's."""
        machine.starts += 1
        self._later(self._settings.status_seconds, self._restarted, machine)

    def reboot(self, machine: Machine) -> None:
        """The machine is silent for a while, then back with another boot id, its GPUs later still."""
        machine.starts += 1
        machine.answers = False
        silence = self._settings.unresponsive_seconds
        self._later((silence, silence), self._lost, machine)
        self._later(self._settings.reboot_seconds, self._rebooted, machine)

    def report(self, machine: Machine, devices: Devices) -> None:
        """These are the machine's devices from now on, and the API sees them at once."""
        machine.devices = devices
        if devices.report is not None:
            capacity, allocatable = ({devices.resource: str(number)} for number in devices.report)
            self._writer.status(machine.name, {"capacity": capacity, "allocatable": allocatable})

    def stop_plugin(self, machine: Machine) -> None:
        """The plugin dies; if it stays dead, its devices are forgotten later."""
        self.report(machine, machine.devices.stopped())
        machine.plugin_deaths += 1
        self._scheduler.after(self._settings.forget_seconds, partial(self._forget, machine, machine.plugin_deaths))

    # timers

    def _later(self, between: Range, action: Callable[[Machine], None], machine: Machine) -> None:
        starts = machine.starts

        def act() -> None:
            if self.machines.get(machine.name) is machine and machine.starts == starts:
                action(machine)

        self._scheduler.after(self._rng.uniform(*between), act)

    def _register(self, machine: Machine) -> None:
        machine.answers = True
        name, pool = machine.name, machine.pool
        known = self._store.get("nodes", name)
        if known is None:
            self._store.create("nodes", objects.registration(self._azure, pool, name))
        else:
            self._store.patch("nodes", name, {"metadata": {"labels": objects.default_labels(pool, name)}})
            if machine.devices.resource in ((known.get("status") or {}).get("capacity") or {}):
                machine.devices = replace(machine.devices, phase="empty")
        self._writer.status(name, objects.status(self._azure, pool, machine.boot_id, machine.instance))
        self.report(machine, machine.devices)
        self._writer.healthy(name)
        self._writer.ready(name, False, message="container runtime network not ready: cni plugin not initialized")
        self._later(self._settings.initialize_seconds, self._initialize, machine)
        self._later(self._settings.ready_seconds, self._ready, machine)

    def _initialize(self, machine: Machine) -> None:
        """The node manager's part."""
        node = self._store.get("nodes", machine.name)
        if node is not None:
            provider_id, found = objects.initialization(self._azure, machine.pool, machine.instance)
            kept = [t for t in node["spec"].get("taints") or () if t["key"] != labels.UNINITIALIZED_TAINT]
            patch = {"metadata": {"labels": found}, "spec": {"providerID": provider_id, "taints": kept or None}}
            self._store.patch("nodes", machine.name, patch)

    def _ready(self, machine: Machine) -> None:
        if machine.answers:
            self._writer.ready(machine.name, True, message="kubelet is posting ready status")
            self._back(machine.name)
            self._start_plugin(machine)

    def _restarted(self, machine: Machine) -> None:
        self.report(machine, machine.devices.restarted())
        self._start_plugin(machine)

    def _lost(self, machine: Machine) -> None:
        if not machine.answers:
            self._writer.ready(machine.name, None)

    def _rebooted(self, machine: Machine) -> None:
        machine.answers = True
        machine.boot_id = self.boot_id()
        info = objects.node_info(self._azure, machine.pool, machine.boot_id)
        self._writer.status(machine.name, {"nodeInfo": info})
        self._writer.ready(machine.name, False, message="container runtime is down")
        self.report(machine, machine.devices.restarted())
        self._later(self._settings.ready_seconds, self._ready, machine)

    def _start_plugin(self, machine: Machine) -> None:
        delay = self.plugin_delay_seconds
        between = self._settings.gpu_seconds if delay is None else (delay, delay)
        self._later(between, self._serve, machine)

    def _serve(self, machine: Machine) -> None:
        self.report(machine, machine.devices.served())

    def _forget(self, machine: Machine, deaths: int) -> None:
        if machine.plugin_deaths == deaths and self.machines.get(machine.name) is machine:
            self.report(machine, machine.devices.forgotten())
