"""Parsing of setting values.

A kind returns the value or raises ValueError with the cause. `MalformedError` marks a number, duration or boolean that
does not parse; from the environment, Karpenter replaces such a value by the default. `expects` completes the sentence
"Set it to …".
"""

import ipaddress
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

import durationpy
import msgspec

from .clouds import CLOUDS, find_cloud

TRUE = frozenset({"1", "t", "true"})
FALSE = frozenset({"0", "f", "false"})
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_PRICED = re.compile(r"[A-Za-z0-9_]{1,64}(/spot)?")
_AMOUNT = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?")
_SECONDS = re.compile(r"[0-9]+(\.[0-9]+)?")


class MalformedError(ValueError):
    """The text is not a number, a boolean or a duration."""


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """`lenient`: a malformed value of the environment is replaced by the default."""

    read: Callable[[str], Any]
    expects: str
    lenient: bool = False


def text(expects: str, pattern: str = r"[^\x00-\x1f]*") -> Kind:
    """Text that matches the whole pattern."""
    allowed = re.compile(pattern)

    def read(written: str) -> str:
        if allowed.fullmatch(written) is None:
            raise ValueError("it has invalid characters or an invalid length")
        return written

    return Kind(read=read, expects=expects)


def whole(least: int, most: int) -> Kind:
    """An integer from `least` to `most`."""

    def read(written: str) -> int:
        if _INTEGER.fullmatch(written) is None:
            raise MalformedError("it is not an integer")
        if not least <= int(written) <= most:
            raise ValueError("it is out of range")
        return int(written)

    return Kind(read=read, expects=f"an integer from {least} to {most}", lenient=True)


def _share(written: str) -> float:
    if _AMOUNT.fullmatch(written) is None:
        raise MalformedError("it is not a number such as 0.05")
    if not 0.001 <= float(written) <= 1:
        raise ValueError("it is out of range")
    return float(written)


def _duration(written: str) -> float:
    try:
        seconds = float(written) if _SECONDS.fullmatch(written) else durationpy.from_str(written).total_seconds()
    except (durationpy.DurationError, OverflowError) as error:
        raise MalformedError("it is not a duration") from error
    if not 0 < seconds <= 7 * 24 * 3600:
        raise ValueError("it is out of range")
    return float(seconds)


def _boolean(written: str) -> bool:
    if written.lower() in TRUE | FALSE:
        return written.lower() in TRUE
    raise MalformedError("it is not a boolean")


def choice(*allowed: str, **aliases: str) -> Kind:
    """One of the allowed words, ignoring case. Aliases map further words to allowed ones."""

    def read(written: str) -> str:
        word = aliases.get(written.lower(), written.lower())
        if word not in allowed:
            raise ValueError("it is not an allowed value")
        return word

    return Kind(read=read, expects=f"one of {', '.join(allowed)}")


def _gates(written: str) -> tuple[tuple[str, bool], ...]:
    gates: dict[str, bool] = {}
    for pair in filter(None, (part.strip() for part in written.split(","))):
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"{pair!r} does not have the form Name=true")
        gates[name.strip()] = _boolean(value.strip())
    return tuple(gates.items())


def _prices(written: str) -> tuple[tuple[str, Decimal], ...]:
    prices: dict[str, Decimal] = {}
    for pair in filter(None, (part.strip() for part in written.split(","))):
        offer, _, amount = (part.strip() for part in pair.partition("="))
        if _PRICED.fullmatch(offer) is None or _AMOUNT.fullmatch(amount) is None:
            raise ValueError(
                f"{pair!r} does not have the form Standard_Size=1.23 or Standard_Size/spot=1.23, with a price below"
                " 1,000,000"
            )
        prices[offer] = Decimal(amount)
    return tuple(prices.items())


def _cloud(written: str) -> str:
    cloud = find_cloud(written)
    if cloud is None:
        raise ValueError("it is not a cloud of Azure")
    return cloud.name


def _address(written: str) -> str:
    parts = _split(written)
    if parts.scheme not in {"https", "http"} or not parts.hostname:
        raise ValueError("it is not an HTTP or HTTPS address")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("it must not contain credentials, a query or a fragment")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise ValueError("http would expose tokens on the network; only loopback addresses may use it")
    return written.rstrip("/")


def _authority(written: str) -> str:
    # azure-identity refuses any other scheme too, without a remedy.
    if not _address(written).startswith("https://"):
        raise ValueError("credentials are sent over https only")
    return written.rstrip("/")


def _proxy(written: str) -> str:
    address = written if "://" in written else f"http://{written}"
    parts = _split(address)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("it is not the address of an HTTP proxy")
    return address


def _split(written: str) -> Any:
    try:
        parts = urlsplit(written)
        _ = parts.port
    except ValueError as error:
        # The parser's message contains the address, and with it a password.
        raise ValueError("it is not an address") from error
    return parts


def is_loopback(host: str) -> bool:
    """Whether the host is this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _region(written: str) -> str:
    name = written.replace(" ", "").lower()
    if re.fullmatch(r"[a-z0-9]{0,50}", name) is None:
        raise ValueError("it is not the name of a region")
    return name


DURATION = Kind(read=_duration, expects="a duration such as 90s, 15m or 1h30m, at most 7 days", lenient=True)
SHARE = Kind(read=_share, expects="a number from 0.001 to 1, such as 0.05", lenient=True)
BOOLEAN = Kind(read=_boolean, expects="true or false", lenient=True)
PRICES = Kind(read=_prices, expects="a list such as Standard_NC24ads_A100_v4=3.67,Standard_NC24ads_A100_v4/spot=1.47")
GATES = Kind(read=_gates, expects="a list such as NodeRepair=true,StaticCapacity=false")
CLOUD = Kind(read=_cloud, expects=f"one of {', '.join(cloud.name for cloud in CLOUDS)}")
ADDRESS = Kind(read=_address, expects="an address such as https://management.azure.com")
AUTHORITY = Kind(read=_authority, expects="an address such as https://login.microsoftonline.com")
PROXY = Kind(read=_proxy, expects="an address such as http://proxy.example.com:3128")
REGION = Kind(read=_region, expects="a region such as eastus")
ID = text("an ID such as 00000000-0000-0000-0000-000000000000", r"[A-Za-z0-9-]{1,64}")
GROUP = text("the name of a resource group: letters, digits, -_.(), at most 90", r"[\w().-]{0,89}[\w()-]")
CLUSTER = text("the name of an AKS cluster", r"[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?")
NAME = text("a Kubernetes name: lower-case letters, digits, '-' and '.'", r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
PATH = text("the path of a file")
CONTEXT = text("the name of a context; kubectl config get-contexts lists them")
HOSTS = text("hosts, separated by commas")
TENANT = text("the ID or the domain of a tenant", r"[A-Za-z0-9.-]{1,253}")
API_VERSION = text("a version such as 2026-08-01", r"20\d\d-\d\d-\d\d(-preview)?")
PORT = whole(0, 65535)
COUNT = whole(1, 10_000)
