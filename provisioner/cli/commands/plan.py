"""`plan`: validates manifests of NodeClaims and NodePools offline, and prints what comes of each NodeClaim.

Exit codes: 0 no errors, 1 an object has errors, 2 the manifests cannot be opened or contain no such object. Results go
to standard output in all formats.
"""

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TextIO

import msgspec

from cloudprovider.cloud import Cloud
from provisioner.api import labels
from provisioner.api.field_error import FieldError
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.text import printable
from provisioner.cli.output import encoded

from .console import Console, counted
from .manifests import Document, converted, documents
from .planning import ExpectedNode, Plan, plan, request_of
from .planning_pools import Places, plan_node_class, plan_node_overlay, plan_node_pool
from .refusal import FAILED, OK, USAGE, Refused
from .schedule_input import check_region
from .validation import node_class_errors

GAP = 13
SHOWN_SIZES = 4
SHOWN_KINDS = 5
KINDS = ("NodeClaim", "NodePool", labels.NODECLASS_KIND, "NodeOverlay")


def run(wanted: argparse.Namespace, cloud: Cloud, typed: TextIO, console: Console) -> int:
    """Plan all objects and print the results; returns the exit code. Raises Refused."""
    check_region(wanted.region)
    read = [*documents(wanted.filename, typed)]
    classes = {found.name: found for document in read if (found := _node_class(document.body)) is not None}
    places = Places(cloud=cloud, region=wanted.region or "")
    plans = _with_duplicates([_with_lines(_plan(document, classes, places), document) for document in read])
    if not any(one.kind or one.errors for one in plans):
        files = ", ".join(wanted.filename)
        kinds = f"{', '.join(KINDS[:-1])} or {KINDS[-1]}"
        others = dict.fromkeys(str(one.body.get("kind") or "no kind") for one in read if isinstance(one.body, dict))
        shown = f" ({', '.join([*others][:SHOWN_KINDS])} read)" if others else ""
        near = next((near for one in others for near in get_close_matches(one, KINDS, n=1)), "")
        remedy = f"{f'Did you mean {near}? ' if near else ''}Name manifests of kind {kinds}."
        raise Refused(f"{files}: no {kinds} found{shown}", remedy, USAGE)
    if wanted.output == "table":
        for one in plans:
            console.print(*_lines(one), "")
        console.print(_summary(plans))
    else:
        console.print(encoded(plans, wanted.output))
    return FAILED if any(one.errors for one in plans) else OK


def _node_class(body: Any) -> AgentPoolNodeClass | None:
    """The node class that a document describes; None if it is another object or has errors, which its plan has."""
    if not isinstance(body, dict) or body.get("kind") != labels.NODECLASS_KIND or node_class_errors(body):
        return None
    return converted(body, AgentPoolNodeClass)


def _plan(document: Document, node_classes: Mapping[str, AgentPoolNodeClass], places: Places) -> Plan:
    source, body = document.source, document.body
    if document.error:
        message = f"invalid document: {document.error}"
        remedy = "correct the YAML or JSON there; fields of one object have the same indentation, in spaces"
        return Plan(source=source, errors=(FieldError("", "FieldValueInvalid", message, remedy=remedy),))
    match str(body.get("kind") or "") if isinstance(body, dict) else None:
        case "NodeClaim":
            return plan(source, body, node_classes)
        case "NodePool":
            return plan_node_pool(source, body, node_classes, places)
        case labels.NODECLASS_KIND:
            return plan_node_class(source, body)
        case "NodeOverlay":
            return plan_node_overlay(source, body)
        case None:
            return Plan(source=source, notes=("ignored: the document is not an object",))
        case kind:
            return Plan(source=source, notes=(f"ignored: the document is {kind or 'no kind'}",))


def _with_lines(one: Plan, document: Document) -> Plan:
    """With the line of each field that has an error."""
    fields = dict.fromkeys(error.field for error in one.errors if error.field)
    return msgspec.structs.replace(one, lines={field: line for field in fields if (line := document.line_of(field))})


def _with_duplicates(plans: list[Plan]) -> list[Plan]:
    """The plans, with an error for each name that an earlier object of its kind has."""
    seen: dict[tuple[str, str], str] = {}
    checked = []
    for one in plans:
        first = seen.setdefault((one.kind, one.name), one.source) if one.name else one.source
        if first != one.source:
            message = f"{one.name!r} is also the name of the {one.kind} in {first}"
            remedy = "use another name: only one of them would remain"
            duplicate = FieldError("metadata.name", "FieldValueDuplicate", message, one.name, remedy)
            checked.append(msgspec.structs.replace(one, errors=(*one.errors, duplicate)))
        else:
            checked.append(one)
    return checked


def _lines(one: Plan) -> Iterator[str]:
    yield printable(f"{one.source}: {one.kind.lower()}/{one.name}" if one.kind else f"{one.source}:")
    if one.sizes:
        yield _line("sizes", f"{_listed(one.sizes)} in {one.region}")
    if one.offerings:
        yield _line("pool", one.pool_name)
        for number, offering in enumerate(one.offerings, start=1):
            yield _line("offerings" if number == 1 else "", f"{number}. {offering}")
    if one.agent_pool is not None:
        yield _line("PUT", request_of(one))
        body = msgspec.json.format(msgspec.json.encode(one.agent_pool), indent=2).decode()
        yield from (f"{'':{GAP}}  {line}" for line in body.splitlines())
    if one.node is not None:
        yield from _node(one.node)
    yield from (_line("note", note) for note in one.notes)
    for error in one.errors:
        line = f"line {one.lines[error.field]}: " if error.field in one.lines else ""
        yield _line("✗", f"{line}{msgspec.structs.replace(error, remedy='')}")
        yield _line("", error.remedy)


def _node(node: ExpectedNode) -> Iterator[str]:
    for number, (key, value) in enumerate(node.labels.items()):
        yield _line("" if number else "Node labels", f"{key}={value}")
    yield _line("taints", ", ".join(node.taints) or "none")
    if node.startup_taints:
        yield _line("startup", ", ".join(node.startup_taints))
    yield _line("GPUs", _gpus(node))
    disk = f"{node.os_disk_gib} GiB" if node.os_disk_gib else "the default size of AKS"
    yield _line("OS disk", f"{disk}, {node.image_family}")


def _gpus(node: ExpectedNode) -> str:
    if node.gpus is None:
        return "none known"
    memory = f", {node.gpus.memory_gb} GB in total" if node.gpus.memory_gb else ""
    waits = "Initialized waits for them" if node.gpus.awaited else "only reported"
    return f"{node.gpus.resource}: {node.gpus.count} ({node.gpus.model}{memory}); {waits}"


def _line(head: str, text: str) -> str:
    return f"  {head:<{GAP - 2}}  {printable(text)}".rstrip()


def _listed(sizes: Sequence[str]) -> str:
    more = f" and {len(sizes) - SHOWN_SIZES} more" if len(sizes) > SHOWN_SIZES else ""
    return ", ".join(sizes[:SHOWN_SIZES]) + more


def _summary(plans: list[Plan]) -> str:
    ours = Counter(one.kind for one in plans if one.managed)
    wrong = sum(len(one.errors) for one in plans)
    left = len(plans) - ours.total()
    found = [counted(number, kind) for kind, number in ours.items()] + ([f"{left} ignored"] if left else [])
    return f"{', '.join(found)}; {counted(wrong, 'error') if wrong else 'no errors'}"
