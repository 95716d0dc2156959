"""`docs/reference/requirements.md`: the labels by which NodePools and Pods select machines, and their values."""

from collections.abc import Mapping

from cloudprovider.azure.machine_labels import ACCELERATOR, AKS, DOMAIN, GPU_NAME, PLACEMENT_SCOPE
from cloudprovider.cloud import InstanceType
from controllers.provisioning.instances import InstanceTypeCache
from provisioner.api import labels
from provisioner.operator.azure import CLOUD
from provisioner.vendors import nvidia

from .markdown import code, page, table

SOURCE = "tools/reference/requirements.py"
PRODUCT = nvidia.VENDOR.product
# Where nothing is known of prices and zones, so that all sizes are offered.
ANYWHERE = "anywhere"
SHOWN_VALUES = 6

INTRODUCTION = """\
The requirements of a NodePool (`spec.template.spec.requirements`), and the node selector and node affinity of a Pod,
select machines by these labels. `In`, `NotIn`, `Exists` and `DoesNotExist` can be used with all of them; `Gt`, `Lt`,
`Gte` and `Lte` compare whole numbers. Values are strings: write numbers in quotes.

```yaml
requirements:
  - key: karpenter.azure.com/sku-gpu-name
    operator: In
    values: [A100, H100]
  - key: karpenter.azure.com/sku-gpu-count
    operator: Lte
    values: ["4"]
```

`gpu-provisioner plan -f nodepool.yaml --region westeurope` prints the sizes that satisfy all requirements. If there is
none, it names the requirement and the values that the sizes have."""

AFTER_KEYS = """\
Any other key that neither Kubernetes, Karpenter nor AKS reserves is a label of your own: the Nodes of the NodePool have
it, and it selects no size. The labels that the NodePool has in `spec.template.metadata.labels` are on its Nodes, too.
[Labels and annotations](labels.md) lists all labels of the controller.

A key of a Pod that no NodePool and no size has keeps the Pod pending, with an Event that names the key."""

MEANINGS: Mapping[str, str] = {
    labels.INSTANCE_TYPE: "The VM size.",
    GPU_NAME: "The GPU model.",
    f"{DOMAIN}/sku-gpu-count": "The number of GPUs; 0 for machines without GPUs.",
    f"{DOMAIN}/sku-gpu-manufacturer": "The vendor of the GPUs.",
    PRODUCT: "The GPU product as GPU feature discovery names it. Only of the models that this program knows.",
    labels.CAPACITY_TYPE: "How the machine is bought. Spot machines have a taint that the Pods must tolerate.",
    labels.ZONE: "The zone: region, hyphen, number. `0` stands for a machine outside all zones.",
    labels.REGION: "The region of the cluster.",
    PLACEMENT_SCOPE: "Whether the machine is in a zone.",
    labels.ARCH: "The architecture of the CPU.",
    labels.OS: "The operating system.",
    f"{DOMAIN}/sku-cpu": "The number of vCPUs.",
    f"{DOMAIN}/sku-memory": "The memory in MiB.",
    f"{DOMAIN}/sku-name": "The VM size.",
    f"{DOMAIN}/sku-series": "The series: family, features and version.",
    f"{DOMAIN}/sku-family": "The first letter of the family.",
    f"{DOMAIN}/sku-version": "The version of the series.",
    f"{DOMAIN}/sku-storage-premium-capable": "Whether premium disks can be attached.",
    f"{AKS}/sku-cpu": "As `karpenter.azure.com/sku-cpu`; AKS sets it.",
    f"{AKS}/sku-memory": "As `karpenter.azure.com/sku-memory`; AKS sets it.",
    f"{AKS}/accelerator": "The vendor of the GPUs; AKS sets it.",
    ACCELERATOR: "The vendor of the GPUs; AKS sets it.",
}
# The values of these depend on the region.
PLACES = {
    labels.CAPACITY_TYPE: ("on-demand", "spot"),
    labels.ZONE: ("westeurope-1", "westeurope-2", "westeurope-3", "0"),
    labels.REGION: ("westeurope",),
    PLACEMENT_SCOPE: ("regional", "zonal"),
}
OF_SIZES = (GPU_NAME, PRODUCT, f"{DOMAIN}/sku-gpu-count", f"{DOMAIN}/sku-cpu", f"{DOMAIN}/sku-memory")
HEADS = ("Size", "`sku-gpu-name`", "`nvidia.com/gpu.product`", "`sku-gpu-count`", "`sku-cpu`", "`sku-memory`")


def render() -> str:
    """The page. Raises ValueError if a label of sizes has no meaning here."""
    types = InstanceTypeCache(CLOUD).in_region(ANYWHERE).types
    of_skus = {key for kind in types for key in kind.requirements if key.startswith(f"{DOMAIN}/")}
    if missing := of_skus - set(MEANINGS):
        raise ValueError(f"labels without a meaning: {sorted(missing)}")
    keys = [[code(key), _listed(_values(types, key)), meaning] for key, meaning in MEANINGS.items()]
    with_gpus = [kind for kind in types if _value(kind, GPU_NAME)]
    sizes = [[code(kind.name), *(_value(kind, key) for key in OF_SIZES)] for kind in sorted(with_gpus, key=_order)]
    return page(
        "Requirement keys",
        SOURCE,
        INTRODUCTION,
        f"## Keys\n\n{table(['Key', 'Values', 'Meaning'], keys)}",
        AFTER_KEYS,
        f"## Sizes with GPUs\n\nKeys without a prefix have the prefix `karpenter.azure.com/`.\n\n{table(HEADS, sizes)}",
    )


def _value(kind: InstanceType, key: str) -> str:
    found = kind.requirements.get(key)
    return (found.single or "") if found is not None else ""


def _values(types: tuple[InstanceType, ...], key: str) -> list[str]:
    return [*PLACES.get(key, ())] or sorted({*filter(None, (_value(kind, key) for kind in types))}, key=_natural)


def _listed(values: list[str]) -> str:
    shown = ", ".join(map(code, values[:SHOWN_VALUES]))
    return f"{shown}, …" if len(values) > SHOWN_VALUES else shown


def _natural(value: str) -> tuple[int, str]:
    return int(value) if value.isdigit() else -1, value


def _order(kind: InstanceType) -> tuple[str, int, str]:
    return _value(kind, GPU_NAME), int(_value(kind, OF_SIZES[2])), kind.name
