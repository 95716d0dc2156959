"""How the text of a setting becomes a value.

A kind either returns the value or raises ValueError whose text says what is wrong; `MalformedError` marks
numbers, durations and booleans that cannot be read at all, which Karpenter replaces by the default when they come from
the environment. `expects` completes the sentence "write …".
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
    """Text that is not even of the kind: no number, no boolean, no duration."""


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """`lenient` kinds fall back to the default when the environment's text is malformed."""

    read: Callable[[str], Any]
    expects: str
    lenient: bool = False


def text(expects: str, pattern: str = r"[^\x00-\x1f]*") -> Kind:
    """Text that matches the pattern as a whole."""
    allowed = re.compile(pattern)

    def read(written: str) -> str:
        if allowed.fullmatch(written) is None:
            raise ValueError("it has characters, or a length, that cannot be right")
        return written

    return Kind(read=read, expects=expects)


def whole(least: int, most: int) -> Kind:
    """A whole number within bounds, both inclusive."""

    def read(written: str) -> int:
        if _INTEGER.fullmatch(written) is None:
            raise MalformedError("it is not a whole number")
        if not least <= int(written) <= most:
            raise ValueError("it is out of range")
        return int(written)

    return Kind(read=read, expects=f"a whole number from {least} to {most}", lenient=True)


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
    raise MalformedError("it is neither true nor false")


def choice(*allowed: str, **aliases: str) -> Kind:
    """One of a few words; case does not count. Aliases map further words to allowed ones."""

    def read(written: str) -> str:
        word = aliases.get(written.lower(), written.lower())
        if word not in allowed:
            raise ValueError("there is no such choice")
        return word

    return Kind(read=read, expects=f"one of {', '.join(allowed)}")


def _gates(written: str) -> tuple[tuple[str, bool], ...]:
    gates: dict[str, bool] = {}
    for pair in filter(None, (part.strip() for part in written.split(","))):
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"{pair!r} is not of the form Name=true")
        gates[name.strip()] = _boolean(value.strip())
    return tuple(gates.items())


def _prices(written: str) -> tuple[tuple[str, Decimal], ...]:
    prices: dict[str, Decimal] = {}
    for pair in filter(None, (part.strip() for part in written.split(","))):
        offer, _, amount = (part.strip() for part in pair.partition("="))
        if _PRICED.fullmatch(offer) is None or _AMOUNT.fullmatch(amount) is None:
            raise ValueError(f"{pair!r} is not of the form Standard_Size=1.23 or Standard_Size/spot=1.23")
        prices[offer] = Decimal(amount)
    return tuple(prices.items())


def _cloud(written: str) -> str:
    cloud = find_cloud(written)
    if cloud is None:
        raise ValueError("there is no such cloud")
    return cloud.name


def _address(written: str) -> str:
    parts = _split(written)
    if parts.scheme not in {"https", "http"} or not parts.hostname:
        raise ValueError("it is not the address of a web service")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("credentials, a query or a fragment do not belong into it")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise ValueError("plain http would show every token to the network; only loopback addresses may have it")
    return written.rstrip("/")


def _authority(written: str) -> str:
    # azure-identity itself refuses any other scheme, with less to go on.
    if not _address(written).startswith("https://"):
        raise ValueError("credentials are exchanged over https only")
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
        # The parser's own words quote the address, and with it a password.
        raise ValueError("it is not an address") from error
    return parts


def is_loopback(host: str) -> bool:
    """Whether the host can only be this machine."""
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
BOOLEAN = Kind(read=_boolean, expects="true or false", lenient=True)
PRICES = Kind(read=_prices, expects="a list such as Standard_NC24ads_A100_v4=3.67,Standard_NC24ads_A100_v4/spot=1.47")
GATES = Kind(read=_gates, expects="a list such as NodeRepair=true,StaticCapacity=false")
CLOUD = Kind(read=_cloud, expects=f"one of {', '.join(cloud.name for cloud in CLOUDS)}")
ADDRESS = Kind(read=_address, expects="an address such as https://management.azure.com")
AUTHORITY = Kind(read=_authority, expects="an address such as https://login.microsoftonline.com")
PROXY = Kind(read=_proxy, expects="an address such as http://proxy.example.com:3128")
REGION = Kind(read=_region, expects="a region such as eastus")
