"""Parsing of tokens, roles, usages and sizes, and of invalid responses."""

import base64
import json
from typing import Any

import pytest

from cloudprovider.azure.subscription import Identity, Permissions, ResourceSku, _sku, _usage, identity_of
from cloudprovider.interface import Usage


def token(payload: Any) -> str:
    """A token with this payload, in the form of Entra ID, with an invalid signature."""
    middle = base64.urlsafe_b64encode(json.dumps(payload).encode()).decode().rstrip("=")
    return f"e30.{middle}.c2ln"


TOKENS = [
    (token({"tid": "t", "appid": "app", "oid": "o"}), Identity(tenant="t", name="app")),
    (token({"tid": "t", "upn": "ada@example.com", "appid": "app"}), Identity(tenant="t", name="ada@example.com")),
    (token({"azp": "app"}), Identity(name="app")),
    (token({}), Identity()),
    (token([1]), Identity()),
    ("opaque", Identity()),
    ("a.!.c", Identity()),
    ("a..c", Identity()),
    (f"a.{base64.urlsafe_b64encode(b'no json').decode()}.c", Identity()),
    ("", Identity()),
]


@pytest.mark.parametrize(("text", "whose"), TOKENS)
def test_the_identity_of_a_token(text: str, whose: Identity) -> None:
    """From its payload; an opaque token has no identity."""
    assert identity_of(text) == whose


WRITE = "Microsoft.ContainerService/managedClusters/agentPools/write"
ROLES = [
    ([(("*",), ())], True),
    ([(("*/read",), ())], False),
    ([(("Microsoft.ContainerService/*",), ())], True),
    ([(("microsoft.containerservice/MANAGEDCLUSTERS/agentpools/*",), ())], True),
    ([(("*",), ("*/write",))], False),
    ([(("*",), ("*/write",)), ((WRITE,), ())], True),
    ([(("Microsoft.ContainerService/managedClusters/agentPools",), ())], False),
    ([((".*",), ())], False),
    ([], False),
]


@pytest.mark.parametrize(("roles", "allowed"), ROLES)
def test_permissions_are_additive(roles: list[tuple[tuple[str, ...], tuple[str, ...]]], allowed: bool) -> None:
    """An action that one role excludes may be granted by another; `*` is the only wildcard."""
    assert Permissions(tuple(roles)).allow(WRITE) is allowed


def row(**more: Any) -> dict[str, Any]:
    """A size in the format of Compute."""
    return {
        "resourceType": "virtualMachines",
        "name": "Standard_NC24ads_A100_v4",
        "family": "StandardNCADSA100v4Family",
        "locationInfo": [{"location": "westeurope", "zones": ["2", "1"], "zoneDetails": []}],
        "capabilities": [{"name": "MaxResourceVolumeMB", "value": "65536"}, {"name": "vCPUs", "value": "24"}],
        "restrictions": [],
        **more,
    }


def restricted(kind: str, *zones: str, location: str = "westeurope") -> dict[str, Any]:
    info = {"locations": [location], **({"zones": list(zones)} if zones else {})}
    return {"type": kind, "values": [location], "restrictionInfo": info, "reasonCode": "NotAvailableForSubscription"}


WELL = ResourceSku(name="Standard_NC24ads_A100_v4", family="StandardNCADSA100v4Family", vcpus=24, zones=("1", "2"))


def test_a_size_without_restrictions() -> None:
    """Family, vCPUs, zones."""
    assert _sku(row(), "westeurope") == WELL


def test_restrictions_of_a_size() -> None:
    """Of the whole location or of zones; those of other locations are ignored."""
    found = _sku(
        row(restrictions=[restricted("Zone", "3", "1"), restricted("Location", location="northeurope")]), "WestEurope"
    )
    assert (found.restricted, found.zones_restricted) == ("", ("1", "3"))
    assert _sku(row(restrictions=[restricted("Location")]), "westeurope").restricted == "NotAvailableForSubscription"


JUNK: list[dict[str, Any]] = [
    {"restrictions": None, "capabilities": None, "locationInfo": None, "family": None},
    {"restrictions": [None, {"type": "Zone"}], "capabilities": ["vCPUs", {"name": "vCPUs", "value": None}]},
    {"restrictions": "x", "capabilities": [{"name": "vCPUs", "value": "many"}], "locationInfo": [{"zones": "1"}]},
]


@pytest.mark.parametrize("more", JUNK, ids=["nulls", "nothing in it", "other types"])
def test_a_size_without_members(more: dict[str, Any]) -> None:
    """No vCPUs, no zones, no restriction, and no error."""
    found = _sku(row(**more), "westeurope")
    assert (found.vcpus if "capabilities" in more else 0, found.restricted) == (0, "")


def test_usage() -> None:
    """By the name of the family, not its localized name."""
    named = {"value": "standardNCADSA100v4Family", "localizedValue": "Standard NCADS_A100_v4 Family vCPUs"}
    assert _usage({"name": named, "limit": 100, "currentValue": 24, "unit": "Count"}) == (
        "standardNCADSA100v4Family",
        Usage(limit=100, used=24),
    )
    assert _usage({}) == ("", Usage(limit=0, used=0))
