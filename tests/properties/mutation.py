"""What the mutation tests share: patches, and the tests that must fail under them."""

from collections.abc import Callable
from typing import Any

import pytest

from controllers.garbagecollection import garbage
from controllers.gate.gate import Evidence
from controllers.model.facts import Facts
from provisioner.api.causes import Cause
from provisioner.simulator.kube.errors import ApiError
from tests.world.harness import crash_points, simulate

from .crash import QUICK, survive

Patch = pytest.MonkeyPatch
ACTED = "the mutant has acted"


def no_fresh_reads(patch: Patch) -> None:
    """Garbage is checked twice, but only in the caches, and the gate believes them."""
    patch.setattr(garbage, "_fresh_reads", lambda f, name: None)

    def believed(f: Facts, cause: Cause, uid: str, *, ours: bool, min_age: float) -> Evidence:
        return Evidence(cause=cause, uid=uid, ours=ours, seen=True)

    patch.setattr(garbage, "_evidence", believed)


def crashes(story: Callable[..., Any]) -> Callable[[], object]:
    """The crash property of one of its scenarios."""
    return lambda: survive(story, crash_points(story, **QUICK))


def undisturbed(story: Callable[..., Any]) -> Callable[[], object]:
    """The scenario itself, without a crash."""
    return lambda: simulate(story, **QUICK)


def must_fail(mutate: Callable[[Patch], None], story: Callable[[], object], message: str) -> None:
    """Apply the mutant; the test must fail with this text."""
    with pytest.MonkeyPatch.context() as patch:
        mutate(patch)
        with pytest.raises((AssertionError, BaseExceptionGroup, ApiError)) as caught:
            story()
    found = [str(caught.value), *getattr(caught.value, "__notes__", [])]
    assert any(message in text for text in found), found
