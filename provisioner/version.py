"""The version this program is, as installed."""

from importlib.metadata import PackageNotFoundError, version

DISTRIBUTION = "aks-gpu-provisioner"


def own_version() -> str:
    """The distribution's version; `0+unknown` when the code runs without being installed."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "0+unknown"
