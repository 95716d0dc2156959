"""NVIDIA.

The driver writes a health taint after a fatal Xid, and once the GPU no longer answers. It never removes one before it
restarts, and never evicts pods.

Source: docs/references/kubernetes.md#gpu-resource-names, docs/references/kubernetes.md#labels-of-gpu-nodes,
docs/references/kubernetes.md#dynamic-resource-allocation, docs/references/kubernetes.md#device-plugins-in-a-cluster,
https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html (visible devices),
https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/getting-started.html (daemonsets).
"""

import re

from .vendor import Division, Vendor

VENDOR = Vendor(
    name="nvidia",
    domain="nvidia.com",
    resource="nvidia.com/gpu",
    driver="gpu.nvidia.com",
    device_type="gpu",
    words=re.compile(r"nvidia|nvdp", re.IGNORECASE),
    health_taints=("gpu.nvidia.com/xid", "gpu.nvidia.com/gpu-lost"),
    product="nvidia.com/gpu.product",
    count="nvidia.com/gpu.count",
    visible_devices="NVIDIA_VISIBLE_DEVICES",
    managed_plugin="UnhealthyNvidiaDevicePlugin",
    operator_kind="ClusterPolicy",
    aks_driver=True,
    division=Division(
        slice_prefix="nvidia.com/mig-",
        slice_count=re.compile(r"(nvidia\.com/mig-[0-9]+g\.[0-9]+gb(?:\.[a-z.]+)?)\.count"),
        shared_suffix=".shared",
        slice_product="-MIG-",
        shared_product="-SHARED",
        strategy="nvidia.com/mig.strategy",
        replicas="nvidia.com/gpu.replicas",
        config="nvidia.com/mig.config",
        config_state="nvidia.com/mig.config.state",
    ),
)
