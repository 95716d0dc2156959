"""The CustomResourceDefinition of AgentPoolNodeClass (`gpu-provisioner.sh/v1alpha1`).

Most fields are those of an AKS agent pool that concern all machines of a node class. The others say how its GPUs are
offered to pods, and what a new Node waits for.

Source: docs/references/agent-pools.md#request-body.
"""

from typing import Any

from . import labels
from .crd_parts import conditions
from .crd_readiness import readiness_rules
from .nodeclass import (
    DISK_CEILING_GIB,
    DISK_FLOOR_GIB,
    GPU_MODES,
    IMAGE_FAMILIES,
    MAX_PODS,
    MIG_PROFILES,
    MIG_STRATEGIES,
    SHARED_REPLICAS,
    SHARED_RESOURCES,
    TAGS_MAX,
)
from .schema import Schema, column, definition, rules, structure, text, type_meta

SUBNET = (
    "(?i)^/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft[.]Network/virtualNetworks/[^/]+/subnets/[^/]+$"
)
RESERVATION_GROUP = (
    "(?i)^/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft[.]Compute/capacityReservationGroups/[^/]+$"
)
PRICE = "^(-1|[0-9]{1,6}([.][0-9]{1,5})?)$"
ID_CHARACTERS = 1024


def agentpoolnodeclass_crd() -> Schema:
    """The CRD of AgentPoolNodeClass."""
    return definition(
        group=labels.OWN_DOMAIN,
        names={
            "categories": ["karpenter"],
            "kind": labels.NODECLASS_KIND,
            "listKind": f"{labels.NODECLASS_KIND}List",
            "plural": "agentpoolnodeclasses",
            "shortNames": ["apnc"],
            "singular": "agentpoolnodeclass",
        },
        version="v1alpha1",
        columns=[
            column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
            column("Age", ".metadata.creationTimestamp", kind="date"),
            column("Reason", '.status.conditions[?(@.status!="True")].reason', priority=1),
            column("ImageFamily", ".spec.imageFamily", priority=1),
        ],
        schema=structure(
            "The properties of the agent pools of NodeClaims that refer to it.",
            {**type_meta(), "spec": _spec(), "status": _status()},
        ),
    )


def _spec() -> Schema:
    return structure(
        "The properties of new agent pools. A change has no effect on machines that exist.",
        {
            "capacityReservationGroupID": _resource_id(
                "The capacity reservation group whose reserved machines are used, on-demand only.",
                RESERVATION_GROUP,
                "the ID of a capacity reservation group: /subscriptions/<subscription>/resourceGroups/<group>/"
                "providers/Microsoft.Compute/capacityReservationGroups/<name>",
            ),
            "gpu": _gpu(),
            "imageFamily": text("The operating system of the Node.", default="Ubuntu", enum=list(IMAGE_FAMILIES)),
            "maxPods": _whole("The maximum number of pods of a Node; none lets AKS choose.", *MAX_PODS),
            "osDiskSizeGB": _whole(
                "The size of the OS disk in GiB; none lets AKS choose. A claim that requests more storage gets more.",
                DISK_FLOOR_GIB,
                DISK_CEILING_GIB,
            ),
            "osDiskType": text(
                "The kind of the OS disk; none means Ephemeral where the size has room for it, else Managed.",
                enum=["Managed", "Ephemeral"],
            ),
            "readiness": readiness_rules(),
            "spot": _spot(),
            "tags": _tags(),
            "vnetSubnetID": _resource_id(
                "The subnet of the machines; none means that of the cluster.",
                SUBNET,
                "the ID of a subnet: /subscriptions/<subscription>/resourceGroups/<group>/"
                "providers/Microsoft.Network/virtualNetworks/<network>/subnets/<name>",
            ),
        },
    )


