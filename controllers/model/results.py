"""What came of a step: the facts that an attempt adds, for the reconciler to remember.

An outcome says what was written and at which version, or what was read, or why not; it decides nothing.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from cloudprovider.errors import CloudError
from cloudprovider.interface import Failure
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.pod import Pod
from provisioner.api.volume import VolumeAttachment
from provisioner.runtime.kube import KubeError
from provisioner.runtime.objects import CustomResourceDefinition

from .facts import Remedy


class Wrote(msgspec.Struct, frozen=True, kw_only=True):
    """A write that the API server took. `resource_version` is "" for a delete, whose trace is a deleting object.

    `gone`: the object went with this write; the answer then bears the version before it. `claim`: as this write of it
    left it, which is as fresh as any read.
    """

    kind: Literal["claim", "node"]
    name: str
    uid: str
    resource_version: str
    gone: bool = False
    claim: NodeClaim | None = None


class Evicted(msgspec.Struct, frozen=True, kw_only=True):
    """What came of asking pods to leave, by their UIDs.

    `asked`: they are leaving; `gone`: they were gone before, or are others by now; `blocked`: budgets do not let them,
    in the API server's words; `failed`: it would not for another reason, and none after it was asked.
    """

    asked: frozenset[str]
    gone: frozenset[str] = frozenset()
    blocked: Mapping[str, str] = {}
    failed: Mapping[str, str] = {}


class ReadPool(msgspec.Struct, frozen=True, kw_only=True):
    """The pool was looked up; the inventory has the answer."""


class ReadCause(msgspec.Struct, frozen=True, kw_only=True):
    """Why an instance failed; None: nobody tells, and asking again would not help."""

    failure: Failure | None


class ReadCluster(msgspec.Struct, frozen=True, kw_only=True):
    """The managed cluster was looked up; the inventory has the answer."""


class ReadCrd(msgspec.Struct, frozen=True, kw_only=True):
    """The NodeClaim CRD as it is now; None if there is none."""

    crd: CustomResourceDefinition | None


class ReadClaim(msgspec.Struct, frozen=True, kw_only=True):
    claim: NodeClaim | None


class ReadNodes(msgspec.Struct, frozen=True, kw_only=True):
    nodes: tuple[Node, ...]


class ReadEvents(msgspec.Struct, frozen=True, kw_only=True):
    """What AKS's auto-repair does to a Node; None: the API server does not let us read Events."""

    remedies: tuple[Remedy, ...] | None


class ReadPods(msgspec.Struct, frozen=True, kw_only=True):
    pods: tuple[Pod, ...]


class ReadAttached(msgspec.Struct, frozen=True, kw_only=True):
    """`kept`: the PersistentVolumes behind the volume claims that were asked for; unbound ones have none."""

    attachments: tuple[VolumeAttachment, ...]
    kept: frozenset[str]


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """The cloud took the request; the inventory has the answer."""


class CloudFailed(msgspec.Struct, frozen=True, kw_only=True):
    error: CloudError


class KubeFailed(msgspec.Struct, frozen=True, kw_only=True):
    error: KubeError


class Fenced(msgspec.Struct, frozen=True, kw_only=True):
    """Not sent: too little is left of the lease."""


Answered = ReadPool | ReadCause | ReadCluster | ReadClaim | ReadCrd | ReadNodes | ReadEvents | ReadPods | ReadAttached
Outcome = Wrote | Evicted | Answered | Accepted | CloudFailed | KubeFailed | Fenced
