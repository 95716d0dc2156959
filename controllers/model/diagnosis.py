"""Why a Node shows fewer GPUs than expected, as one frozen value; and what is read of the cluster to find out.

The rules that find the cause are in `controllers/node/health/diagnosis.py`.

Source: docs/references/kubernetes.md#extended-resources-and-the-device-manager,
docs/references/kubernetes.md#device-plugins-in-a-cluster.
"""

from datetime import datetime
from typing import NamedTuple

import msgspec

from provisioner.api.meta import Taint
from provisioner.api.pod import Pod
from provisioner.api.workload import Cause, DaemonSet

from .conditions import clock_text

MACHINE_AT_FAULT = frozenset({Cause.NO_DEVICES, Cause.PARTIAL_DEVICES})


class PodName(NamedTuple):
    """A pod by its name; `uid` is "" if it is not known."""

    name: str
    namespace: str
    uid: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """`object`: the DaemonSet or pod that is concerned, as `Kind namespace/name`; `text` continues the sentence.

    `since`: when the GPUs were first missing, as far as this process knows. `plugin_pod`: the pod of the device plugin
    on the Node, if there is one. `details`: what else the Node shows of its GPUs, the most useful first.
    `elsewhere`: what else explains the missing devices although the plugin runs, "" without it. `only_here`: the plugin
    fails on this Node alone, and the Node itself reports a fault of its GPUs. `taints`: those that keep its pods away.
    """

    cause: Cause
    object: str = ""
    text: str = ""
    remedy: str = ""
    since: datetime | None = None
    plugin_pod: PodName | None = None
    details: tuple[str, ...] = ()
    elsewhere: str = ""
    only_here: bool = False
    taints: tuple[Taint, ...] = ()

    @property
    def of_machine(self) -> bool:
        """Whether the fault lies in the machine, so that another one would have its GPUs."""
        at_fault = self.cause in MACHINE_AT_FAULT or (self.cause is Cause.PLUGIN_FAILING and self.only_here)
        return at_fault and not self.elsewhere

    @property
    def cause_text(self) -> str:
        """The object and what is wrong with it."""
        return f"{self.object} {self.text}".strip()

    @property
    def message(self) -> str:
        """The cause, since when, and the remedy, for a condition."""
        since = f", since {clock_text(self.since)}" if self.since is not None else ""
        return f"{self.cause_text}{since}; {self.remedy}"


class Workloads(msgspec.Struct, frozen=True, kw_only=True):
    """The DaemonSets of the cluster, the pods on one Node, and those on no Node.

    `daemon_sets` None: they could not be read; `forbidden`: because the API server does not allow it. `since`: when the
    GPUs were first missing. `read_at`: the loop time of the read.
    """

    since: datetime
    read_at: float = 0.0
    daemon_sets: tuple[DaemonSet, ...] | None = None
    pods: tuple[Pod, ...] = ()
    unbound: tuple[Pod, ...] = ()
    forbidden: bool = False