def _gpu() -> Schema:
    return structure(
        "Properties of machines with GPUs.",
        {
            "driver": text(
                "Whether AKS installs the driver. None is for the GPU Operator, and is always used for AMD GPUs.",
                default="Install",
                enum=["Install", "None"],
            ),
            "migProfile": text(
                "The profile into which AKS partitions each GPU, on sizes that support MIG; none means whole GPUs.",
                enum=list(MIG_PROFILES),
            ),
            "migStrategy": text(
                "How the device plugin names slices: Single as nvidia.com/gpu, Mixed as nvidia.com/mig-<profile>.",
                default="Single",
                enum=list(MIG_STRATEGIES),
            ),
            "mode": text(
                "How GPUs are offered to pods: by a device plugin, or by a driver for dynamic resource allocation.",
                default="DevicePlugin",
                enum=list(GPU_MODES),
            ),
            "sharedReplicas": _whole(
                "How many pods share one device, as the device plugin is configured for time-slicing or MPS.",
                *SHARED_REPLICAS,
            )
            | {"default": 1},
            "sharedResource": text(
                "The name under which the device plugin offers shared devices.",
                default="nvidia.com/gpu",
                enum=list(SHARED_RESOURCES),
            ),
        },
    ) | rules(
        (
            "!has(self.migProfile) || !has(self.driver) || self.driver != 'None'",
            "migProfile requires driver Install: AKS cannot partition GPUs without its driver",
        ),
        (
            "!has(self.mode) || self.mode != 'DRA' || (!has(self.migProfile)"
            " && (!has(self.sharedReplicas) || self.sharedReplicas == 1))",
            "mode DRA requires whole GPUs: remove migProfile and sharedReplicas, or set mode to DevicePlugin",
        ),
        (
            "!has(self.sharedResource) || self.sharedResource == 'nvidia.com/gpu'"
            " || (has(self.sharedReplicas) && self.sharedReplicas > 1)",
            "sharedResource nvidia.com/gpu.shared requires sharedReplicas of 2 or more",
        ),
    )


def _spot() -> Schema:
    price = text("The maximum price per hour in US dollars; -1 means the on-demand price.", default="-1", maxLength=16)
    price |= rules(
        (
            f"self.matches('{PRICE}') && self.matches('[1-9]')",
            "maxPrice must be -1 or more than 0, in US dollars with at most 5 decimals, as a string",
        )
    )
    return structure(
        "Properties of spot machines.",
        {
            "evictionPolicy": text(
                "What happens to the machine at an eviction; only Delete is supported.",
                default="Delete",
                maxLength=16,
            )
            | rules(
                (
                    "self == 'Delete'",
                    "evictionPolicy must be Delete: a deallocated machine counts against the quota and is not started"
                    " again; set it to Delete, or remove it",
                )
            ),
            "maxPrice": price,
        },
    )


def _tags() -> Schema:
    found: Schema = {
        "description": "Tags of the agent pool and its machines, besides those of the controller.",
        "type": "object",
        "additionalProperties": {"type": "string", "maxLength": 256},
        "maxProperties": TAGS_MAX,
    }
    return found | rules(
        ("self.all(k, k.size() <= 512)", "keys of tags must have at most 512 characters"),
        (
            "self.all(k, !k.matches('[<>%&?/]') && !k.contains('\\\\'))",
            "keys of tags must not contain any of < > % & \\\\ ? /",
        ),
        (
            "self.all(k, !k.matches('(?i)^gpu-provisioner_'))",
            "the prefix gpu-provisioner_ is reserved for the tags of the controller: use another key",
        ),
    )


def _resource_id(description: str, pattern: str, expected: str) -> Schema:
    rule = (f"self.matches('{pattern}')", f"must be {expected}")
    return text(description, maxLength=ID_CHARACTERS) | rules(rule)


def _whole(description: str, least: int, most: int) -> Schema:
    found: Schema = {"description": description, "type": "integer", "format": "int32"}
    return found | {"minimum": least, "maximum": most}


def _status() -> Schema:
    summary = "Conditions of the node class; Ready summarizes the others. NodeClaims wait for it."
    fields: dict[str, Any] = {"conditions": conditions("node class", summary)}
    return structure("The observed state of the node class.", fields)
