"""One row of the repair policy: a signal of an unhealthy machine, how long it is tolerated, and what is done then.

A signal is one of `SIGNALS`, or a condition of the Node with a status.

Source: docs/references/karpenter.md#node-repair.
"""

from typing import Literal

import msgspec

Action = Literal["Wait", "RestartPlugin", "Replace"]
# What has to confirm the signal: nothing else, a wrong number of allocatable GPUs, or the diagnosis of missing GPUs.
# "": as in the built-in row for the signal.
Agreement = Literal["", "None", "GpuCount", "Diagnosis"]

NOT_READY = "NotReady"
GPU_GONE = "GpuGone"
GPU_PARTIAL = "GpuPartial"
NOT_REGISTERED = "NotRegistered"
NOT_INITIALIZED = "NotInitialized"
# A readiness rule with onTimeout Replace is not satisfied in time.
READINESS_TIMEOUT = "ReadinessTimeout"
SIGNALS = (NOT_READY, GPU_GONE, GPU_PARTIAL, NOT_REGISTERED, NOT_INITIALIZED, READINESS_TIMEOUT)
ACTIONS: tuple[Action, ...] = ("Wait", "RestartPlugin", "Replace")
AGREEMENTS: tuple[Agreement, ...] = ("None", "GpuCount", "Diagnosis")


class RepairPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """`signal`: one of `SIGNALS`, or "" for the Node condition `condition` with the status `status`.

    `seconds`: how long it is tolerated. Signals of one `group` share one timer, and fail together in the sense of the
    limits on simultaneous repairs.
    """

    signal: str = ""
    condition: str = ""
    status: str = "True"
    seconds: float
    action: Action
    agreement: Agreement = ""
    group: str = ""

    @property
    def name(self) -> str:
        """The signal, or the condition with its status, as messages state it."""
        return self.signal or f"{self.condition}={self.status}"

    @property
    def same_signal(self) -> tuple[str, str, str]:
        """Rows with the same value are about the same signal."""
        return (self.signal, self.condition, "" if self.signal else self.status)
