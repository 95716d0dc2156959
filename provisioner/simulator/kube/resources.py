"""The served kinds: built-in ones and those of CRDs.

A frozen `Resource` has everything that the store and the server need to know about a kind.

Source: https://github.com/kubernetes/kubernetes/tree/master/pkg/registry, the strategies (what survives a create, which
PUT needs a version, what DELETE answers).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import jsonschema_rs
import msgspec
from celpy.celparser import CELParseError

from provisioner.api.field_error import FieldError
from provisioner.apiextensions.schema import Schema

from . import builtin_validation
from .objects import Json

Check = Callable[[Json, Json | None], Iterator[FieldError]]

CRD_KEY = "customresourcedefinitions.apiextensions.k8s.io"
CRD_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
_NODE_FIELDS = ("spec.unschedulable",)
_POD_FIELDS = ("spec.nodeName", "status.phase", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName")
_EVENT_FIELDS = (
    *(
        f"involvedObject.{f}"
        for f in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    ),
    "reason",
    "reportingComponent",
    "source",
    "type",
)


def _anything(_new: Json, _old: Json | None) -> Iterator[FieldError]:
    return iter(())


def _crd(new: Json, _: Json | None) -> Iterator[FieldError]:
    """The CRD must compile; missing and invalid parts are reported."""
    try:
        resource = from_crd(new)
    except (KeyError, StopIteration, TypeError, ValueError, CELParseError, jsonschema_rs.ValidationError) as error:
        yield FieldError("spec", "FieldValueInvalid", f"Invalid value: {type(error).__name__}: {error}")
        return
    if resource.key != new["metadata"]["name"]:
        words = f'Invalid value: "{new["metadata"]["name"]}": must be spec.names.plural+"."+spec.group'
        yield FieldError("metadata.name", "FieldValueInvalid", words)


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind.

    `has_status`: there is a status subresource, and a write to the main resource ignores status. `initial_status`: the
    status of a new object; None keeps the sent one. `status_moves_metadata`: labels, annotations and
    finalizers may be written through /status (built-in kinds). `needs_version`: a PUT must name the resourceVersion
    it replaces. `returns_deleted`: the response of a DELETE is the object instead of a Status.
    """

    plural: str
    kind: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    has_status: bool = False
    initial_status: Json | None = None
    counts_generation: bool = False
    status_moves_metadata: bool = True
    needs_version: bool = False
    returns_deleted: bool = False
    fields: tuple[str, ...] = ()
    check: Check = _anything
    schema: Schema | None = None
    printer_columns: tuple[Json, ...] = ()
    singular: str = ""

    @property
    def key(self) -> str:
        """Plural and group, as in error messages: `nodes`, `nodeclaims.karpenter.sh`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified_kind(self) -> str:
        """Kind and group, as in some messages: `Node`, `NodeClaim.karpenter.sh`."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def selectable(self) -> tuple[str, ...]:
        """The supported field selectors."""
        return (
            ("metadata.name", "metadata.namespace", *self.fields)
            if self.namespaced
            else ("metadata.name", *self.fields)
        )

    @property
    def one(self) -> str:
        """The singular name."""
        return self.singular or self.kind.lower()


