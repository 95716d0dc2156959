"""Reasons of Launched for NodeClaims that cannot be converted to an agent pool; nothing is sent to Azure.

The spec of a NodeClaim is immutable. Labels and annotations can be corrected; a change is validated at once.
`gpu-provisioner plan -f FILE` reports the same errors, all of them, before the NodeClaim is created.
"""

from provisioner.api import reasons as r

from .row import Reason, is_false

PLAN = "`gpu-provisioner plan -f FILE` shows all errors of the NodeClaim."


def _in_spec(name: str, meaning: str, remedy: str) -> Reason:
    remedy = f"{remedy} The spec is immutable: delete the NodeClaim and create a new one."
    return is_false("Launched", name, meaning, PLAN, remedy)


def _in_metadata(name: str, meaning: str, remedy: str) -> Reason:
    return is_false("Launched", name, meaning, PLAN, f"{remedy} The controller retries at once.")


VALIDATION = (
    _in_spec(
        r.REQUIREMENTS_INVALID,
        "A requirement is malformed, or two requirements have no common value.",
        "Correct the requirements.",
    ),
    _in_spec(
        r.INSTANCE_TYPE_MISSING,
        "No requirement names an instance type.",
        "Add a requirement such as `node.kubernetes.io/instance-type In [Standard_NC24ads_A100_v4]`.",
    ),
    _in_spec(
        r.INSTANCE_TYPE_INVALID,
        "The value is not an Azure VM size, or the two keys for sizes have no common value.",
        "Use the same size in `node.kubernetes.io/instance-type` and `karpenter.azure.com/sku-name`.",
    ),
    _in_spec(
        r.OPERATING_SYSTEM_INVALID,
        "The requirements exclude Linux, the only supported operating system.",
        "Allow `kubernetes.io/os In [linux]`.",
    ),
    _in_spec(
        r.ZONE_INVALID,
        "A required zone is not a valid zone name.",
        "Use `<location>-1`, `-2` or `-3`, such as `westeurope-1`.",
    ),
    _in_spec(
        r.CAPACITY_TYPE_INVALID,
        "The requirements allow neither on-demand nor spot.",
        "Use `karpenter.sh/capacity-type In [spot, on-demand]`, or one of the two values.",
    ),
    _in_spec(
        r.RESOURCE_QUANTITY_INVALID,
        "A requested quantity is invalid, or an extended resource is not an integer.",
        "Use integers for extended resources and Kubernetes quantities for other resources.",
    ),
    _in_spec(
        r.DISK_SIZE_INVALID,
        "`storage` sets the size of the OS disk, for which AKS allows 30 GiB to 2048 GiB.",
        "Request a size within these limits.",
    ),
    _in_metadata(
        r.IMAGE_FAMILY_INVALID,
        "The size has AMD GPUs, which AKS supports on Ubuntu only.",
        "Remove the annotation `kaito.sh/node-image-family`.",
    ),
    _in_metadata(
        r.LABEL_REFUSED,
        "A label of the NodeClaim is not allowed on an agent pool: AKS reserves its key, or its syntax is invalid.",
        "Remove the label, or use a prefix of your own.",
    ),
    _in_spec(
        r.TAINT_INVALID,
        "A taint of the NodeClaim is not allowed on an agent pool.",
        "Use `key=value:Effect` with a prefix of your own.",
    ),
)
