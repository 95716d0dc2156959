"""The table of `check` on a terminal and in a pipe."""

import argparse
import io
import re

import pytest

from cloudprovider.checks import CheckResult
from provisioner.cli.commands.check import configuration, print_results
from provisioner.cli.commands.console import Console
from provisioner.settings import load

LONG = "the identity has no role assignment on the managed cluster that permits these four actions"
RESULTS = [
    CheckResult(section="azure", check="credential", state="ok", message="valid"),
    CheckResult(section="azure", check="role", state="failed", message=LONG, remedy=f"{LONG} \x1b[2Jx"),
    CheckResult(section="azure", check="quota", state="unknown", message="\x1b[31m\u202eforged"),
]
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed(out: io.StringIO) -> str:
    assert print_results(RESULTS, argparse.Namespace(output="table"), Console(out, out)) == 3
    return out.getvalue()


@pytest.fixture(autouse=True)
def _width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_text_is_wrapped_under_its_column() -> None:
    """No line is wider than the terminal; a remedy is under its message."""
    lines = COLOUR.sub("", printed(Terminal())).splitlines()
    assert max(map(len, lines)) <= 70
    first = next(at for at, line in enumerate(lines) if line.startswith("  ✗ role        the identity"))
    column = lines[first].index("the identity")
    texts = [line[column:] for line in lines[first : first + 4]]
    assert [line[:column].strip() for line in lines[first + 1 : first + 4]] == [""] * 3
    assert " ".join(texts).startswith(f"{LONG} {LONG}")


def test_each_state_has_its_colour() -> None:
    """As in `try`: green, red and yellow; the verdict too."""
    out = printed(Terminal())
    for coloured in (
        "\x1b[32m✓\x1b[0m",
        "\x1b[31m✗\x1b[0m",
        "\x1b[33m-\x1b[0m",
        "\x1b[1mazure\x1b[0m",
        "\x1b[31m1 check",
    ):
        assert coloured in out


def test_texts_of_others_have_no_colour() -> None:
    """Their control characters are escaped, on a terminal and in a pipe."""
    for out in (printed(Terminal()), printed(io.StringIO())):
        assert "\\x1b[31m\\u202eforged" in out
        assert "\x1b[2J" not in out


def test_no_color_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text is still wrapped."""
    monkeypatch.setenv("NO_COLOR", "1")
    out = printed(Terminal())
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 70


def test_a_pipe_gets_one_line_for_each_text() -> None:
    """Without colours, for grep."""
    out = printed(io.StringIO())
    assert "\x1b" not in out
    assert f"  ✗ role        {LONG}\n" in out


def test_a_price_of_a_mistyped_size() -> None:
    """Its price decides nothing."""
    settings = load({"prices": "Standard_NC24ads_A100v4=2,Standard_NC4as_T4_v3=1"}, {}, azure=False)
    found, _ = configuration(settings, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    assert [one.message for one in found.items if "PRICES" in one.message] == [
        "probably unintended: PRICES has a price of Standard_NC24ads_A100v4, which is not a known VM size; did you mean"
        " Standard_NC24ads_A100_v4?"
    ]
