"""One row of the repair policy: a signal of an unhealthy machine, how long it is tolerated, and what is done then.

A signal is one of `SIGNALS`, or a condition of the Node with a status.

Source: docs/references/karpenter.md#node-repair.
"""

from typing import Literal

import msgspec

# Wait: only reported. Cordon: reported, and the Node gets no new pods while the signal is present.
Action = Literal["Wait", "Cordon", "RestartPlugin", "Replace"]
# What has to confirm the signal: nothing else, GPUs that are missing by the fault of the machine for the same time, or
# the diagnosis of missing GPUs. "": as in the built-in row for the signal.
Agreement = Literal["", "None", "GpuCount", "Diagnosis"]

NOT_READY = "NotReady"
GPU_GONE = "GpuGone"
GPU_PARTIAL = "GpuPartial"
NOT_REGISTERED = "NotRegistered"
NOT_INITIALIZED = "NotInitialized"
# A readiness rule with onTimeout Replace is not satisfied in time.
READINESS_TIMEOUT = "ReadinessTimeout"
SIGNALS = (NOT_READY, GPU_GONE, GPU_PARTIAL, NOT_REGISTERED, NOT_INITIALIZED, READINESS_TIMEOUT)
# Signals of machines that were never usable.
STARTING = (NOT_REGISTERED, NOT_INITIALIZED, READINESS_TIMEOUT)
# Signals of GPUs that the kubelet does not offer.
OF_GPUS = (GPU_GONE, GPU_PARTIAL, NOT_INITIALIZED)
ACTIONS: tuple[Action, ...] = ("Wait", "Cordon", "RestartPlugin", "Replace")
AGREEMENTS: tuple[Agreement, ...] = ("None", "GpuCount", "Diagnosis")

# A day: the longest that pods which use GPUs delay the repair of their machine.
PODS_SECONDS = 86_400.0


class RepairPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """`signal`: one of `SIGNALS`, or "" for the Node condition `condition` with the status `status`.

    `seconds`: how long it is tolerated. Signals of one `group` share one timer, and fail together in the sense of the
    limits on simultaneous repairs. `pods_seconds`: how long the repair of a machine that still works waits for the pods
    that use its GPUs, once it is due.
    """

    signal: str = ""
    condition: str = ""
    status: str = "True"
    seconds: float
    action: Action
    agreement: Agreement = ""
    group: str = ""
    pods_seconds: float = PODS_SECONDS

    @property
    def name(self) -> str:
        """The signal, or the condition with its status, as messages state it."""
        return self.signal or f"{self.condition}={self.status}"

    @property
    def works(self) -> bool:
        """Whether a machine with this signal can still run pods, so that a repair of it waits for them."""
        return self.signal not in (NOT_READY, NOT_REGISTERED)

    @property
    def serves(self) -> bool:
        """Whether a machine with this signal was usable, and can still run pods."""
        return self.signal not in (NOT_READY, *STARTING)

    @property
    def runs_gpus(self) -> bool:
        """Whether a machine with this signal was usable, and can still run pods that request GPUs."""
        return self.serves and self.signal != GPU_GONE

    @property
    def same_signal(self) -> tuple[str, str, str]:
        """Rows with the same value are about the same signal."""
        return (self.signal, self.condition, "" if self.signal else self.status)
