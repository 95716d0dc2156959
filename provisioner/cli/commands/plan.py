"""`plan`: what each NodeClaim in some manifests would become, and what is wrong with it; offline.

Neither a cluster nor a credential nor a setting is needed. Exit codes: 0 all of it can be made, 1 something is
wrong, 2 the manifests cannot be opened or name no NodeClaim. Results go to standard output, in all formats.
"""

import argparse
from collections.abc import Iterator
from typing import TextIO

import msgspec
import yaml

from cloudprovider.azure.client import API_VERSION
from provisioner.api.field_error import FieldError

from .console import Console
from .manifests import Document, documents
from .planning import ExpectedNode, Plan, plan
from .refusal import FAILED, OK, USAGE, Refused
from .tables import counted

GAP = 13


def run(wanted: argparse.Namespace, typed: TextIO, console: Console) -> int:
    """Plan all of it. Raises Refused."""
    plans = _unlike([_plan(document) for document in documents(wanted.file, typed)])
    if not any(one.claim or one.managed or one.errors for one in plans):
        read = ", ".join(wanted.file)
        raise Refused(f"{read}: there is no NodeClaim in it", "Name manifests of kind NodeClaim.", USAGE)
    match wanted.output:
        case "json":
            console.say(msgspec.json.format(msgspec.json.encode(plans), indent=2).decode())
        case "yaml":
            console.out.write(yaml.safe_dump(msgspec.to_builtins(plans), sort_keys=False, allow_unicode=True))
        case _:
            for one in plans:
                console.say(*_told(one), "")
            console.say(_summary(plans))
    return FAILED if any(one.errors for one in plans) else OK


def _plan(document: Document) -> Plan:
    if not document.flaw:
        return plan(document.source, document.body)
    message, remedy = f"it cannot be read: {document.flaw}", "write it as YAML or JSON"
    return Plan(source=document.source, claim="", errors=(FieldError("", "FieldValueInvalid", message, remedy=remedy),))


def _unlike(plans: list[Plan]) -> list[Plan]:
    """The plans, with a name that stands twice told at its second place."""
    seen: dict[str, str] = {}
    told = []
    for one in plans:
        first = seen.setdefault(one.claim, one.source) if one.claim else one.source
        if first != one.source:
            message = f"{one.claim!r} is the name of the NodeClaim in {first} as well"
            remedy = "give it a name of its own: a claim's spec cannot be changed"
            duplicate = FieldError("metadata.name", "FieldValueDuplicate", message, one.claim, remedy)
            told.append(msgspec.structs.replace(one, errors=(*one.errors, duplicate)))
        else:
            told.append(one)
    return told


def _told(one: Plan) -> Iterator[str]:
    yield f"{one.source}: nodeclaim/{one.claim}" if one.claim else f"{one.source}:"
    if one.offerings:
        yield _line("pool", one.pool_name)
        for number, offering in enumerate(one.offerings, start=1):
            yield _line("tries" if number == 1 else "", f"{number}. {offering}")
    if one.agent_pool is not None:
        yield _line("PUT", f".../agentPools/{one.pool_name}?api-version={API_VERSION}   If-None-Match: *")
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
    disk = f"{node.os_disk_gib} GiB" if node.os_disk_gib else "as large as AKS chooses for the size"
    yield _line("OS disk", f"{disk}, {node.image_family}")


def _gpus(node: ExpectedNode) -> str:
    if node.gpus is None:
        return "none that is known"
    memory = f", {node.gpus.memory_gb} GB in all" if node.gpus.memory_gb else ""
    waits = "Initialized waits for them" if node.gpus.awaited else "reported only"
    return f"{node.gpus.resource}: {node.gpus.count} ({node.gpus.model}{memory}); {waits}"


def _line(head: str, text: str) -> str:
    return f"  {head:<{GAP - 2}}  {text}".rstrip()


def _summary(plans: list[Plan]) -> str:
    ours = sum(one.managed for one in plans)
    wrong = sum(len(one.errors) for one in plans)
    left = f", {len(plans) - ours} left alone" if len(plans) > ours else ""
    return f"{counted(ours, 'NodeClaim')}{left}; {counted(wrong, 'problem') if wrong else 'nothing is wrong'}"
