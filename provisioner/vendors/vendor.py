"""What the program knows of a vendor of GPUs, as data: names of resources, drivers, labels, plugins and operators."""

import re

import msgspec


class Division(msgspec.Struct, frozen=True, kw_only=True):
    """How one GPU becomes several devices: slices, and shares of GPUs or slices.

    `slice_prefix`: of the resource of a slice. `slice_count`: the label that counts slices; its first group is their
    resource. `shared_suffix`: of the resource of shared devices. `slice_product` and `shared_product` mark the name of
    the product; the latter is its end. `strategy`, `replicas`: labels that state how slices are named, and how many
    shares a device has. `config`, `config_state`: the labels of the manager that partitions GPUs.
    """

    slice_prefix: str
    slice_count: re.Pattern[str]
    shared_suffix: str
    slice_product: str
    shared_product: str
    strategy: str
    replicas: str
    config: str
    config_state: str


class Vendor(msgspec.Struct, frozen=True, kw_only=True):
    """A vendor. A text is "" where the vendor has no such thing.

    `name`: as sizes and labels of Azure state it. `domain`: of its resources and labels. `resource`: a whole GPU of the
    device plugin. `driver`: for dynamic resource allocation; `device_type`: what it calls a whole GPU in the attribute
    `type`. `health_taints`: by these keys, with effect NoSchedule, the driver takes a GPU out of service. `words`: how
    names, images and variables of templates name the vendor. `product`, `count`: labels of GPU feature discovery.
    `visible_devices`: the variable with the GPUs that a container sees. `managed_plugin`: the condition of Nodes whose
    device plugin AKS manages. `operator_kind`: of the object of its operator that owns DaemonSets, and states their
    tolerations in `spec.daemonsets`. `aks_driver`: whether AKS installs the driver. `ubuntu_only`: whether the sizes
    support no other image family. `division`: None if GPUs are whole only.
    """

    name: str
    domain: str
    resource: str
    driver: str
    device_type: str
    words: re.Pattern[str]
    health_taints: tuple[str, ...] = ()
    product: str = ""
    count: str = ""
    visible_devices: str = ""
    managed_plugin: str = ""
    operator_kind: str = ""
    aks_driver: bool = False
    ubuntu_only: bool = False
    division: Division | None = None
