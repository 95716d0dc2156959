"""The CustomResourceDefinition of AgentPoolNodeClass (`gpu-provisioner.sh/v1alpha1`).

Most fields are those of an AKS agent pool that concern all machines of a node class. The others say how its GPUs are
offered to pods, and what a new Node waits for.

Source: docs/references/agent-pools.md#request-body.
"""

from typing import Any

from . import labels
from .crd_parts import conditions
from .crd_readiness import readiness_rules
from .crd_replica_schedules import replica_schedules
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
from .readiness import OF_PLUGINS
from .schema import Schema, atomic_list, column, definition, rules, structure, text, time, type_meta

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
    of_plugins = " || ".join(f"one.until.resource.name.startsWith('{prefix}')" for prefix in OF_PLUGINS)
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
            "replicaSchedules": replica_schedules(),
            "spot": _spot(),
            "tags": _tags(),
            "vnetSubnetID": _resource_id(
                "The subnet of the machines; none means that of the cluster.",
                SUBNET,
                "the ID of a subnet: /subscriptions/<subscription>/resourceGroups/<group>/"
                "providers/Microsoft.Network/virtualNetworks/<network>/subnets/<name>",
            ),
        },
    ) | rules(
        (
            "!has(self.gpu) || self.gpu.mode != 'DRA' || !has(self.readiness)"
            f" || self.readiness.all(one, !has(one.until.resource) || !({of_plugins}))",
            "with gpu.mode DRA no device plugin offers GPUs: use until.devices in readiness, with a driver such as"
            " gpu.nvidia.com",
        )
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
                default=SHARED_RESOURCES[0],
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
            f"!has(self.sharedResource) || self.sharedResource == '{SHARED_RESOURCES[0]}'"
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
    fields: dict[str, Any] = {"conditions": conditions("node class", summary), "misfits": _misfits()}
    fields["observedTypes"] = _observed_types()
    fields["observedDaemonSets"] = _observed_daemon_sets()
    return structure("The observed state of the node class.", fields)


def _observed_types() -> Schema:
    """What Nodes really offered; the controller writes it, and reads it again."""
    entry = structure(
        "What the newest Node of an instance type offered.",
        {
            "allocatable": {
                "description": "What the kubelet offers to pods, devices aside.",
                "type": "object",
                "additionalProperties": {"type": "string", "maxLength": 32},
                "maxProperties": 10,
            },
            "before": {
                "description": "What the Node before it offered.",
                "type": "object",
                "additionalProperties": {"type": "string", "maxLength": 32},
                "maxProperties": 10,
            },
            "instanceType": text("The VM size.", maxLength=253),
            "nodeCreated": time("When that Node was created."),
            "nodeName": text("The name of that Node.", maxLength=253),
            "revision": text("A digest of the node class; another one removes the entry.", maxLength=16),
        },
        required=["instanceType"],
    )
    return atomic_list("What Nodes of each instance type offered, in place of predictions.", entry, maxItems=50)


def _observed_daemon_sets() -> Schema:
    """What daemon pods really request; the controller writes it, and reads it again."""
    entry = structure(
        "What the newest pod of a DaemonSet requests.",
        {
            "daemonSet": text("The DaemonSet, as namespace/name.", maxLength=317),
            "requests": {
                "description": "The requests of the pod.",
                "type": "object",
                "additionalProperties": {"type": "string", "maxLength": 32},
                "maxProperties": 10,
            },
            "template": text("A digest of the template's requests; another one removes the entry.", maxLength=16),
        },
        required=["daemonSet"],
    )
    summary = "What pods of DaemonSets request, where their templates state something else."
    return atomic_list(summary, entry, maxItems=50)


def _misfits() -> Schema:
    """What machines did not take the pods that they were bought for; the controller writes it, and reads it again."""
    name = {"maxLength": 253}
    short = {"maxLength": 16}
    entry = structure(
        "Pods of one shape that machines of a NodePool did not take.",
        {
            "instanceTypes": atomic_list(
                "The instance types that are not bought for these pods again.", text("A VM size.", **name), maxItems=20
            ),
            "lastTime": time("When a machine last did not take such a pod."),
            "message": text("How the machines differ from what was predicted.", maxLength=256),
            "namespace": text("The namespace of the pods; empty for pods of many namespaces.", maxLength=63),
            "nodePool": text("The NodePool of the machines.", **name),
            "pod": text("One of the pods, as namespace/name.", maxLength=317),
            "pods": {
                "description": "The machines that were bought for each pod: digests of their UIDs.",
                "type": "object",
                "additionalProperties": atomic_list("Digests.", text("A digest.", **short), maxItems=4),
                "maxProperties": 8000,
            },
            "revision": text("A digest of the NodePool and the node class; another one removes the entry.", **short),
            "roundEnd": time("When the last NodeClaim of the last round was created."),
            "rounds": {
                "description": "How often machines were bought for such pods, each time knowing the last ones.",
                "type": "integer",
                "format": "int32",
                "minimum": 0,
            },
            "shape": text("A digest of the constraints and requests of the pods; empty for all of them.", **short),
            "uncountedUntil": time("Pods that were created before, and are not listed, count as those that are."),
        },
        required=["nodePool"],
    )
    return atomic_list("Pods that machines of the node class did not take, and how often.", entry, maxItems=200)
