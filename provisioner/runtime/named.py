"""A cache of a few objects whose names are known, one reflector for each, so that no other object of the kind is read.

A cluster can have hundreds of CustomResourceDefinitions of a megabyte, of which the program uses three.
"""

import asyncio
import math
from collections.abc import Callable, Collection
from dataclasses import replace
from random import Random  # noqa: TID251 - the type; the caller seeds it
from typing import Generic, Never, Protocol, TypeVar

from .change_handlers import OnChange
from .kube import Kube, KubeError
from .metrics import Metrics, ReflectorMetrics, age_since
from .objects import KubeObject
from .reflector import Reflector
from .resources import Resource

T = TypeVar("T", bound=KubeObject)
T_co = TypeVar("T_co", bound=KubeObject, covariant=True)


class Named(Protocol[T_co]):
    """What is read of a cache by name."""

    @property
    def synced(self) -> bool:
        """Whether everything was listed."""

    @property
    def last_error(self) -> KubeError | None:
        """Why the cache is not current now."""

    def get(self, name: str) -> T_co | None:
        """The object of this name."""


class NamedReflectors(Generic[T]):
    """The cluster-scoped objects with these names; of others nothing is known. `metrics`: those of all together."""

    def __init__(
        self,
        kube: Kube,
        resource: Resource[T],
        names: Collection[str],
        *,
        rng: Random,
        metrics: ReflectorMetrics | None = None,
    ) -> None:
        shared = metrics or Metrics().reflector(resource.plural)
        own = Metrics().reflector(resource.plural)  # gauges that all reflectors would set alike
        self._metrics = shared
        self._on_synced: list[Callable[[], None]] = []
        self._reflectors = {
            name: Reflector(
                kube,
                resource,
                rng=rng,
                indexes={},
                on_synced=self._one_synced,
                field_selector=f"metadata.name={name}",
                metrics=replace(shared, age_seconds=own.age_seconds, objects=own.objects),
            )
            for name in names
        }

    @property
    def synced(self) -> bool:
        """Whether each was listed."""
        return all(one.synced for one in self._reflectors.values())

    @property
    def last_error(self) -> KubeError | None:
        """The error of one that is not current now."""
        return next((one.last_error for one in self._reflectors.values() if one.last_error is not None), None)

    def get(self, name: str) -> T | None:
        """The object of this name; None if it does not exist."""
        reflector = self._reflectors.get(name)
        return reflector.get(name) if reflector is not None else None

    def add_event_handler(self, on_change: OnChange[T], *, on_synced: Callable[[], None] | None = None) -> None:
        """Subscribe before `run`; `on_synced` is called once, when each was listed."""
        for one in self._reflectors.values():
            one.add_event_handler(on_change)
        if on_synced is not None:
            self._on_synced.append(on_synced)

    async def run(self) -> Never:
        """List and watch each until cancelled."""
        reflectors = self._reflectors.values()
        self._metrics.age_seconds.set_function(
            age_since(lambda: min((one.fresh_at for one in reflectors), default=-math.inf))
        )
        self._metrics.objects.set_function(lambda: float(sum(len(one.items()) for one in reflectors)))
        async with asyncio.TaskGroup() as tasks:
            for name, one in self._reflectors.items():
                tasks.create_task(one.run(), name=name)
        raise AssertionError("unreachable: reflectors end only by cancellation")

    async def list_once(self) -> None:
        """Fill the cache once, without watches. Raises KubeError."""
        for one in self._reflectors.values():
            await one.list_once()

    def _one_synced(self) -> None:
        if self.synced:
            for on_synced in self._on_synced:
                on_synced()
