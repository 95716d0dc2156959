"""Loading of settings: flags, environment variables, file, Helm release, defaults, in this order of precedence.

All errors are reported together. An empty variable counts as unset, because charts render unset values as empty ones.
A malformed number, duration or boolean in the environment is replaced by the default with a warning, as in Karpenter,
unless `--strict-config` is set; in a flag or in the file it is an error. `--config` names the file. Commands outside a
Pod read the environment of the release's Deployment, without what belongs to its Pod (`OF_THE_POD`).
"""

import json
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from provisioner.api.field_error import FieldError

from .checks import check
from .clouds import PUBLIC, find_cloud
from .kinds import MalformedError
from .model import OPTIONS, Settings
from .option import Option
from .options import BY_FLAG, IGNORED
from .shown import Described, SettingsError, describe_values, masked

FILE = "the file of --config"
# The kubelet sets it in every Pod.
IN_POD = "KUBERNETES_SERVICE_HOST"
# Fields that a release does not set for a command: the identity, files and connections of its Pod, and its log.
OF_THE_POD = frozenset(
    {
        "deployment_mode",
        "tenant_id",
        "client_id",
        "federated_token_file",
        "https_proxy",
        "no_proxy",
        "ssl_cert_file",
        "kubeconfig",
        "context",
        "log_level",
        "log_encoding",
        "strict_config",
    }
)


class _Written(msgspec.Struct, frozen=True, kw_only=True):
    """The text of a setting, with the name and the place where it was set."""

    name: str
    text: str
    place: Literal["flag", "env", "file", "release"]


class _Sources(msgspec.Struct, frozen=True, kw_only=True):
    """Texts of settings: flags and keys of the file by flag, the others by variable."""

    flags: Mapping[str, str]
    env: Mapping[str, str]
    keys: Mapping[str, str]
    release: Mapping[str, str]


class _Findings:
    """Errors and warnings, collected while further settings are read."""

    def __init__(self) -> None:
        self.errors: list[FieldError] = []
        self.warnings: list[str] = []
        self.wrong_fields: set[str] = set()


def load(
    argv_flags: Mapping[str, str],
    env: Mapping[str, str],
    file: Mapping[str, object] | None = None,
    release: Mapping[str, str] | None = None,
    *,
    acts: bool = True,
    azure: bool = True,
) -> Settings:
    """Settings from flags (by name, without dashes), the environment, the keys of the file, and the variables of the
    release. Raises SettingsError.

    `acts`: the process uses the identity of the settings, which is then required. `azure`: it sends requests to Azure.
    """
    values, found = _load(argv_flags, env, file, release, acts=acts, azure=azure)
    if found.errors:
        raise SettingsError(found.errors)
    return Settings(**values)


def load_all(
    argv_flags: Mapping[str, str], env: Mapping[str, str], file: Mapping[str, object] | None = None
) -> tuple[list[Described], list[FieldError]]:
    """Every setting, and all errors; a setting with an error has it in place of its value."""
    values, found = _load(argv_flags, env, file, None, acts=True)
    wrong = {error.field: error for error in found.errors}
    rows = []
    for row in describe_values(OPTIONS, values, dict(values["origins"])):
        names = (f"--{row.setting}", row.setting, *row.env)
        error = next((wrong[name] for name in names if name in wrong), None)
        rows.append(row if error is None else msgspec.structs.replace(row, error=error.message, remedy=error.remedy))
    return rows, found.errors


def _load(
    argv_flags: Mapping[str, str],
    env: Mapping[str, str],
    file: Mapping[str, object] | None,
    release: Mapping[str, str] | None,
    *,
    acts: bool,
    azure: bool = True,
) -> tuple[dict[str, Any], _Findings]:
    """The fields of the settings, complete unless there are errors."""
    found = _Findings()
    keys = _file_texts(file or {}, found)
    sources = _Sources(flags=argv_flags, env=env, keys=keys, release=release or {})
    remedy = "Remove it; gpu-provisioner run --help lists the flags."
    found.errors += [
        FieldError(f"--{flag}", "FieldValueInvalid", "unknown flag", remedy=remedy)
        for flag in argv_flags
        if flag not in BY_FLAG
    ]
    # An error of this setting is reported below, with all others.
    strict = _value(BY_FLAG["strict-config"], sources, _Findings(), strict=False)[0]

    values: dict[str, Any] = {}
    origins: list[tuple[str, str]] = []
    for option in OPTIONS:
        values[option.field], origin = _value(option, sources, found, strict=strict)
        origins.append((option.field, origin))
    _complete(values)
    azure_cli = _uses_azure_cli(values, dict(origins), env)
    errors, warnings = check(values, frozenset(found.wrong_fields), acts=acts and not azure_cli, azure=azure)
    found.errors += errors
    notes, ignored_warnings = _ignored(argv_flags, env, keys)
    values |= {
        "warnings": (*found.warnings, *warnings, *ignored_warnings),
        "notes": notes,
        "origins": tuple(origins),
        "azure_cli": azure_cli,
    }
    return values, found


