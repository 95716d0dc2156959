"""Keeps running pods on the GPU model that they run on, unless their own constraints name several models.

The model of a size includes its memory: a pod that fills a GPU with
80 GiB must not move to one with 40 GiB. So does the division of its GPUs into slices or shares.

Source: docs/references/agent-pools.md#gpu-sizes.
"""

from collections.abc import Iterable

from cloudprovider.cloud import Cloud, InstanceType
from controllers.provisioning.instances import InstanceTypes
from controllers.provisioning.solver import model
from provisioner.api import labels
from provisioner.api.requirements import Requirements, combine, excludes
from provisioner.api.value_sets import one_of
from provisioner.vendors import VENDORS

from .gpu_parts import PARTS, GpuParts

PRODUCTS = tuple(one.product for one in VENDORS if one.product)


class GpuModels:
    """`types`: the sizes that a pod may run on. `parts`: how the GPUs of the machines are divided."""

    def __init__(self, types: InstanceTypes, parts: GpuParts) -> None:
        self._parts = parts
        self._models = {kind.name: _model(kind, types.cloud) for kind in types.types}
        # A pod that lists several values of one of these chooses the models itself.
        self._naming = (types.cloud.gpu_model_label, *PRODUCTS, *types.cloud.size_labels)
        self._restricted: dict[tuple[int, str, str], tuple[model.PodSpec, model.PodSpec]] = {}

    def of(self, size: str) -> str:
        """The model, or the name of a size whose model is not known."""
        return self._models.get(size) or size

    def kept(self, spec: model.PodSpec, size: str, node: str) -> model.PodSpec:
        """The constraints of a pod that uses GPUs of this size on this Node, with those of their model and division."""
        fixed = self._parts.of(node)
        if _names_several(spec, self._naming) and not fixed:
            return spec
        key = id(spec), size, fixed[PARTS].single or "" if fixed else ""
        if key not in self._restricted:
            self._restricted[key] = spec, self._restrict(spec, size, fixed)
        return self._restricted[key][1]

    def _restrict(self, spec: model.PodSpec, size: str, fixed: Requirements) -> model.PodSpec:
        if not _names_several(spec, self._naming):
            same = (name for name in self._models if self.of(name) == self.of(size))
            fixed = {**fixed, labels.INSTANCE_TYPE: one_of((size, *same))}
        allowed = tuple(combine(one, fixed) for one in spec.alternatives if not excludes(one, fixed))
        return spec.with_changes(alternatives=allowed)


def _model(kind: InstanceType, cloud: Cloud) -> str:
    """The GPU model of a size, "" if it is not known."""
    if known := cloud.gpus_of(kind.name).model:
        return known
    named = kind.requirements.get(cloud.gpu_model_label)
    return (named.single or "") if named is not None else ""


def _names_several(spec: model.PodSpec, naming: Iterable[str]) -> bool:
    """Whether each alternative lists values of the same label, and they are several in all."""
    for key in naming:
        found = [one.get(key) for one in spec.alternatives]
        values = {value for one in found if one is not None and not one.complement for value in one.values}
        if len(values) > 1 and all(one is not None and not one.complement for one in found):
            return True
    return False
