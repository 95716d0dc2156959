"""The version of the installed distribution, and the commit from which it was built."""

import os
from importlib.metadata import PackageNotFoundError, version

DISTRIBUTION = "aks-gpu-provisioner"
# Set by the Dockerfile of the image.
COMMIT = "GPU_PROVISIONER_COMMIT"


def own_version() -> str:
    """The version of the distribution; `0+unknown` if it is not installed."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "0+unknown"


def own_commit() -> str:
    """The first seven digits of the commit, as in Karpenter's logs; "" if not known."""
    commit = os.environ.get(COMMIT, "")
    return "" if commit == "unknown" else commit[:7]
