"""The program's settings, from flags, environment variables, a file and defaults.

`load` reports all errors together as one `SettingsError`, each with its remedy. No other part of the program reads the
environment, except azure-identity, which reads the credentials of the deployment mode `managed`. Names are those of
Azure/gpu-provisioner and Karpenter, so that a deployment of either starts unchanged. Credentials are masked.

Source: docs/references/karpenter.md#process, docs/references/kaito.md#environment-variables,
docs/references/agent-pools.md#identity-and-clouds.
"""

from .checks import REQUIRED
from .loading import load, load_all, read_file
from .model import OPTIONS, RuleSettings, Settings
from .option import Option
from .options import BY_FLAG, IGNORED
from .shown import Described, SettingsError, assignment, masked, shown

__all__ = [
    "BY_FLAG",
    "IGNORED",
    "OPTIONS",
    "REQUIRED",
    "Described",
    "Option",
    "RuleSettings",
    "Settings",
    "SettingsError",
    "assignment",
    "load",
    "load_all",
    "masked",
    "read_file",
    "shown",
]
