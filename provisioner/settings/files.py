"""The file of settings, named by `--config`."""

from collections.abc import Mapping
from typing import Any

from provisioner.api.field_error import FieldError

from .shown import SettingsError


def read_file(path: str) -> Mapping[str, Any]:
    """The keys and values of the YAML file. Raises SettingsError if it cannot be read or is not a mapping."""
    remedy = "Name a YAML file of settings."
    try:
        import yaml  # an optional package

        from . import bounded_yaml
    except ImportError as error:
        raise _unusable(path, f"it cannot be read: {type(error).__name__}", remedy) from None
    try:
        with open(path, encoding="utf-8") as file:
            documents = list(bounded_yaml.load_all(bounded_yaml.read(file)))
    except bounded_yaml.LimitExceeded as error:
        raise _unusable(path, f"it cannot be read: {error}", remedy) from None
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise _unusable(path, f"it cannot be read: {type(error).__name__}", remedy) from None
    read = documents[0] or {} if len(documents) == 1 else documents or {}
    if not isinstance(read, dict):
        raise _unusable(path, "it is not a mapping", "Write one `flag: value` on each line.")
    return read


def _unusable(path: str, why: str, remedy: str) -> SettingsError:
    return SettingsError([FieldError("--config", "FieldValueInvalid", why, path, remedy)])
