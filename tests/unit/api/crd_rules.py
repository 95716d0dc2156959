"""The CEL rules of a CRD, evaluated on an object."""

import re
from collections.abc import Mapping
from typing import Any

import celpy
from celpy import celtypes
from celpy.adapter import json_to_cel
from celpy.evaluation import CELEvalError


def version(definition: dict[str, Any]) -> dict[str, Any]:
    (only,) = definition["spec"]["versions"]
    assert isinstance(only, dict)
    return only


def find(text: celtypes.StringType, pattern: celtypes.StringType) -> celtypes.StringType:
    """The function `find` that Kubernetes adds to CEL: the first match, or an empty string."""
    match = re.search(str(pattern), str(text))
    return celtypes.StringType(match[0] if match else "")


def broken_rules(schema: Mapping[str, Any], value: Any) -> list[str]:
    """The messages of the rules that a new object violates; transition rules do not apply."""
    broken = []
    for check in schema.get("x-kubernetes-validations", []):
        if "oldSelf" in check["rule"]:
            continue
        environment = celpy.Environment()
        program = environment.program(environment.compile(check["rule"]), functions={"find": find})
        try:
            held = bool(program.evaluate({"self": json_to_cel(value)}))
        except CELEvalError:
            held = False
        if not held:
            broken.append(check["message"])
    if isinstance(value, dict):
        for name, child in schema.get("properties", {}).items():
            broken += broken_rules(child, value[name]) if name in value else []
    if isinstance(value, list):
        for item in value:
            broken += broken_rules(schema["items"], item)
    return broken
