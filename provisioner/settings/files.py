"""The file of settings that `--config` names.

A mapping of names to values, or a SettingsError that names the file; nothing else comes out of a broken file.
"""

from collections.abc import Mapping
from typing import Any

from provisioner.api.field_error import FieldError

from .model import SettingsError


def read_file(path: str) -> Mapping[str, Any]:
    """The YAML file's keys and values. Raises SettingsError if it cannot be read, or is no mapping."""
    try:
        import yaml  # only here: the file is optional, and so is the library

        with open(path, encoding="utf-8") as file:
            read = yaml.safe_load(file) or {}
    except (OSError, ImportError, ValueError, yaml.YAMLError) as error:
        raise _unusable(path, f"it cannot be read: {type(error).__name__}", "Name a YAML file of settings.") from None
    if not isinstance(read, dict):
        raise _unusable(path, "it is no mapping", "Write `flag: value` lines.")
    return read


def _unusable(path: str, why: str, remedy: str) -> SettingsError:
    return SettingsError([FieldError("--config", "FieldValueInvalid", why, path, remedy)])
