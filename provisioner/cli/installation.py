"""Detects packages that shadow this program's own, and whether the second distribution is installed.

Other projects with the names `controllers` and `cloudprovider` exist on package indexes, and a directory of such a name
earlier on the path shadows this program's package. Nothing is imported to detect either.

Source: docs/references/packaging.md#distribution.
"""

from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("cloudprovider", "controllers")
# The second distribution, which the image does not contain; no package is published.
TRY_DISTRIBUTION = "aks-gpu-provisioner-try"
INSTALL_TRY = (
    "In a checkout of the same version: pip install ./provisioner, or pipx inject aks-gpu-provisioner ./provisioner"
)
# Its modules, and the libraries that only it needs.
TRY_MODULES = ("provisioner.trial", "celpy", "jsonpatch", "jsonschema_rs", "rich")
HOME = Path(__file__).resolve().parents[2]


def shadowing_packages() -> list[str]:
    """`name (path)` for each package that is missing or is not the one next to this package."""
    found = {name: _place(name) for name in PACKAGES}
    return [f"{name} ({place or 'not found'})" for name, place in found.items() if place != HOME / name]


def missing_for_try() -> str:
    """The first module that `try` and `plan` lack; "" if they can run."""
    return next((name for name in TRY_MODULES if find_spec(name) is None), "")


def _place(name: str) -> Path | None:
    spec = PathFinder.find_spec(name)
    if spec is None:
        return None
    # A directory without `__init__.py` is a namespace package, which has no origin.
    return (
        Path(spec.origin).resolve().parent if spec.origin else Path(next(iter(spec.submodule_search_locations or ())))
    )
