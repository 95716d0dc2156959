"""The instance types that can be bought now, converted once for each set of unavailable offerings."""

from collections.abc import Callable

import msgspec

from cloudprovider.interface import Offering

from .catalogue import instance_types
from .scenario import WELL_KNOWN, model_instance_type
from .solver import model


class InstanceTypes(msgspec.Struct, frozen=True, kw_only=True):
    """`well_known`: the labels that every type defines."""

    types: tuple[model.InstanceType, ...]
    well_known: frozenset[str]


class InstanceTypeCache:
    """`available(offering)`: whether it may be requested now."""

    def __init__(self, available: Callable[[Offering], bool]) -> None:
        self._available = available
        self._region = ""
        self._answers: dict[Offering, bool] = {}
        self._types = InstanceTypes(types=(), well_known=WELL_KNOWN)

    def in_region(self, region: str) -> InstanceTypes:
        """The instance types of a region; none for a region without prices."""
        if region == self._region and all(self._available(one) == known for one, known in self._answers.items()):
            return self._types
        answers: dict[Offering, bool] = {}

        def available(offering: Offering) -> bool:
            answers[offering] = self._available(offering)
            return answers[offering]

        found = instance_types(region, available)
        keys = {requirement.key for one in found for requirement in one.requirements}
        self._types = InstanceTypes(
            types=tuple(model_instance_type(one) for one in found), well_known=WELL_KNOWN | frozenset(keys)
        )
        self._region, self._answers = region, answers
        return self._types
