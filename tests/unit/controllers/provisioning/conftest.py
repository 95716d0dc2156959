"""Fixtures of the tests of provisioning."""

from collections import Counter

import pytest

from controllers.provisioning.solver.model import PodSpec, TopologyTerm
from controllers.provisioning.solver.selection import Selection


@pytest.fixture(name="compared")
def fixture_compared(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many terms were compared with pods."""
    found, compare = Counter[str](), Selection.compare

    def counted(self: Selection, term: TopologyTerm, spec: PodSpec) -> bool:
        found["terms"] += 1
        return compare(self, term, spec)

    monkeypatch.setattr(Selection, "compare", counted)
    return found
