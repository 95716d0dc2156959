"""Launched False before anything is sent: a claim that cannot be expressed as an agent pool.

A claim's spec cannot be changed, so most of these end the same way: delete it and make a new one. What stands in its
labels or annotations can be corrected, and is tried again at once. `gpu-provisioner plan -f FILE` says the same
beforehand, and everything at once.
"""

from provisioner.api import reasons as r

from .row import Reason, bad

PLAN = "`gpu-provisioner plan -f FILE` shows everything that is wrong with the claim at once."


def _no(name: str, meaning: str, remedy: str) -> Reason:
    return bad("Launched", name, meaning, PLAN, f"{remedy} The spec is immutable: delete the claim and make a new one.")


def _mend(name: str, meaning: str, remedy: str) -> Reason:
    return bad("Launched", name, meaning, PLAN, f"{remedy} It is tried again at once.")


REFUSALS = (
    _no(
        r.REQUIREMENTS_INVALID,
        "A requirement is malformed, or two of them leave no value that both allow.",
        "Make them agree.",
    ),
    _no(
        r.INSTANCE_TYPE_MISSING,
        "No requirement names an instance type.",
        "Add `node.kubernetes.io/instance-type In [Standard_NC24ads_A100_v4]`, say.",
    ),
    _no(
        r.INSTANCE_TYPE_INVALID,
        "What is named is no Azure VM size, or the two keys that name sizes exclude each other.",
        "Name the same size in `node.kubernetes.io/instance-type` and `karpenter.azure.com/sku-name`.",
    ),
    _no(
        r.OPERATING_SYSTEM_INVALID,
        "The requirements exclude Linux, and all machines are Linux.",
        "Allow `kubernetes.io/os In [linux]`.",
    ),
    _no(
        r.ZONE_INVALID,
        "A required zone is no zone.",
        "Write `<location>-1`, `-2` or `-3`, such as `westeurope-1`.",
    ),
    _no(
        r.CAPACITY_TYPE_INVALID,
        "The requirements allow neither on-demand nor spot.",
        "Use `karpenter.sh/capacity-type In [spot, on-demand]`, or one of the two.",
    ),
    _no(
        r.RESOURCE_QUANTITY_INVALID,
        "A requested amount cannot be read, or a device is asked for in parts.",
        "Write whole numbers for devices and Kubernetes quantities for the rest.",
    ),
    _no(
        r.DISK_SIZE_INVALID,
        "`storage` is what the OS disk gets, and AKS gives 30 GiB to 2048 GiB.",
        "Ask for an amount in these bounds.",
    ),
    _mend(
        r.IMAGE_FAMILY_INVALID,
        "The size has AMD GPUs, for which AKS offers Ubuntu only.",
        "Remove the annotation `kaito.sh/node-image-family`.",
    ),
    _mend(
        r.LABEL_REFUSED,
        "A label of the claim cannot stand on an agent pool: AKS keeps the key for itself, or it is no label.",
        "Remove it or use a prefix of your own.",
    ),
    _no(
        r.TAINT_INVALID,
        "A taint of the claim cannot stand on an agent pool.",
        "Use `key=value:Effect` with a prefix of your own.",
    ),
)
