"""OpenAPI v3 documents of the served kinds, as far as kubectl reads them.

Every served group and version has a document with the schemas of its kinds (a CRD's own, with its descriptions, for
`kubectl explain`), and with paths that show that the server validates unknown fields.

Source: https://kubernetes.io/docs/concepts/overview/kubernetes-api/#openapi-v3, docs/references/kubernetes.md#kubectl.
"""

from collections.abc import Iterable

from .discovery import VERSION
from .objects import Json
from .resources import Resource

_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_WRITE_PARAMETERS = [
    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    for name in ("dryRun", "fieldManager", "fieldValidation")
]


def _place(resource: Resource) -> str:
    return f"apis/{resource.group}/{resource.version}" if resource.group else f"api/{resource.version}"


def index(resources: Iterable[Resource]) -> Json:
    """The response of `/openapi/v3`."""
    places = dict.fromkeys(_place(resource) for resource in resources)
    return {"paths": {place: {"serverRelativeURL": f"/openapi/v3/{place}"} for place in places}}


def document(resources: Iterable[Resource], place: str) -> Json | None:
    """The response of `/openapi/v3/<place>`, `place` being `api/v1` or `apis/<group>/<version>`."""
    served = [resource for resource in resources if _place(resource) == place]
    if not served:
        return None
    paths: Json = {}
    schemas: Json = {
        _META: {"type": "object", "description": "ObjectMeta is metadata that all persisted resources must have."}
    }
    for resource in served:
        schemas[_name(resource)] = _schema(resource)
        paths |= _paths(resource, place)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": VERSION["gitVersion"]},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _name(resource: Resource) -> str:
    group = (
        ".".join(reversed(resource.group.split(".")))
        if "." in resource.group
        else f"io.k8s.api.{resource.group or 'core'}"
    )
    return f"{group}.{resource.version}.{resource.kind}"


def _kind(resource: Resource) -> Json:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _schema(resource: Resource) -> Json:
    text = {"type": "string"}
    properties: Json = {"apiVersion": text, "kind": text}
    own: Json = dict(resource.schema.openapi) if resource.schema is not None else {"type": "object"}
    properties |= own.get("properties", {})
    properties["metadata"] = {"allOf": [{"$ref": f"#/components/schemas/{_META}"}], "default": {}}
    if resource.schema is None:
        open_object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        properties |= {"spec": open_object, "status": open_object}
        own["x-kubernetes-preserve-unknown-fields"] = True
    return {**own, "properties": properties, "x-kubernetes-group-version-kind": [_kind(resource)]}


def _paths(resource: Resource, place: str) -> Json:
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    collection = f"/{place}{scope}/{resource.plural}"
    answer = {"200": {"description": "OK"}}

    def operation(action: str, *, writes: bool) -> Json:
        found: Json = {
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": _kind(resource),
            "responses": answer,
        }
        return {**found, "parameters": _WRITE_PARAMETERS} if writes else found

    return {
        collection: {"get": operation("list", writes=False), "post": operation("post", writes=True)},
        f"{collection}/{{name}}": {
            "get": operation("get", writes=False),
            "put": operation("put", writes=True),
            "patch": operation("patch", writes=True),
            "delete": operation("delete", writes=False),
        },
    }
