"""The table of all metric families: name, type, labels, stability, help and use.

The program exposes exactly these (`tests/world/metrics/test_metrics.py`), and `docs/reference/metrics.md` is generated
from them. The package imports `provisioner.api` alone.
"""

from . import karpenter, own, runtime
from .family import Family, Kind, Stability
from .labels import LABELS, Label

__all__ = ["FAMILIES", "LABELS", "Family", "Kind", "Label", "Stability", "karpenter", "own", "runtime"]

FAMILIES: tuple[Family, ...] = tuple(
    family for module in (karpenter, own, runtime) for family in vars(module).values() if isinstance(family, Family)
)
