"""Keeps running pods on the GPU model that they run on, unless their own constraints name several models.

The model of a size includes its memory: a pod that fills a GPU with
80 GiB must not move to one with 40 GiB. So does the division of its GPUs into slices or shares.

Source: docs/references/agent-pools.md#gpu-sizes.
"""

from collections.abc import Iterable

from cloudprovider.azure.machine_labels import DOMAIN
from cloudprovider.azure.pricing import size_of
from controllers.provisioning.solver import model
from controllers.provisioning.solver.requirements import Requirements, combine, excludes
from provisioner.api import labels
from provisioner.api.value_sets import one_of
from provisioner.vendors import VENDORS

from .gpu_parts import PARTS, GpuParts

GPU_NAME = f"{DOMAIN}/sku-gpu-name"
# A pod that lists several values of one of these chooses the models itself.
NAMING = (GPU_NAME, *(one.product for one in VENDORS if one.product), f"{DOMAIN}/sku-name", labels.INSTANCE_TYPE)


class GpuModels:
    """`types`: the sizes that a pod may run on. `parts`: how the GPUs of the machines are divided."""

    def __init__(self, types: Iterable[model.InstanceType], parts: GpuParts) -> None:
        self._parts = parts
        self._models = {kind.name: _model(kind) for kind in types}
        self._restricted: dict[tuple[int, str, str], tuple[model.PodSpec, model.PodSpec]] = {}

    def of(self, size: str) -> str:
        """The model, or the name of a size whose model is not known."""
        return self._models.get(size) or size

    def kept(self, spec: model.PodSpec, size: str, node: str) -> model.PodSpec:
        """The constraints of a pod that uses GPUs of this size on this Node, with those of their model and division."""
        fixed = self._parts.of(node)
        if _names_several(spec) and not fixed:
            return spec
        key = id(spec), size, fixed[PARTS].single or "" if fixed else ""
        if key not in self._restricted:
            self._restricted[key] = spec, self._restrict(spec, size, fixed)
        return self._restricted[key][1]

    def _restrict(self, spec: model.PodSpec, size: str, fixed: Requirements) -> model.PodSpec:
        if not _names_several(spec):
            same = (name for name in self._models if self.of(name) == self.of(size))
            fixed = {**fixed, labels.INSTANCE_TYPE: one_of((size, *same))}
        allowed = tuple(combine(one, fixed) for one in spec.alternatives if not excludes(one, fixed))
        return spec.with_changes(alternatives=allowed)


def _model(kind: model.InstanceType) -> str:
    """The GPU model of a size, "" if it is not known."""
    size = size_of(kind.name)
    if size is not None and size.gpu_model:
        return size.gpu_model
    named = kind.requirements.get(GPU_NAME)
    return (named.single or "") if named is not None else ""


def _names_several(spec: model.PodSpec) -> bool:
    """Whether each alternative lists values of the same label, and they are several in all."""
    for key in NAMING:
        found = [one.get(key) for one in spec.alternatives]
        values = {value for one in found if one is not None and not one.complement for value in one.values}
        if len(values) > 1 and all(one is not None and not one.complement for one in found):
            return True
    return False
