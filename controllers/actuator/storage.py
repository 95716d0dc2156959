"""Reads of the volumes that pods use, for one scheduling decision.

A few objects are read one by one, many of a namespace or in many namespaces in one LIST, so that a decision costs few
requests in a small and in a large cluster, whatever the pods are.

Source: https://kubernetes.io/docs/concepts/storage/persistent-volumes/.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TypeVar

from controllers.model.storage import Storage
from provisioner.api.volume import PersistentVolumeClaim
from provisioner.runtime.kept import identity, only
from provisioner.runtime.kube import Kube, KubeError
from provisioner.runtime.objects import KubeObject, key_of
from provisioner.runtime.resources import PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES, STORAGECLASSES, Resource

from .kept import volume_claim

# More objects than this, or those of more namespaces, are read in one LIST.
READ_ONE_BY_ONE = 10

Kind = TypeVar("Kind", bound=KubeObject)


async def read_storage(kube: Kube, names: frozenset[str]) -> Storage:
    """The PersistentVolumeClaims `namespace/name`, their volumes and the StorageClasses.

    An error of a request is kept with the claims that it concerns.
    """
    reads, wanted = _Reads(kube), defaultdict[str, list[str]](list)
    for name in sorted(names):
        wanted[name.partition("/")[0]].append(name)
    claims: dict[str, PersistentVolumeClaim] = {}
    unread: dict[str, str] = {}
    everywhere = len(wanted) > READ_ONE_BY_ONE
    for namespace, some in [("", sorted(names))] if everywhere else wanted.items():
        one_by_one = not everywhere and len(names) <= READ_ONE_BY_ONE
        found, failed = await reads.named(
            PERSISTENTVOLUMECLAIMS, some, namespace, digest=volume_claim, one_by_one=one_by_one
        )
        claims |= found
        unread |= failed
    bound_to = {name: one.spec.volume_name for name, one in claims.items() if one.spec.volume_name}
    bound = sorted(set(bound_to.values()))
    volumes, failed = await reads.named(
        PERSISTENTVOLUMES, bound, digest=identity, one_by_one=len(bound) <= READ_ONE_BY_ONE
    )
    unread |= {name: failed[one] for name, one in bound_to.items() if one in failed}
    unbound = [name for name in claims if name not in bound_to]
    classes, error = await reads.all(STORAGECLASSES, identity) if unbound else ((), "")
    if error:
        unread |= dict.fromkeys(unbound, error)
    by_name = {one.metadata.name: one for one in classes}
    return Storage(requested=names, claims=claims, volumes=volumes, classes=by_name, unread=unread)


class _Reads:
    """Requests of one decision. Once the API server does not answer, no other request waits for it."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._unanswered = ""

    async def named(
        self,
        resource: Resource[Kind],
        keys: Sequence[str],
        namespace: str = "",
        *,
        digest: Callable[[Kind], Kind],
        one_by_one: bool,
    ) -> tuple[dict[str, Kind], dict[str, str]]:
        """Those of the objects `namespace/name`, or `name`, that exist; and why others could not be read."""
        failed: dict[str, str] = {}
        if one_by_one:
            read = [await self._one(resource, key, namespace, failed) for key in keys]
            found: Sequence[Kind] = [digest(one) for one in read if one is not None]
        else:
            found, error = await self.all(resource, only(frozenset(keys), digest), namespace)
            failed = dict.fromkeys(keys, error) if error else {}
        # Of such an object only a part is known.
        partly = [one for one in found if one.metadata.unreadable]
        failed |= {key_of(one): f"{resource.kind} {key_of(one)}: {one.metadata.unreadable[0]}" for one in partly}
        return {key_of(one): one for one in found if not one.metadata.unreadable}, failed

    async def _one(self, resource: Resource[Kind], key: str, namespace: str, failed: dict[str, str]) -> Kind | None:
        if self._unanswered:
            failed[key] = self._unanswered
            return None
        # The API server accepts any text as the name of a claim in a pod, with slashes too.
        name = key.removeprefix(f"{namespace}/") if namespace else key
        try:
            return await self._kube.get(resource, name, namespace=namespace)
        except KubeError as error:
            if not error.not_found:
                failed[key] = self._failed(error)
            return None

    async def all(
        self, resource: Resource[Kind], digest: Callable[[Kind], Kind | None], namespace: str = ""
    ) -> tuple[Sequence[Kind], str]:
        """What is kept of a namespace, or of the cluster; or nothing and why."""
        if self._unanswered:
            return (), self._unanswered
        try:
            return (await self._kube.list(resource, digest=digest, namespace=namespace)).items, ""
        except KubeError as error:
            return (), self._failed(error)

    def _failed(self, error: KubeError) -> str:
        if error.retryable and not error.unexpected:
            self._unanswered = str(error)
        return str(error)
