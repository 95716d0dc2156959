"""Reads of the claims for devices, for one scheduling decision.

All ResourceClaims are read, because those that are allocated tell which devices of a Node are left.

Source: docs/references/kubernetes.md#dynamic-resource-allocation.
"""

from collections.abc import Collection

from controllers.model.storage import DeviceClaims
from provisioner.api.deviceclaim import ResourceClaimTemplate
from provisioner.runtime.kept import identity, only
from provisioner.runtime.kube import Kube
from provisioner.runtime.objects import key_of
from provisioner.runtime.resources import DEVICECLASSES, RESOURCECLAIMS, RESOURCECLAIMTEMPLATES

from .kept import resource_claim_templates, resource_claims

# More templates than this are read in one LIST.
READ_ONE_BY_ONE = 10


async def read_devices(kube: Kube, names: frozenset[str]) -> DeviceClaims:
    """All ResourceClaims and DeviceClasses, and these ResourceClaimTemplates `namespace/name`. Raises KubeError."""
    claims = (await kube.list(RESOURCECLAIMS, digest=resource_claims())).items
    classes = (await kube.list(DEVICECLASSES, digest=identity)).items
    return DeviceClaims(
        requested=names,
        claims={key_of(one): one for one in claims},
        templates=await _templates(kube, names - {""}),
        classes={one.metadata.name: one for one in classes},
    )


async def _templates(kube: Kube, names: Collection[str]) -> dict[str, ResourceClaimTemplate]:
    digest = resource_claim_templates()
    if len(names) > READ_ONE_BY_ONE:
        return {key_of(one): one for one in (await kube.list(RESOURCECLAIMTEMPLATES, digest=only(names, digest))).items}
    found = {}
    for full in sorted(names):
        namespace, _, name = full.partition("/")
        if (template := await kube.find(RESOURCECLAIMTEMPLATES, name, namespace=namespace)) is not None:
            found[full] = digest(template)
    return found
