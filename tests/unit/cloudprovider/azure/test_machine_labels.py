"""The labels that are known of a size before its Node exists, and which of them an agent pool carries."""

from datetime import UTC, datetime

import pytest

from cloudprovider.azure.agentpool import to_agent_pool
from cloudprovider.azure.machine_labels import machine_labels, pool_machine_labels
from cloudprovider.azure.pricing import size_of
from cloudprovider.interface import Offering
from provisioner.api.meta import ObjectMeta, OwnerReference
from provisioner.api.nodeclaim import NodeClaim, NodeClaimSpec, NodeClassReference

DOMAIN = "karpenter.azure.com"
# size, series, GPU name, GPUs, product
ROWS = [
    ("Standard_D4s_v5", "Ds_v5", "", "0", ""),
    ("Standard_NC4as_T4_v3", "NCas_v3", "T4", "1", "Tesla-T4"),
    ("Standard_NC24ads_A100_v4", "NCads_v4", "A100", "1", "NVIDIA-A100-80GB-PCIe"),
    ("Standard_ND96amsr_A100_v4", "NDamsr_v4", "A100", "8", "NVIDIA-A100-SXM4-80GB"),
    ("Standard_ND96asr_v4", "NDasr_v4", "A100", "8", "NVIDIA-A100-SXM4-40GB"),
    ("Standard_ND96isr_H100_v5", "NDisr_v5", "H100", "8", "NVIDIA-H100-80GB-HBM3"),
    ("Standard_NV36ads_A10_v5", "NVads_v5", "A10", "1", ""),
    ("Standard_NV24ads_V710_v5", "NVads_v5", "V710", "1", ""),
]


@pytest.mark.parametrize(("name", "series", "model", "gpus", "product"), ROWS, ids=[row[0] for row in ROWS])
def test_labels_of_a_size(name: str, series: str, model: str, gpus: str, product: str) -> None:
    """Each size has the labels of its series and of its GPUs; the product only where it is documented."""
    size = size_of(name)
    assert size is not None
    found = machine_labels(size)
    assert found[f"{DOMAIN}/sku-series"] == series
    assert found[f"{DOMAIN}/sku-gpu-name"] == model
    assert found[f"{DOMAIN}/sku-gpu-count"] == gpus
    assert found["nvidia.com/gpu.product"] == product


def test_what_a_pool_carries() -> None:
    """Without what AKS refuses or sets itself, and without labels that the machine does not bear."""
    size = size_of("Standard_D4s_v5")
    assert size is not None
    found = pool_machine_labels(size)
    assert f"{DOMAIN}/sku-cpu" in found
    assert not {"accelerator", "kubernetes.io/arch", "node.kubernetes.io/instance-type"} & {*found}
    assert not [key for key, value in found.items() if not value]


@pytest.mark.parametrize("owned", [True, False], ids=["of a NodePool", "of KAITO"])
def test_pools_of_nodepools_only(owned: bool) -> None:
    """Pools of KAITO's claims keep the labels that they have had."""
    owner = OwnerReference(api_version="karpenter.sh/v1", kind="NodePool", name="gpu", uid="u")
    claim = NodeClaim(
        metadata=ObjectMeta(name="gpu-1", uid="uid", owner_references=(owner,) if owned else ()),
        spec=NodeClaimSpec(
            node_class_ref=NodeClassReference(group="gpu-provisioner.sh", kind="AgentPoolNodeClass", name="default")
        ),
    )
    body = to_agent_pool(claim, Offering(size="Standard_NC4as_T4_v3"), now=datetime(2026, 3, 1, tzinfo=UTC))
    found = body["properties"]["nodeLabels"]
    assert (found.get(f"{DOMAIN}/sku-gpu-name") == "T4") is owned
    assert (found.get("gpu-provisioner.sh/agentpoolnodeclass") == "default") is owned
