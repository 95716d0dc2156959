"""Validation of metadata and of the built-in kinds.

The checks that a controller of Nodes can fail, with the field paths and reasons of kube-apiserver: names, labels,
annotations, finalizers, owner references; taints and provider IDs; Events and Leases.

Source: https://github.com/kubernetes/apimachinery/tree/master/pkg/api/validation,
https://github.com/kubernetes/kubernetes/tree/master/pkg/apis/core/validation.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from provisioner.api.field_error import FieldError
from provisioner.apiextensions.schema import shown

from .objects import Json, dig

_LABEL = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_DNS_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"
_NAME_WORDS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_KEY_WORDS = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_WORDS = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_PLAIN_FINALIZERS = ("foregroundDeletion", "orphan", "kubernetes", "customresourcecleanup.apiextensions.k8s.io")
_ANNOTATIONS_BYTES = 256 * 1024


# Each write validates the same names, keys and values again.
@lru_cache(maxsize=10_000)
def _matches(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, text) is not None


def _invalid(field: str, value: object, words: str) -> FieldError:
    return FieldError(field, "FieldValueInvalid", f"Invalid value: {shown(value)}: {words}")


def _key(field: str, key: str) -> Iterator[FieldError]:
    """Qualified names: an optional DNS subdomain, a slash, a name of at most 63."""
    prefix, slash, name = key.rpartition("/")
    if slash and not (_matches(_SUBDOMAIN, prefix) and len(prefix) <= 253):
        yield _invalid(field, key, f"prefix part {_NAME_WORDS}")
    if len(name) > 63:
        yield _invalid(field, key, "name part must be no more than 63 bytes")
    if not _matches(_LABEL, name):
        yield _invalid(field, key, _KEY_WORDS)


def _label_value(field: str, value: object) -> Iterator[FieldError]:
    if not isinstance(value, str) or (value and not _matches(_LABEL, value)):
        yield _invalid(field, value, _VALUE_WORDS)
    elif len(value) > 63:
        yield _invalid(field, value, "must be no more than 63 bytes")


def metadata(meta: Json, *, built_in: bool = False) -> Iterator[FieldError]:
    """The invalid fields of an object's metadata."""
    name = meta.get("name") or ""
    if not name:
        yield FieldError("metadata.name", "FieldValueRequired", "Required value: name or generateName is required")
    elif len(name) > 253 or not _matches(_SUBDOMAIN, name):
        yield _invalid("metadata.name", name, _NAME_WORDS)
    for key, value in (meta.get("labels") or {}).items():
        yield from _key("metadata.labels", key)
        yield from _label_value("metadata.labels", value)
    annotations = meta.get("annotations") or {}
    for key in annotations:
        yield from _key("metadata.annotations", key.lower())
    if sum(len(k.encode()) + len(str(v).encode()) for k, v in annotations.items()) > _ANNOTATIONS_BYTES:
        words = f"Too long: may not be more than {_ANNOTATIONS_BYTES} bytes"
        yield FieldError("metadata.annotations", "FieldValueTooLong", words)
    for index, finalizer in enumerate(meta.get("finalizers") or []):
        yield from _key("metadata.finalizers", finalizer)
        if built_in and "/" not in finalizer and finalizer not in _PLAIN_FINALIZERS:
            words = "name is neither a standard finalizer name nor is it fully qualified"
            yield _invalid(f"metadata.finalizers[{index}]", finalizer, words)
    yield from _owners(meta.get("ownerReferences") or [])


def _owners(owners: list[Json]) -> Iterator[FieldError]:
    for owner in owners:
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                yield _invalid(f"metadata.ownerReferences.{field}", owner.get(field, ""), "must not be empty")
    first, *others = [f"{o.get('kind')}/{o.get('name')}" for o in owners if o.get("controller")] or [""]
    if others:
        words = 'Only one reference can have Controller set to true. Found "true" in references for '
        yield _invalid("metadata.ownerReferences", owners, f"{words}{first} and {others[0]}")


def metadata_change(new: Json, old: Json, sent: Json) -> Iterator[FieldError]:
    """Invalid changes: of fields that the server owns, and finalizers added to a deleting object."""
    for field in ("uid", "deletionTimestamp"):
        if sent.get(field) and sent[field] != old.get(field):
            yield _invalid(f"metadata.{field}", sent[field], "field is immutable")
    if "deletionTimestamp" in old:
        added = [f for f in new.get("finalizers") or [] if f not in (old.get("finalizers") or [])]
        if added:
            found = ", ".join(f'"{f}"' for f in added)
            words = (
                "Forbidden: no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{found}}}"
            )
            yield FieldError("metadata.finalizers", "FieldValueForbidden", words)


def node(new: Json, old: Json | None) -> Iterator[FieldError]:
    """Taints are valid and unique by key and effect; a provider ID cannot be changed."""
    seen: list[tuple[object, object]] = []
    effects = ("NoSchedule", "PreferNoSchedule", "NoExecute")
    for index, taint in enumerate(dig(new, "spec", "taints") or []):
        # kube-apiserver reports a change of the spec at the path metadata.
        where = f"metadata.taints[{index}]"
        yield from _key(f"{where}.key", taint.get("key", ""))
        yield from _label_value(f"{where}.value", taint.get("value", ""))
        if not taint.get("effect"):
            yield FieldError(f"{where}.effect", "FieldValueRequired", "Required value")
        elif taint["effect"] not in effects:
            options = ", ".join(f'"{e}"' for e in effects)
            words = f"Unsupported value: {shown(taint.get('effect', ''))}: supported values: {options}"
            yield FieldError(f"{where}.effect", "FieldValueNotSupported", words)
        if (taint.get("key"), taint.get("effect")) in seen:
            words = f"Duplicate value: {shown(taint)}: taints must be unique by key and effect pair"
            yield FieldError(where, "FieldValueDuplicate", words)
        seen.append((taint.get("key"), taint.get("effect")))
    before = dig(old, "spec", "providerID")
    if before and before != dig(new, "spec", "providerID"):
        words = 'Forbidden: node updates may not change providerID except from "" to valid'
        yield FieldError("spec.providerID", "FieldValueForbidden", words)


def pod(new: Json, old: Json | None) -> Iterator[FieldError]:
    """An update cannot change nodeName: a pod is created with it, or the binding subresource sets it once."""
    if old is not None and dig(old, "spec", "nodeName") != dig(new, "spec", "nodeName"):
        words = "Forbidden: pod updates may not change fields other than `spec.containers[*].image` and few others"
        yield FieldError("spec", "FieldValueForbidden", words)


def event(new: Json, _: Json | None) -> Iterator[FieldError]:
    """An Event is in the namespace of its object; of cluster-scoped objects in `default`."""
    namespace, involved = new["metadata"].get("namespace", ""), dig(new, "involvedObject", "namespace") or ""
    if namespace != (involved or "default"):
        yield _invalid("involvedObject.namespace", involved, "does not match event.namespace")


def lease(new: Json, _: Json | None) -> Iterator[FieldError]:
    """The duration is positive and the number of transitions is not negative."""
    seconds, transitions = dig(new, "spec", "leaseDurationSeconds"), dig(new, "spec", "leaseTransitions")
    if seconds is not None and seconds <= 0:
        yield _invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    if transitions is not None and transitions < 0:
        yield _invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0")
