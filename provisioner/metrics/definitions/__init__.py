"""Every metric family of the program in one table: name, labels, stability, and what it is for.

Nothing is exposed that is not here, and all that is here is exposed (`tests/world/metrics/test_metrics.py`);
`docs/reference/metrics.md` is written from it. Names alone: this package imports nothing of ours.
"""

from . import karpenter, own, runtime
from .family import Family, Kind, Stability
from .labels import LABELS, Label

__all__ = ["FAMILIES", "LABELS", "Family", "Kind", "Label", "Stability", "karpenter", "machinery", "own"]

FAMILIES: tuple[Family, ...] = tuple(
    family for module in (karpenter, own, runtime) for family in vars(module).values() if isinstance(family, Family)
)
