"""The version this program is, as installed, and the commit that it was built from."""

import os
from importlib.metadata import PackageNotFoundError, version

DISTRIBUTION = "aks-gpu-provisioner"
# The image's Dockerfile sets it; a build from elsewhere does not know.
COMMIT = "GPU_PROVISIONER_COMMIT"


def own_version() -> str:
    """The distribution's version; `0+unknown` when the code runs without being installed."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "0+unknown"


def own_commit() -> str:
    """The first seven digits of the commit, as Karpenter's logs have it; "" if it is not known."""
    commit = os.environ.get(COMMIT, "")
    return "" if commit == "unknown" else commit[:7]
