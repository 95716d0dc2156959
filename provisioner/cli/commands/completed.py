"""Names of the kubeconfig and of the objects of a cluster, for the completion of arguments."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from provisioner.api.meta import Struct
from provisioner.cli.arguments import Completes
from provisioner.operator.clients import open_kube
from provisioner.operator.config import DEFAULT_KUBECONFIG
from provisioner.runtime.kube import Kube
from provisioner.runtime.objects import KubeObject, key_of
from provisioner.runtime.resources import NAMESPACES, NODECLAIMS, NODEPOOLS, Resource
from provisioner.settings import Settings, bounded_yaml

from .explain import TYPES

# A user waits for it at a prompt.
SECONDS = 3.0
PLAIN: Mapping[Completes, Resource[Any]] = {Completes.NAMESPACES: NAMESPACES, Completes.NODECLAIMS: NODECLAIMS}
# The kinds whose names are offered without the kind; of pods there may be too many.
UNPREFIXED = (NODECLAIMS, NODEPOOLS)


class _Context(Struct, frozen=True, kw_only=True):
    name: str = ""


class _Kubeconfig(Struct, frozen=True, kw_only=True):
    contexts: tuple[_Context, ...] = ()


def contexts(settings: Settings) -> tuple[str, ...]:
    """Raises OSError, ValueError, YAMLError and ValidationError for a kubeconfig that cannot be read."""
    found: list[_Context] = []
    for path in (settings.kubeconfig or DEFAULT_KUBECONFIG).split(os.pathsep):
        with Path(path).expanduser().open(encoding="utf-8") as file:
            for body in bounded_yaml.load_all(bounded_yaml.read(file)):
                found += msgspec.convert(body, _Kubeconfig).contexts
    return tuple(one.name for one in found)


async def names(settings: Settings, wanted: Completes, prefix: str) -> Sequence[str]:
    """The names that are wanted. Raises ConfigException, KubeError and TimeoutError."""
    async with asyncio.timeout(SECONDS), open_kube(settings) as kube:
        if wanted in PLAIN:
            return await _names(kube, PLAIN[wanted])
        return await explained(kube, prefix)


async def explained(kube: Kube, prefix: str) -> list[str]:
    """What `explain` accepts: names, or kinds with a name once the kind is written. Raises KubeError."""
    kind, slash, _ = prefix.partition("/")
    if not slash:
        kinds = ("nodeclaim/", "nodepool/", "pod/")
        return [*kinds, *[name for resource in UNPREFIXED for name in await _names(kube, resource)]]
    resource = TYPES.get(kind)
    return [] if resource is None else [f"{kind}/{name}" for name in await _names(kube, resource)]


async def _names(kube: Kube, resource: Resource[Any]) -> list[str]:
    """With the namespace, if the kind has one."""
    return sorted((await kube.list(resource, digest=_key)).items)


def _key(found: KubeObject) -> str:
    return key_of(found)
