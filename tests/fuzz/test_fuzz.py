"""A sample of the fuzzer: drawn objects harm neither the controller nor other tenants."""

from random import Random

import pytest

from . import limits
from .campaign import Verdict, run_seeds
from .objects import MUTATORS, draw

SEEDS = (1, 2)


@pytest.mark.matrix(quick=0)
def test_a_sample_of_seeds() -> None:
    """No OOM under the chart's limit, no stalled pass; other machines come at most 15 s later; all are removed."""
    found = list(run_seeds(SEEDS))
    assert [one for one in found if one.why] == []
    assert all(one.objects and one.steps for one in found)


@pytest.mark.parametrize(
    ("code", "ended"),
    [
        ("pass", "ok"),
        ("raise ValueError", "failed"),
        ("held = bytearray(300 * 2**20); import time; time.sleep(60)", "OOMKilled"),
        ("while True: pass", "stalled"),
    ],
)
def test_the_limits_hold(code: str, ended: str) -> None:
    """A process that needs too much memory or time is found."""
    arguments = ["timeit", "-n", "1", "-r", "1", code]
    assert limits.run(arguments, limit_mib=200, cpu_seconds=2).ended == ended


def test_each_kind_of_object_is_drawn() -> None:
    """In a few hundred draws; the objects of one draw have distinct names."""

    rng = Random(1)
    drawn = set()
    for number in range(150):
        name, objects = draw(rng, f"x{number}")
        drawn.add(name)
        keys = [(one["kind"], one["metadata"]["name"]) for one in objects]
        assert len(keys) == len(set(keys))
    assert drawn == {mutator.__name__ for mutator in MUTATORS}


def test_a_verdict_names_what_is_wrong() -> None:
    bad = Verdict(7, "OOMKilled", ("spread",), 3, 1, 600, 0.0, 2_000, 1.0, "")
    assert str(bad).startswith("seed 7: OOMKilled (3 objects, 1 refused, 600 MiB")
