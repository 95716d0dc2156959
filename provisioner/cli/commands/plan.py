"""`plan`: validates NodeClaim manifests offline and prints the agent pool and the Node of each NodeClaim.

Exit codes: 0 no errors, 1 a NodeClaim has errors, 2 the manifests cannot be opened or contain no NodeClaim. Results go
to standard output in all formats.
"""

import argparse
from collections.abc import Iterator, Mapping
from typing import TextIO

import msgspec

from provisioner.api.field_error import FieldError
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.text import printable
from provisioner.cli.output import encoded

from .console import Console, counted
from .manifests import Document, documents
from .planning import ExpectedNode, Plan, plan, read_node_class, request_of
from .refusal import FAILED, OK, USAGE, Refused

GAP = 13


def run(wanted: argparse.Namespace, typed: TextIO, console: Console) -> int:
    """Plan all NodeClaims and print the results; returns the exit code. Raises Refused."""
    read = [*documents(wanted.filename, typed)]
    classes = {document.source: read_node_class(document.body) for document in read if not document.error}
    by_name = {one.name: one for one in classes.values() if one is not None}
    plans = _with_duplicates([_plan(document, by_name) for document in read if classes.get(document.source) is None])
    if not any(one.claim or one.managed or one.errors for one in plans):
        files = ", ".join(wanted.filename)
        raise Refused(f"{files}: no NodeClaim found", "Name manifests of kind NodeClaim.", USAGE)
    if wanted.output == "table":
        for one in plans:
            console.print(*_lines(one), "")
        console.print(_summary(plans))
    else:
        console.print(encoded(plans, wanted.output))
    return FAILED if any(one.errors for one in plans) else OK


def _plan(document: Document, node_classes: Mapping[str, AgentPoolNodeClass]) -> Plan:
    if not document.error:
        return plan(document.source, document.body, node_classes)
    message, remedy = f"invalid document: {document.error}", "write it as YAML or JSON"
    return Plan(source=document.source, claim="", errors=(FieldError("", "FieldValueInvalid", message, remedy=remedy),))


def _with_duplicates(plans: list[Plan]) -> list[Plan]:
    """The plans, with an error for each name that an earlier document has."""
    seen: dict[str, str] = {}
    checked = []
    for one in plans:
        first = seen.setdefault(one.claim, one.source) if one.claim else one.source
        if first != one.source:
            message = f"{one.claim!r} is also the name of the NodeClaim in {first}"
            remedy = "use another name: the spec of a NodeClaim is immutable"
            duplicate = FieldError("metadata.name", "FieldValueDuplicate", message, one.claim, remedy)
            checked.append(msgspec.structs.replace(one, errors=(*one.errors, duplicate)))
        else:
            checked.append(one)
    return checked


def _lines(one: Plan) -> Iterator[str]:
    yield printable(f"{one.source}: nodeclaim/{one.claim}" if one.claim else f"{one.source}:")
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
        yield _line("✗", str(msgspec.structs.replace(error, remedy="")))
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


def _summary(plans: list[Plan]) -> str:
    ours = sum(one.managed for one in plans)
    wrong = sum(len(one.errors) for one in plans)
    left = f", {len(plans) - ours} ignored" if len(plans) > ours else ""
    return f"{counted(ours, 'NodeClaim')}{left}; {counted(wrong, 'error') if wrong else 'no errors'}"
