"""Which version of a NodeClaim the marks of a command are written to."""

import asyncio
from typing import Any

import msgspec
import pytest

from controllers.model.results import Wrote
from controllers.model.steps import PatchClaim
from controllers.reconcile.command_marks import CommandMarks, NotWritten
from provisioner.api import labels
from provisioner.api.nodeclaim import NodeClaim
from tests.unit.builders import claim


class Writes:
    """An actuator that keeps the versions that are written to, and a cache of one NodeClaim."""

    def __init__(self, cached: NodeClaim | None) -> None:
        self.cached = cached
        self.versions: list[str] = []

    def get(self, _: str) -> NodeClaim | None:
        return self.cached

    async def write(self, step: PatchClaim, _: None) -> Wrote:
        meta = step.claim.metadata
        self.versions.append(meta.resource_version)
        return Wrote(kind="claim", name=meta.name, uid=meta.uid, resource_version="99", claim=step.claim)


def at(version: str, *, uid: str = "u", command: str = "c1") -> NodeClaim:
    made = claim(uid=uid, annotations={labels.REPLACEMENT_COMMAND: command} if command else {})
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, resource_version=version))


def release(cached: NodeClaim | None) -> list[str]:
    """The versions that the removal of the marks from version 10 is written to."""
    fake: Any = Writes(cached)
    none: Any = None
    marks = CommandMarks(fake, none, fake, none)
    asyncio.run(marks.release(at("10")))
    return [*fake.versions]


@pytest.mark.parametrize(
    ("cached", "version"),
    [
        (None, "10"),
        (at("10"), "10"),
        # Another controller has written it since it was read.
        (at("12"), "12"),
        # The LIST was ahead of the watch.
        (at("9"), "10"),
        # Versions that are no numbers cannot be compared.
        (at("x"), "10"),
        # Another NodeClaim of the same name.
        (at("12", uid="other"), "10"),
    ],
)
def test_the_newest_known_version_is_written_to(cached: NodeClaim | None, version: str) -> None:
    assert release(cached) == [version]


def test_a_newer_one_without_the_command_is_not_written_to() -> None:
    with pytest.raises(NotWritten, match="no replacement any more"):
        release(at("12", command=""))
