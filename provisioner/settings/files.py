"""The file of settings, named by `--config`."""

from collections.abc import Mapping
from typing import Any

from provisioner.api.field_error import FieldError

from .model import SettingsError


def read_file(path: str) -> Mapping[str, Any]:
    """The keys and values of the YAML file. Raises SettingsError if it cannot be read or is not a mapping."""
    try:
        import yaml  # an optional package

        with open(path, encoding="utf-8") as file:
            read = yaml.safe_load(file) or {}
    except (OSError, ImportError, ValueError, yaml.YAMLError) as error:
        raise _unusable(path, f"it cannot be read: {type(error).__name__}", "Name a YAML file of settings.") from None
    if not isinstance(read, dict):
        raise _unusable(path, "it is not a mapping", "Write one `flag: value` on each line.")
    return read


def _unusable(path: str, why: str, remedy: str) -> SettingsError:
    return SettingsError([FieldError("--config", "FieldValueInvalid", why, path, remedy)])
