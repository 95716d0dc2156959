"""The instance types that can be bought now, converted once for each set of unavailable offerings."""

from collections.abc import Mapping

import msgspec

from cloudprovider.interface import Offering, ResourceSku

from .catalogue import Obstacle, instance_types
from .scenario import WELL_KNOWN, model_instance_type
from .solver import model


class InstanceTypes(msgspec.Struct, frozen=True, kw_only=True):
    """`well_known`: the labels that every type defines."""

    types: tuple[model.InstanceType, ...]
    well_known: frozenset[str]


class InstanceTypeCache:
    """`obstacle(offering)`: why it cannot be requested now, "" if it can."""

    def __init__(self, obstacle: Obstacle) -> None:
        self._obstacle = obstacle
        self._region = ""
        self._skus: Mapping[str, ResourceSku] | None = None
        self._answers: dict[Offering, str] = {}
        self._types = InstanceTypes(types=(), well_known=WELL_KNOWN)

    def in_region(self, region: str, skus: Mapping[str, ResourceSku] | None = None) -> InstanceTypes:
        """The instance types of a region; none for a region without prices. `skus`: None if they are not known."""
        if region == self._region and skus is self._skus and self._current():
            return self._types
        answers: dict[Offering, str] = {}

        def obstacle(offering: Offering) -> str:
            answers[offering] = self._obstacle(offering)
            return answers[offering]

        found = instance_types(region, obstacle, skus)
        keys = {requirement.key for one in found for requirement in one.requirements}
        self._types = InstanceTypes(
            types=tuple(model_instance_type(one) for one in found), well_known=WELL_KNOWN | frozenset(keys)
        )
        self._region, self._skus, self._answers = region, skus, answers
        return self._types

    def _current(self) -> bool:
        return all(self._obstacle(one) == known for one, known in self._answers.items())
