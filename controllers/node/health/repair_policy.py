"""The repair policy as data: which signals exist, how long each is tolerated, and what is done then.

Rows of the settings (`Policy.repair_policies`) replace the built-in rows of the same signal. The Node Problem Detector
of AKS and NVSentinel only report; a row that waits is reported and repairs nothing. By default a machine is replaced
only if its Node is not Ready, if it never came up, and if the diagnosis lays the loss of GPUs on it: what agents report
besides cordons its Node. Conditions have groups of their own: an old condition shortens no other signal's time.

Source: docs/references/karpenter.md#node-repair, docs/references/agent-pools.md#conditions-of-gpu-machines.
"""

from functools import lru_cache

from msgspec.structs import replace

from controllers.model.policy import Policy
from provisioner.api.repair_policy import (
    GPU_GONE,
    GPU_PARTIAL,
    NOT_INITIALIZED,
    NOT_READY,
    NOT_REGISTERED,
    READINESS_TIMEOUT,
    Action,
    Agreement,
    RepairPolicy,
)
from provisioner.vendors import VENDORS

MINUTE = 60.0
# Groups of signals. A signal that is in no group is one by itself, by its name.
RUNTIME = "Runtime"
PLUGIN = "DevicePlugin"
HARDWARE = "Hardware"
DEGRADED = "Degraded"
DISK = "DiskOrKernel"
ANNOUNCED = "Announced"
NVSENTINEL = "NVSentinel"
# Those of conditions that AKS's node problem detector sets.
OF_DETECTOR = frozenset({RUNTIME, PLUGIN, HARDWARE, DEGRADED, DISK})

# Conditions of NVSentinel, which quarantines Nodes itself and requests a replacement by its own object.
_NVSENTINEL = (
    *("GpuMemWatch", "GpuThermalWatch", "GpuPcieWatch", "GpuPowerWatch", "GpuInforomWatch", "GpuSmWatch"),
    *("GpuNvlinkWatch", "GpuMcuWatch", "GpuPmuWatch", "GpuDriverWatch", "SysLogsXIDError", "SysLogsSXIDError"),
    *("SysLogsGPUFallenOff", "NVSwitchFatalError", "NVSwitchDown", "DCGMError", "CSPMaintenance"),
)


def _signal(signal: str, minutes: float, *, agreement: Agreement = "None") -> RepairPolicy:
    seconds = minutes * MINUTE
    return RepairPolicy(signal=signal, seconds=seconds, action="Replace", agreement=agreement, group=signal)


def _condition(
    condition: str,
    minutes: float,
    group: str,
    *,
    status: str = "True",
    action: Action = "Cordon",
    agreement: Agreement = "None",
) -> RepairPolicy:
    return RepairPolicy(
        condition=condition, status=status, seconds=minutes * MINUTE, action=action, agreement=agreement, group=group
    )


def _waits(group: str, *conditions: str) -> tuple[RepairPolicy, ...]:
    return tuple(_condition(condition, 0, group, action="Wait") for condition in conditions)


BUILT_IN: tuple[RepairPolicy, ...] = (
    # AKS's own auto-repair has precedence.
    _signal(NOT_READY, 10),
    # Both begin once GPUs were missing for `Policy.gpu_loss_seconds`.
    _signal(GPU_GONE, 10, agreement="Diagnosis"),
    _signal(GPU_PARTIAL, 10, agreement="Diagnosis"),
    _condition("KubeletProblem", 10, RUNTIME),
    _condition("ContainerRuntimeProblem", 10, RUNTIME),
    # The device plugin of managed GPU pools, which is no pod but a unit of systemd.
    *(_condition(one.managed_plugin, 15, PLUGIN) for one in VENDORS if one.managed_plugin),
    # An agent can be wrong about GPUs that the kubelet shows, and an XID can be the error of one application.
    _condition("GPUMissing", 10, HARDWARE, agreement="GpuCount"),
    _condition("XIDErrors", 10, HARDWARE, agreement="GpuCount"),
    _condition("GPUXIDErrors", 10, HARDWARE, agreement="GpuCount"),
    _condition("NVLinkStatusInactive", 10, HARDWARE, agreement="GpuCount"),
    _condition("IBLinkFlapping", 10, HARDWARE, agreement="GpuCount"),
    _condition("ReadonlyFilesystem", 5, DISK),
    _condition("FilesystemCorruptionProblem", 5, DISK),
    _condition("KernelDeadlock", 5, DISK),
    # AKS restarts such a Node after 5 min, reimages it after 10 and redeploys it after 15, which may take 20 more.
    _condition("kubernetes.azure.com/NodeHealthy", 35, ANNOUNCED, status="False"),
    # It stands for a recommendation to move as well as for an eviction, and a machine is evicted within 30 s.
    *_waits(ANNOUNCED, "PreemptionScheduled"),
    *_waits(DEGRADED, "GPUClockThrottling", "UnhealthyNvidiaDCGMServices", "FrequentKubeletRestart"),
    *_waits(DEGRADED, "FrequentContainerdRestart", "FrequentUnregisterNetDevice"),
    *_waits(NVSENTINEL, *_NVSENTINEL),
    _signal(NOT_REGISTERED, 15),
    _signal(NOT_INITIALIZED, 20, agreement="Diagnosis"),
    # After the timeout of the rule.
    _signal(READINESS_TIMEOUT, 0),
)


def rows(policy: Policy) -> tuple[RepairPolicy, ...]:
    """The rows in force: those of the settings, and the built-in ones of all other signals."""
    return _merged(policy.repair_policies, policy.repair_seconds)


@lru_cache(maxsize=8)
def _merged(own: tuple[RepairPolicy, ...], not_ready_seconds: float) -> tuple[RepairPolicy, ...]:
    built_in = {row.same_signal: row for row in BUILT_IN}
    replaced = {row.same_signal for row in own}
    kept = (row for row in BUILT_IN if row.same_signal not in replaced)
    return (
        *(replace(row, seconds=not_ready_seconds) if row.signal == NOT_READY else row for row in kept),
        *(_completed(row, built_in.get(row.same_signal)) for row in own),
    )


def _completed(row: RepairPolicy, built_in: RepairPolicy | None) -> RepairPolicy:
    """A row of the settings: its group, and the agreement it leaves out, are those of the built-in row."""
    if built_in is None:
        return replace(row, agreement=row.agreement or "None", group=row.condition)
    return replace(row, agreement=row.agreement or built_in.agreement, group=built_in.group)
