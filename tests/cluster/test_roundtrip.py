"""A sample of the rounds of `tests.cluster.roundtrip`; `make round-trip` runs others."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .roundtrip.run import Outcome, execute, stage

pytestmark = pytest.mark.cluster

SEEDS = (12, 19)


async def run_all(folder: Callable[[str], Path]) -> dict[int, Outcome]:
    """Run the rounds one after the other."""
    async with stage(folder("roundtrip")) as plane:
        return {seed: await execute(plane, seed) for seed in SEEDS}


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_drawn_is_bought_and_bound(
    all_results: dict[str, Any], seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """kube-scheduler binds each placeable pod, on no more machines than were decided, and all of them go."""
    outcome: Outcome = all_results[__name__][seed]
    with capsys.disabled():
        print(f"\n{outcome}")
    assert not outcome.why
