"""The instance types that can be bought now, listed once for each set of unavailable offerings."""

from collections.abc import Callable, Mapping

import msgspec

from cloudprovider.cloud import UNKNOWN_CLUSTER, Cloud, ClusterFacts, InstanceType, Obstacle
from cloudprovider.interface import Offering, ResourceSku
from provisioner.api import labels

WELL_KNOWN = frozenset(
    {
        labels.NODEPOOL,
        labels.ZONE,
        labels.REGION,
        labels.INSTANCE_TYPE,
        labels.ARCH,
        labels.OS,
        labels.CAPACITY_TYPE,
        "node.kubernetes.io/windows-build",
    }
)


class InstanceTypes(msgspec.Struct, frozen=True, kw_only=True):
    """Of `cloud`. `well_known`: the labels that every type defines. `quotas`: those that offerings need, by name."""

    types: tuple[InstanceType, ...]
    well_known: frozenset[str]
    cloud: Cloud
    quotas: frozenset[str] = frozenset()


def _well_known(types: tuple[InstanceType, ...]) -> frozenset[str]:
    """The labels that instance types or their offerings define; a NodePool need not."""
    return WELL_KNOWN.union(
        *(kind.requirements for kind in types), *(one.requirements for kind in types for one in kind.offerings)
    )


def _no_obstacle(_: Offering) -> str:
    return ""


class InstanceTypeCache:
    """`obstacles()` tells of each offering why it cannot be requested now, "" if it can: all can without it."""

    def __init__(self, cloud: Cloud, obstacles: Callable[[], Obstacle] = lambda: _no_obstacle) -> None:
        self._cloud = cloud
        self._obstacles = obstacles
        self._region = ""
        self._skus: Mapping[str, ResourceSku] | None = None
        self._facts = UNKNOWN_CLUSTER
        self._answers: dict[Offering, str] = {}
        self._types = InstanceTypes(types=(), well_known=WELL_KNOWN, cloud=cloud)

    def in_region(
        self,
        region: str,
        skus: Mapping[str, ResourceSku] | None = None,
        facts: ClusterFacts = UNKNOWN_CLUSTER,
    ) -> InstanceTypes:
        """The instance types of a region. `skus`: None if they are not known. `facts`: of its cluster."""
        if region == self._region and skus is self._skus and facts == self._facts and self._current():
            return self._types
        obstacle = self._obstacles()
        answers: dict[Offering, str] = {}

        def recorded(offering: Offering) -> str:
            answers[offering] = obstacle(offering)
            return answers[offering]

        found = self._cloud.instance_types(region, recorded, skus, facts)
        self._types = InstanceTypes(
            types=found,
            well_known=_well_known(found),
            cloud=self._cloud,
            quotas=frozenset(name for kind in found for one in kind.offerings for name in one.quotas),
        )
        self._region, self._skus, self._facts, self._answers = region, skus, facts, answers
        return self._types

    def _current(self) -> bool:
        obstacle = self._obstacles()
        return all(obstacle(one) == known for one, known in self._answers.items())
