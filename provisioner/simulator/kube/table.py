"""`metav1.Table`, the form that `kubectl get` prints.

The columns of built-in kinds are those of kube-apiserver, those of custom resources their `additionalPrinterColumns`.
Dates are shown as ages, computed by the server.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables,
https://github.com/kubernetes/apiextensions-apiserver/tree/master/pkg/registry/customresource/tableconvertor.
"""

from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal

import msgspec

from .builtin_columns import AGE, COLUMNS, NAME, Cell, Column, age
from .jsonpath import compile_path
from .objects import Json, Record
from .resources import Resource

IncludeObject = Literal["Object", "Metadata", "None"]


def columns_of(resource: Resource) -> tuple[Column, ...]:
    """The kind's columns; a CRD without any has name and age."""
    if resource.key in COLUMNS:
        return COLUMNS[resource.key]
    if not resource.printer_columns:
        return (NAME, AGE)
    return _compiled(msgspec.json.encode(resource.printer_columns))


@lru_cache(maxsize=32)
def _compiled(encoded: bytes) -> tuple[Column, ...]:
    return (NAME, *(_column(column) for column in msgspec.json.decode(encoded)))


def _column(spec: Json) -> Column:
    is_date = spec["type"] == "date"
    return Column(
        spec["name"],
        _cell(spec["jsonPath"], is_date=is_date),
        priority=spec.get("priority", 0),
        type=spec["type"],
        format=spec.get("format", ""),
        description=spec.get("description")
        or f"Custom resource definition column (in JSONPath format): {spec['jsonPath']}",
    )


def _cell(path: str, *, is_date: bool) -> Cell:
    find = compile_path(path)

    def cell(obj: Json, now: datetime) -> Any:
        found = find(obj)
        if not found or found[0] is None:
            return None
        return age(found[0], now) if is_date else found[0]

    return cell


def table(
    resource: Resource,
    records: Iterable[Record],
    list_meta: Json,
    *,
    now: datetime,
    include: IncludeObject = "Metadata",
) -> Json:
    """The Table for these objects. `list_meta` is the list's metadata (of a single object: its resourceVersion)."""
    columns = columns_of(resource)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_meta,
        "columnDefinitions": [
            {"name": c.name, "type": c.type, "format": c.format, "description": c.description, "priority": c.priority}
            for c in columns
        ],
        "rows": [
            {"cells": [c.cell(record.obj, now) for c in columns], "object": _included(record, include)}
            for record in records
        ],
    }


def _included(record: Record, include: IncludeObject) -> object:
    if include == "None":
        return None
    if include == "Object":
        return msgspec.Raw(record.raw)
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": record.obj["metadata"]}
