"""The program's settings: read once, checked whole, frozen.

`load` looks at a flag, then the environment, then the file, then the default; all errors are raised together
as one `SettingsError`, each with its remedy; nothing else in the program reads the environment. Names are those of
Azure/gpu-provisioner and Karpenter, so that a deployment of either starts unchanged. No secret is shown.

    options.py   the table: every name, kind and default
    kinds.py     how text becomes a value
    clouds.py    Azure's clouds
    model.py     Settings, SettingsError, assignment, describe
    loading.py   read_flags, load
    checks.py    what settings say together
    files.py     the file that --config names

Source: docs/references/karpenter.md#process, docs/references/kaito.md#environment-variables,
docs/references/agent-pools.md#identity-and-clouds.
"""

from .files import read_file
from .loading import load
from .model import Settings, SettingsError, assignment, describe, masked
from .options import BY_FLAG, IGNORED, OPTIONS, Option

__all__ = [
    "BY_FLAG",
    "IGNORED",
    "OPTIONS",
    "Option",
    "Settings",
    "SettingsError",
    "assignment",
    "describe",
    "load",
    "masked",
    "read_file",
]
