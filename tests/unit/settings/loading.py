"""Settings from flags and the environment, and the error of invalid ones."""

from collections.abc import Mapping
from typing import Any

import pytest

from provisioner.api.field_error import FieldError
from provisioner.settings import Settings, SettingsError, load

SUBSCRIPTION = "11111111-2222-3333-4444-555555555555"
ENV: Mapping[str, str] = {
    "ARM_SUBSCRIPTION_ID": SUBSCRIPTION,
    "ARM_RESOURCE_GROUP": "rg-1",
    "AZURE_CLUSTER_NAME": "aks-1",
    "AZURE_TENANT_ID": "99999999-2222-3333-4444-555555555555",
    "AZURE_CLIENT_ID": "88888888-2222-3333-4444-555555555555",
    "AZURE_FEDERATED_TOKEN_FILE": "/var/run/secrets/azure/tokens/azure-identity-token",
    "AZURE_AUTHORITY_HOST": "https://login.microsoftonline.com/",
}


def loaded(flags: Mapping[str, str] | None = None, file: Mapping[str, Any] | None = None, **env: Any) -> Settings:
    return load(flags or {}, {**ENV, **env}, file)


def errors(
    flags: Mapping[str, str] | None = None, file: Mapping[str, Any] | None = None, **env: str
) -> list[FieldError]:
    with pytest.raises(SettingsError) as refusal:
        loaded(flags, file, **env)
    return refusal.value.errors


def the_error(flags: Mapping[str, str] | None = None, file: Mapping[str, Any] | None = None, **env: str) -> FieldError:
    (only,) = errors(flags, file, **env)
    return only