_BUILT_IN = (
    Resource(
        "namespaces",
        "Namespace",
        namespaced=False,
        short_names=("ns",),
        has_status=True,
        initial_status={"phase": "Active"},
    ),
    Resource(
        "nodes",
        "Node",
        namespaced=False,
        short_names=("no",),
        has_status=True,
        fields=_NODE_FIELDS,
        check=builtin_validation.node,
    ),
    Resource(
        "pods",
        "Pod",
        short_names=("po",),
        categories=("all",),
        has_status=True,
        initial_status={"phase": "Pending", "qosClass": "BestEffort"},
        counts_generation=True,
        returns_deleted=True,
        fields=_POD_FIELDS,
        check=builtin_validation.pod,
    ),
    Resource("events", "Event", short_names=("ev",), fields=_EVENT_FIELDS, check=builtin_validation.event),
    Resource(
        "daemonsets",
        "DaemonSet",
        "apps",
        short_names=("ds",),
        categories=("all",),
        has_status=True,
        initial_status={
            "currentNumberScheduled": 0,
            "desiredNumberScheduled": 0,
            "numberMisscheduled": 0,
            "numberReady": 0,
        },
        counts_generation=True,
    ),
    Resource(
        "jobs",
        "Job",
        "batch",
        categories=("all",),
        has_status=True,
        counts_generation=True,
    ),
    Resource(
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        short_names=("pvc",),
        has_status=True,
        initial_status={"phase": "Pending"},
    ),
    Resource(
        "persistentvolumes",
        "PersistentVolume",
        namespaced=False,
        short_names=("pv",),
        has_status=True,
        initial_status={"phase": "Pending"},
    ),
    Resource("storageclasses", "StorageClass", "storage.k8s.io", namespaced=False, short_names=("sc",)),
    Resource("leases", "Lease", "coordination.k8s.io", needs_version=True, check=builtin_validation.lease),
    Resource(
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        "policy",
        short_names=("pdb",),
        has_status=True,
        initial_status={},
        counts_generation=True,
        needs_version=True,
    ),
    Resource(
        "resourceslices",
        "ResourceSlice",
        "resource.k8s.io",
        namespaced=False,
        counts_generation=True,
        returns_deleted=True,
        fields=("spec.driver", "spec.nodeName"),
    ),
    Resource(
        "resourceclaims",
        "ResourceClaim",
        "resource.k8s.io",
        has_status=True,
        initial_status={},
        returns_deleted=True,
    ),
    Resource("resourceclaimtemplates", "ResourceClaimTemplate", "resource.k8s.io", returns_deleted=True),
    Resource("deviceclasses", "DeviceClass", "resource.k8s.io", namespaced=False, returns_deleted=True),
    Resource(
        "volumeattachments",
        "VolumeAttachment",
        "storage.k8s.io",
        namespaced=False,
        has_status=True,
        initial_status={"attached": False},
    ),
    Resource(
        "customresourcedefinitions",
        "CustomResourceDefinition",
        "apiextensions.k8s.io",
        namespaced=False,
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        has_status=True,
        initial_status={},
        counts_generation=True,
        check=_crd,
    ),
)


def built_in() -> dict[str, Resource]:
    """The built-in kinds by key."""
    return {resource.key: resource for resource in _BUILT_IN}


def from_crd(crd: Json) -> Resource:
    """The kind that a CRD describes. Equal specs share one compiled schema: because compiling is slow."""
    return _compiled(msgspec.json.encode(crd["spec"]))


@lru_cache(maxsize=32)
def _compiled(encoded: bytes) -> Resource:
    spec = msgspec.json.decode(encoded)
    names = spec["names"]
    version = next(v for v in spec["versions"] if v.get("storage"))
    return Resource(
        names["plural"],
        names["kind"],
        spec["group"],
        version["name"],
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        has_status="status" in (version.get("subresources") or {}),
        initial_status={},
        counts_generation=True,
        status_moves_metadata=False,
        needs_version=True,
        fields=tuple(f["jsonPath"].lstrip(".") for f in version.get("selectableFields") or ()),
        schema=Schema(version["schema"]["openAPIV3Schema"]),
        printer_columns=tuple(version.get("additionalPrinterColumns") or ()),
        singular=names.get("singular", ""),
    )


def established(crd: Json, now: str) -> Json:
    """The status of a served CRD."""
    words = {
        "NamesAccepted": ("NoConflicts", "no conflicts found"),
        "Established": ("InitialNamesAccepted", "the initial names have been accepted"),
    }
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message}
        for kind, (reason, message) in words.items()
    ]
    stored = next(v["name"] for v in crd["spec"]["versions"] if v.get("storage"))
    return {"conditions": conditions, "acceptedNames": crd["spec"]["names"], "storedVersions": [stored]}
