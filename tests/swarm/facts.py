"""How machines differ from what the program predicts: drawn, because the truth is unknown.

The simulator's table of facts (docs/references/nodes.md) gives what has been observed of AKS; a run moves it.
"""

from random import Random
from typing import Any


def draw(rng: Random) -> dict[str, Any]:
    """Nothing in half of the runs."""
    return {}
