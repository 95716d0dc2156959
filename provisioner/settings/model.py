"""The settings as values, and the error of invalid settings.

`Settings` is frozen and complete. Its `repr`, `describe_values` and all errors mask credentials in addresses.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal

import msgspec

from provisioner.api.field_error import FieldError
from provisioner.api.nvsentinel import NVSentinel
from provisioner.api.readiness import SelectedReadinessRule
from provisioner.api.repair_policy import RepairPolicy
from provisioner.api.text import printable
from provisioner.api.time import format_duration
from provisioner.runtime.redaction import MASK, redact

from . import repair_policies
from .options import OPTIONS, Option

SHOWN_CHARACTERS = 200
_CREDENTIALS = re.compile(r"^([a-zA-Z][a-zA-Z0-9+.-]*://)?.*@", re.DOTALL)


def masked(value: str) -> str:
    """The text without user information before an `@` (passwords of proxies), and without tokens."""
    return redact(_CREDENTIALS.sub(rf"\1{MASK}@", value))[:SHOWN_CHARACTERS]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings: durations in seconds, addresses without a trailing slash, "" for unset text.

    `warnings` and `notes` are logged at startup, notes at debug level; `origins` names the source of each value.
    """

    subscription_id: str
    resource_group: str
    cluster_name: str
    location: str = ""
    deployment_mode: Literal["self-hosted", "managed"] = "self-hosted"
    tenant_id: str = ""
    client_id: str = ""
    federated_token_file: str = ""
    authority_host: str = "https://login.microsoftonline.com"
    cloud: str = "AzurePublicCloud"
    arm_endpoint: str = "https://management.azure.com"
    arm_audience: str = "https://management.azure.com"
    arm_api_version: str = ""

    https_proxy: str = ""
    no_proxy: str = ""
    ssl_cert_file: str = ""
    kubeconfig: str = ""

    metrics_port: int = 8080
    health_probe_port: int = 8081
    metrics_authentication: bool = False
    agent_pool_tags: Mapping[str, str] = {}
    disable_leader_election: bool = False
    leader_election_name: str = "gpu-provisioner-leader-election"
    leader_election_namespace: str = ""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_encoding: Literal["auto", "json", "console"] = "auto"
    strict_config: bool = False

    gpu_readiness: Literal["require", "report"] = "require"
    legacy_pools: Literal["collect", "report"] = "collect"
    max_agent_pools: int | None = None
    max_creates_per_minute: int = 100
    node_pools: bool = True
    feature_gates: tuple[tuple[str, bool], ...] = (("NodeRepair", True),)
    prices: tuple[tuple[str, Decimal], ...] = ()
    repair_policies: tuple[RepairPolicy, ...] = ()
    repair_dry_run: bool = False
    readiness_rules: tuple[SelectedReadinessRule, ...] = ()
    gkm_cleanup: bool = False
    nvsentinel: NVSentinel | None = None

    launch_seconds: float = 300.0
    creating_seconds: float = 2700.0
    registration_seconds: float = 900.0
    initialization_seconds: float = 1200.0
    draining_seconds: float = 900.0
    detaching_seconds: float = 360.0
    deleting_seconds: float = 1800.0
    releasing_seconds: float = 600.0

    # Whether tokens come from the Azure CLI: outside a Pod, unless the settings name an identity.
    azure_cli: bool = False

    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    origins: tuple[tuple[str, str], ...] = ()

    @property
    def node_repair(self) -> bool:
        """Whether unhealthy Nodes are replaced."""
        return dict(self.feature_gates).get("NodeRepair", False)

    @property
    def arm_scope(self) -> str:
        """The OAuth scope of tokens for ARM."""
        return f"{self.arm_audience}/.default"

    @property
    def plain_arm(self) -> bool:
        """Whether ARM is a simulator on loopback, reached over http without tokens."""
        return self.arm_endpoint.startswith("http://")

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in self._described())})"

    def _described(self) -> list[tuple[str, str]]:
        return [(row.setting, row.value) for row in describe_values(msgspec.structs.asdict(self), {})]


class SettingsError(Exception):
    """All invalid settings, in `errors`; values are masked. As text: two lines for each, the second is the remedy."""

    def __init__(self, errors: list[FieldError]) -> None:
        super().__init__(errors)
        self.errors = errors

    def __str__(self) -> str:
        count = len(self.errors)
        head = "1 setting is invalid:" if count == 1 else f"{count} settings are invalid:"
        return "\n".join(
            (head, *(f"  {printable(f'{assignment(e)}: {e.message}')}\n    {e.remedy}" for e in self.errors))
        )


def assignment(error: FieldError) -> str:
    """The setting and its value as `name=value`."""
    return f"{error.field}={error.value}" if error.value else error.field


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """One setting as text, with credentials masked. `env`: its variables; `error`: why it is missing or invalid."""

    setting: str
    value: str
    source: str
    env: tuple[str, ...]
    error: str = ""
    remedy: str = ""


def describe_values(values: Mapping[str, Any], origins: Mapping[str, str]) -> list[Described]:
    """Every setting in the order of `OPTIONS`; `values` and `origins` are by field."""
    return [
        Described(
            setting=option.flag,
            value=_value_of(option, values),
            source=origins.get(option.field, "default"),
            env=option.env,
        )
        for option in OPTIONS
    ]


def _value_of(option: Option, values: Mapping[str, Any]) -> str:
    if option.field == "deployment_mode" and values["azure_cli"]:
        return "(your own login, az login, because the process runs outside a Pod)"
    return shown(values[option.field]) or f"({option.unset or 'none'})"


def shown(value: Any) -> str:
    """A value as text, with credentials masked."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case float():
            return format_duration(value)
        case (RepairPolicy(), *_):
            return repair_policies.text_of(value)
        case msgspec.Struct() | (msgspec.Struct(), *_):
            return msgspec.json.encode(value).decode()[:SHOWN_CHARACTERS]
        case tuple():
            return ",".join(f"{name}={shown(on)}" for name, on in value)
    return masked(str(value))
