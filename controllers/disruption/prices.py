"""The machines that replace others, limited to sizes that cost less even if the dearest of them is launched.

Source: docs/references/karpenter.md#consolidation.
"""

import math
from collections.abc import Mapping, Sequence

import msgspec

from cloudprovider.cloud import InstanceType
from cloudprovider.interface import SPOT
from controllers.provisioning.instances import InstanceTypes
from controllers.provisioning.solver import model
from provisioner.api import labels
from provisioner.api.value_sets import one_of


class Prices:
    """The prices of new machines. `types`: the sizes on offer."""

    def __init__(self, types: InstanceTypes) -> None:
        self._offered = types
        self._by_pool: dict[str, dict[str, InstanceType]] = {}

    def below(self, machines: Sequence[model.NewMachine], most: float) -> tuple[model.NewMachine, ...] | None:
        """The machines with only those sizes that keep the sum of all below `most`; None if that is impossible."""
        if any(one.price is None for one in machines):
            return None
        total = sum(one.price or 0.0 for one in machines)
        if not machines or total >= most:
            return None
        found = []
        for one in machines:
            # Prices can be 0: reserved instances are paid without machines, too.
            share = (one.price or 0.0) / total if total else 1 / len(machines)
            narrowed = self._narrowed(one, most * share)
            if narrowed is None:
                return None
            found.append(narrowed)
        return tuple(found)

    def worst(self, machine: model.NewMachine) -> float:
        """The most that the machine may cost."""
        return max(self._worst(name, machine) for name in machine.instance_types)

    def _types_of(self, machine: model.NewMachine) -> dict[str, InstanceType]:
        """The types by name, with the prices of the machine's NodePool."""
        if machine.node_pool not in self._by_pool:
            found = self._offered.of_pool(machine.node_pool)
            self._by_pool[machine.node_pool] = {kind.name: kind for kind in found}
        return self._by_pool[machine.node_pool]

    def _narrowed(self, machine: model.NewMachine, most: float) -> model.NewMachine | None:
        """The machine with sizes that cost less; as spot only if it costs less only then."""
        terms = machine.requirements.get(labels.CAPACITY_TYPE)
        options = [machine]
        if terms is not None and SPOT in terms.values and len(terms.values) > 1:
            options.append(_requiring(machine, {labels.CAPACITY_TYPE: one_of((SPOT,))}))
        for one in options:
            names = tuple(name for name in one.instance_types if self._worst(name, one) < most)
            if names and self._has_min_values(one, names):
                sizes = one.requirements.get(labels.INSTANCE_TYPE)
                fewest = sizes.min_values if sizes is not None else 0
                kept = msgspec.structs.replace(one, instance_types=names)
                return _requiring(kept, {labels.INSTANCE_TYPE: one_of(names, fewest)})
        return None

    def _worst(self, name: str, machine: model.NewMachine) -> float:
        """The dearest offering of a size that the machine allows; infinite if a price is not known."""
        kind = self._types_of(machine).get(name)
        prices = [
            math.inf if one.price is None else one.price
            for one in (kind.offerings if kind is not None else ())
            if _allows(machine, labels.ZONE, one.zone) and _allows(machine, labels.CAPACITY_TYPE, one.capacity_type)
        ]
        return max(prices, default=math.inf)

    def _has_min_values(self, machine: model.NewMachine, names: Sequence[str]) -> bool:
        for key, wanted in machine.requirements.items():
            if wanted.min_values:
                sets = [self._types_of(machine)[name].requirements.get(key) for name in names]
                if len({value for one in sets if one is not None for value in one.values}) < wanted.min_values:
                    return False
        return True


def _requiring(machine: model.NewMachine, changed: Mapping[str, object]) -> model.NewMachine:
    return msgspec.structs.replace(machine, requirements={**machine.requirements, **changed})


def _allows(machine: model.NewMachine, key: str, value: str) -> bool:
    wanted = machine.requirements.get(key)
    return wanted is None or wanted.allows(value)
