"""AMD. Its operator installs the driver.

Source: docs/references/kubernetes.md#gpu-resource-names, docs/references/kubernetes.md#dynamic-resource-allocation,
docs/references/kubernetes.md#device-plugins-in-a-cluster.
"""

import re

from .vendor import Vendor

VENDOR = Vendor(
    name="amd",
    domain="amd.com",
    resource="amd.com/gpu",
    driver="gpu.amd.com",
    device_type="amdgpu",
    words=re.compile(r"amdgpu|amd\.com|rocm|(?<![a-z0-9])amd(?![a-z0-9])", re.IGNORECASE),
    ubuntu_only=True,
)
