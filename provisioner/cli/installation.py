"""Detects packages that shadow this program's own.

Other projects with the names `controllers` and `cloudprovider` exist on package indexes, and a directory of such a name
earlier on the path shadows this program's package. Nothing is imported to detect this.

Source: docs/references/packaging.md#distribution.
"""

from importlib.machinery import PathFinder
from pathlib import Path

PACKAGES = ("cloudprovider", "controllers")
HOME = Path(__file__).resolve().parents[2]


def shadowing_packages() -> list[str]:
    """`name (path)` for each package that is missing or is not the one next to this package."""
    found = {name: _place(name) for name in PACKAGES}
    return [f"{name} ({place or 'not found'})" for name, place in found.items() if place != HOME / name]


def _place(name: str) -> Path | None:
    spec = PathFinder.find_spec(name)
    if spec is None:
        return None
    # A directory without `__init__.py` is a namespace package, which has no origin.
    return (
        Path(spec.origin).resolve().parent if spec.origin else Path(next(iter(spec.submodule_search_locations or ())))
    )
