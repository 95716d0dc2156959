"""Quantities are parsed as in Kubernetes."""

from decimal import Decimal

import pytest

from provisioner.api.quantity import LARGEST, as_gib_ceil, parse_quantity


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("0", "0"),
        ("1", "1"),
        (7, "7"),
        (1.5, "1.5"),
        (1e16, "10000000000000000"),
        ("-3", "-3"),
        ("+3", "3"),
        (".5", "0.5"),
        ("5.", "5"),
        ("0.1", "0.1"),
        ("5n", "0.000000005"),
        ("5u", "0.000005"),
        ("500m", "0.5"),
        ("2k", "2000"),
        ("2M", "2000000"),
        ("2G", "2000000000"),
        ("2T", "2000000000000"),
        ("2P", "2000000000000000"),
        ("2E", "2000000000000000000"),
        ("1Ki", "1024"),
        ("1.5Ki", "1536"),
        ("1Mi", "1048576"),
        ("1Gi", "1073741824"),
        ("1Ti", "1099511627776"),
        ("1Pi", "1125899906842624"),
        ("1Ei", "1152921504606846976"),
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("1e-3", "0.001"),
        ("12e+2", "1200"),
    ],
)
def test_valid_quantities(written: str | int | float, meant: str) -> None:
    """All suffixes, both kinds of exponent and plain numbers are exact."""
    assert parse_quantity(written) == Decimal(meant)


@pytest.mark.parametrize(
    "written",
    [
        "",
        " ",
        "1 Gi",
        "Gi",
        "1gi",
        "1GI",
        "1KI",
        "1K",
        "1e",
        "1e1.5",
        "1.2.3",
        "--1",
        "1_000",
        "0x10",
        "\uff11",
        "1\n",
        "nan",
        "inf",
        "1m5",
    ],
)
def test_an_invalid_quantity_is_rejected(written: str) -> None:
    """The message contains the text."""
    with pytest.raises(ValueError, match="is not a quantity") as refusal:
        parse_quantity(written)
    assert repr(written) in str(refusal.value)


@pytest.mark.parametrize("written", [float("nan"), float("inf"), True])
def test_special_numbers_are_rejected(written: float) -> None:
    """NaN, infinity and booleans."""
    with pytest.raises(ValueError, match="is not a quantity"):
        parse_quantity(written)


def test_a_long_text_is_rejected_with_a_short_message() -> None:
    with pytest.raises(ValueError, match="is not a quantity") as refusal:
        parse_quantity("1" * 1_000_000)
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("9223372036854775807", LARGEST),
        ("9223372036854775808", LARGEST),
        ("8Ei", LARGEST),
        ("1e999999999999", LARGEST),
        ("-1e999999999999", -LARGEST),
        ("0e999999999999", Decimal(0)),
        ("0.1n", Decimal("1e-9")),
        ("1.1n", Decimal("2e-9")),
        ("-0.1n", Decimal("-1e-9")),
        ("1e-999999999999", Decimal("1e-9")),
        ("9223372036854775806.999999999", Decimal("9223372036854775806.999999999")),
    ],
)
def test_quantities_are_capped_and_rounded_up(written: str, meant: Decimal) -> None:
    """The maximum is 2^63-1, the precision is nano, and rounding is away from zero."""
    assert parse_quantity(written) == meant


@pytest.mark.parametrize(
    ("written", "gib"),
    [
        ("1024Gi", 1024),
        ("1Ti", 1024),
        ("500Mi", 1),
        ("1Gi", 1),
        ("1073741825", 2),
        ("100G", 94),
        ("0", 0),
        ("1n", 1),
        ("-1Gi", -1),
        ("-1.5Gi", -1),
        ("9223372036854775806", 2**33),
    ],
)
def test_disk_sizes_are_rounded_up_to_gib(written: str, gib: int) -> None:
    assert as_gib_ceil(written) == gib