def _uses_azure_cli(values: Mapping[str, Any], origins: Mapping[str, str], env: Mapping[str, str]) -> bool:
    """Whether the process runs outside a Pod and no setting names an identity: the user's `az login` applies."""
    in_pod = bool(env.get(IN_POD))
    named = origins["deployment_mode"] != "default" or values["federated_token_file"]
    return not in_pod and not named and not values["arm_endpoint"].startswith("http://")


def _value(option: Option, sources: _Sources, found: _Findings, *, strict: bool) -> tuple[Any, str]:
    """The value and the origin of a setting; the default if it is invalid, so that the others can be checked."""
    written = _written(option, sources, found)
    if written is None:
        return option.default, "default"
    try:
        return option.kind.read(written.text), f"{written.place} {written.name}"
    except ValueError as error:
        if (
            isinstance(error, MalformedError)
            and option.kind.lenient
            and not strict
            and written.place in ("env", "release")
        ):
            found.warnings.append(f"{written.name}={masked(written.text)}: {error}; using the default")
        else:
            remedy = f"Set it to {option.kind.expects}."
            found.wrong_fields.add(option.field)
            value = masked(written.text)
            found.errors.append(FieldError(written.name, "FieldValueInvalid", str(error), value, remedy))
    return option.default, "default"


def _written(option: Option, sources: _Sources, found: _Findings) -> _Written | None:
    if option.flag in sources.flags:
        text = sources.flags[option.flag].strip()
        # An empty flag overrides the environment for text; for other kinds the empty value is invalid.
        empty_is_default = not text and isinstance(option.default, str)
        return None if empty_is_default else _Written(name=f"--{option.flag}", text=text, place="flag")
    if (given := _variable(option, sources.env, "env", found)) is not None:
        return given
    if option.flag in sources.keys:
        return _Written(name=option.flag, text=sources.keys[option.flag], place="file")
    return None if option.field in OF_THE_POD else _variable(option, sources.release, "release", found)


def _variable(
    option: Option, variables: Mapping[str, str], place: Literal["env", "release"], found: _Findings
) -> _Written | None:
    given = [(name, variables[name].strip()) for name in option.env if variables.get(name, "").strip()]
    if not given:
        return None
    name, text = given[0]
    others = [other for other, value in given[1:] if value != text]
    if others:
        found.warnings.append(f"{name} and {' and '.join(others)} have different values; using {name}")
    return _Written(name=name, text=text, place=place)


def _file_texts(file: Mapping[str, object], found: _Findings) -> dict[str, str]:
    """The values of the file, as text in the form of environment variables."""
    texts: dict[str, str] = {}
    for key, value in file.items():
        if key not in BY_FLAG:
            why = f"{FILE} has a key that is not a setting"
            remedy = "Remove it; keys are the names of flags."
            found.errors.append(FieldError(str(key), "FieldValueInvalid", why, remedy=remedy))
            continue
        match value:
            case None:
                continue
            case bool():
                texts[key] = str(value).lower()
            case str() | int() | float():
                texts[key] = str(value).strip()
            case list() if key == "readiness-rules":
                texts[key] = msgspec.json.encode(value).decode()
            case list() | tuple() if all(isinstance(item, str) for item in value):
                texts[key] = ",".join(value)
            case list() if key == "repair-policies":
                texts[key] = json.dumps(value, default=str)
            case Mapping() if key == "feature-gates":
                texts[key] = ",".join(f"{name}={str(on).lower()}" for name, on in value.items())
            case _:
                remedy = f"Set it to {BY_FLAG[key].kind.expects}."
                why = f"{FILE} does not have a single value for it"
                found.errors.append(FieldError(key, "FieldValueTypeInvalid", why, remedy=remedy))
    return {key: text for key, text in texts.items() if text}


def _complete(values: dict[str, Any]) -> None:
    """Set the addresses that depend on the cloud."""
    cloud = find_cloud(values["cloud"]) or PUBLIC
    values["arm_endpoint"] = values["arm_endpoint"] or cloud.endpoint
    values["arm_audience"] = values["arm_audience"] or cloud.audience
    values["authority_host"] = values["authority_host"] or cloud.authority


def _ignored(
    flags: Mapping[str, str], env: Mapping[str, str], keys: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    present = [
        option
        for option in IGNORED
        if option.flag in flags or option.flag in keys or any(env.get(name) for name in option.env)
    ]
    quiet = [option.env[0] for option in present if not option.warn]
    notes = (f"settings without effect: {', '.join(quiet)}",) if quiet else ()
    return notes, tuple(f"{option.env[0]} has no effect" for option in present if option.warn)


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
