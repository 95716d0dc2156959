"""Where our own packages come from.

`strangers` names every one of our three top-level packages that Python would import from elsewhere than
beside this one, without importing it. `controllers`, `cloudprovider` and `provisioner` exist on package indexes as
other people's projects, and a folder of such a name on the path shadows ours.

Source: docs/references/packaging.md#distribution.
"""

from importlib.machinery import PathFinder
from pathlib import Path

PACKAGES = ("cloudprovider", "controllers")
HOME = Path(__file__).resolve().parents[2]


def strangers() -> list[str]:
    """`name (place)` for each package that is missing or not ours; empty if all is well."""
    found = {name: _place(name) for name in PACKAGES}
    return [f"{name} ({place or 'not found'})" for name, place in found.items() if place != HOME / name]


def _place(name: str) -> Path | None:
    spec = PathFinder.find_spec(name)
    if spec is None:
        return None
    # A folder without `__init__.py` has no origin: it is a namespace, and not ours.
    return (
        Path(spec.origin).resolve().parent if spec.origin else Path(next(iter(spec.submodule_search_locations or ())))
    )
