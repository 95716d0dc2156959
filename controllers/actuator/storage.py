"""Reads of the volumes that pods use, for one scheduling decision.

A few objects are read one by one, many in one LIST, so that a decision costs few requests in a small and in a large
cluster.

Source: https://kubernetes.io/docs/concepts/storage/persistent-volumes/.
"""

from collections import defaultdict
from collections.abc import Collection
from typing import TypeVar

from controllers.model.storage import Storage
from provisioner.api.volume import PersistentVolume, PersistentVolumeClaim
from provisioner.runtime.kube import Kube, KubeError
from provisioner.runtime.resources import PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES, STORAGECLASSES, Resource

# More objects than this are read in one LIST.
READ_ONE_BY_ONE = 10

Kind = TypeVar("Kind", PersistentVolumeClaim, PersistentVolume)


async def read_storage(kube: Kube, names: frozenset[str]) -> Storage:
    """The PersistentVolumeClaims `namespace/name`, their volumes and the StorageClasses. Raises KubeError."""
    wanted = defaultdict[str, set[str]](set)
    for namespace, _, name in (one.partition("/") for one in names):
        wanted[namespace].add(name)
    claims: dict[str, PersistentVolumeClaim] = {}
    for namespace, some in sorted(wanted.items()):
        found = await _read(kube, PERSISTENTVOLUMECLAIMS, some, namespace)
        claims |= {f"{namespace}/{name}": claim for name, claim in found.items()}
    volumes = await _read(kube, PERSISTENTVOLUMES, {one.spec.volume_name for one in claims.values()} - {""})
    unbound = any(not one.spec.volume_name for one in claims.values())
    classes = (await kube.list(STORAGECLASSES)).items if unbound else ()
    return Storage(requested=names, claims=claims, volumes=volumes, classes={one.metadata.name: one for one in classes})


async def _read(kube: Kube, resource: Resource[Kind], names: Collection[str], namespace: str = "") -> dict[str, Kind]:
    """Those of the named objects that exist."""
    if len(names) > READ_ONE_BY_ONE:
        listed = (await kube.list(resource, namespace=namespace)).items
        return {one.metadata.name: one for one in listed if one.metadata.name in names}
    found = {}
    for name in sorted(names):
        try:
            found[name] = await kube.get(resource, name, namespace=namespace)
        except KubeError as error:
            if not error.not_found:
                raise
    return found
