"""Parsing of tokens, roles, usages and sizes, and of invalid responses."""

import base64
import json
from typing import Any

import pytest

from cloudprovider.azure.subscription import Identity, Permissions, _usage, identity_of
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


def test_usage() -> None:
    """By the name of the family, not its localized name."""
    named = {"value": "standardNCADSA100v4Family", "localizedValue": "Standard NCADS_A100_v4 Family vCPUs"}
    assert _usage({"name": named, "limit": 100, "currentValue": 24, "unit": "Count"}) == (
        "standardNCADSA100v4Family",
        Usage(limit=100, used=24),
    )
    assert _usage({}) == ("", Usage(limit=0, used=0))
