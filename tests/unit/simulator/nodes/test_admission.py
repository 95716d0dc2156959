"""Which pods a kubelet refuses for want of devices, and what it says."""

from typing import Any

import pytest

from provisioner.simulator.nodes.admission import refusal
from provisioner.simulator.nodes.device_plugin import Devices

from .stage import GPU, pod

SERVING = Devices(resource=GPU, count=8).served()
UNEXPECTED = "UnexpectedAdmissionError: Pod was rejected: Allocate failed due to {}, which is unexpected"
UNHEALTHY = UNEXPECTED.format(f"no healthy devices present; cannot allocate unhealthy devices {GPU}")
OUT = "OutOfnvidia.com/gpu: Pod was rejected: Node didn't have enough resource: nvidia.com/gpu, "


def requesting(*gpus: int) -> dict[str, Any]:
    """A pod with one container for each count."""
    made = pod("a", "n")
    made["spec"]["containers"] = [{"resources": {"limits": {GPU: str(count), "cpu": "100m"}}} for count in gpus]
    return made


# Each row: the devices, the GPUs of other pods, those of each of the pod's containers, and the refusal.
TABLE: dict[str, tuple[Devices, int, tuple[int, ...], str]] = {
    "all are free": (SERVING, 0, (8,), ""),
    "no GPU is requested": (SERVING.stopped(), 0, (), ""),
    "none of its containers requests one": (SERVING.stopped(), 0, (0, 0), ""),
    "the plugin stopped": (SERVING.stopped(), 0, (1,), UNHEALTHY),
    "all devices are unhealthy": (SERVING.failed(8), 0, (1,), UNHEALTHY),
    "the kubelet restarted and the plugin is not back": (SERVING.restarted(), 0, (1,), UNHEALTHY),
    "the plugin is gone for five minutes": (
        SERVING.stopped().expired(),
        0,
        (1, 2),
        OUT + "requested: 3, used: 0, capacity: 0",
    ),
    "and a pod still has its devices": (
        SERVING.stopped().expired(),
        1,
        (1,),
        UNEXPECTED.format(f"cannot allocate unregistered device {GPU}"),
    ),
    "too few are free": (
        SERVING.failed(1),
        4,
        (1, 3),
        UNEXPECTED.format(f"requested number of devices unavailable for {GPU}. Requested: 3, Available: 2"),
    ),
    "the rest is enough": (SERVING.failed(1), 4, (1, 2), ""),
    "the plugin never registered": (Devices(resource=GPU, count=8), 0, (1,), ""),
    "a machine without whole GPUs": (Devices(resource="", count=0), 0, (1,), ""),
}


@pytest.mark.parametrize("row", TABLE)
def test_refusal(row: str) -> None:
    """The kubelet's reasons and messages."""
    devices, used, gpus, expected = TABLE[row]
    found = refusal(requesting(*gpus), devices, [requesting(used)])
    assert (f"{found.reason}: {found.message}" if found else "") == expected
