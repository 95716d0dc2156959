"""Help, flags and settings of the commands, before they connect to a cluster."""

import asyncio
import io
import os
import pty
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

import pytest

from provisioner.cli.commands.console import Console, counted, table, terminal_prompt
from provisioner.cli.commands.refusal import Refused
from provisioner.cli.definitions import COMMANDS
from provisioner.cli.main import run_command

ENV = {
    "ARM_SUBSCRIPTION_ID": "00000000-0000-0000-0000-000000000000",
    "ARM_RESOURCE_GROUP": "rg",
    "AZURE_CLUSTER_NAME": "aks",
    "DEPLOYMENT_MODE": "managed",
}
NAMED: Mapping[str, tuple[str, ...]] = {"gc": (), "adopt": ("ws1",), "release": ("ws1",), "uninstall": ("--drain",)}


def command(*words: str, env: Mapping[str, str]) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    return run_command(words, env, out, err), out.getvalue(), err.getvalue()


@pytest.mark.parametrize("name", sorted(COMMANDS))
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_is_complete(name: str, flag: str) -> None:
    """Description, flags, examples and exit codes, independent of settings, in lines of up to 120 characters."""
    code, out, err = command(name, flag, env={})
    assert (code, err) == (0, "")
    described = COMMANDS[name]
    assert out.startswith(f"usage: gpu-provisioner {name} ")
    for words in (described.description, described.examples, f"\n{described.exit_codes}\n"):
        assert words in out
    assert ("--config FILE" in out) is bool(described.settings)
    assert max(len(line) for line in out.splitlines()) <= 120


BAD_USAGE = [
    (("gc", "--dry-run", "--confirm"), "not allowed with argument"),
    (("gc", "--conf"), "unrecognized arguments: --conf"),
    (("gc", "stray"), "unrecognized arguments: stray"),
    (("gc", "-o", "text"), "invalid choice: 'text'"),
    (("release",), "the following arguments are required: NAME"),
    (("release", "a", "b"), "unrecognized arguments: b"),
    (("release", "a", "--i-know"), "unrecognized arguments: --i-know"),
    (("adopt", "a", "--confirm"), "unrecognized arguments: --confirm"),
    (("adopt", "a", "--kubeconfig"), "argument --kubeconfig: expected one argument"),
    (("uninstall",), "the following arguments are required: --drain"),
    (("uninstall", "--drain", "ws1"), "unrecognized arguments: ws1"),
    (
        ("uninstall", "--drain", "--timeout", "soon"),
        "argument --timeout: 'soon': it is not a duration; set it to a dur",
    ),
    (("uninstall", "--drain", "--timeout", "0s"), "argument --timeout: '0s': it is out of range; set it to a duration"),
]


@pytest.mark.parametrize(("words", "cause"), BAD_USAGE, ids=[" ".join(row[0]) for row in BAD_USAGE])
def test_invalid_usage_is_rejected_first(words: tuple[str, ...], cause: str) -> None:
    """Exit code 2, with one line for the cause and one for the remedy on stderr."""
    code, out, err = command(*words, env=ENV)
    assert (code, out) == (2, "")
    found, remedy = err.splitlines()
    assert found.startswith(f"gpu-provisioner {words[0]}: ")
    assert cause in found
    assert remedy.startswith("    ")


@pytest.mark.parametrize("name", sorted(NAMED))
def test_settings_are_those_of_run(name: str, tmp_path: Path) -> None:
    """All missing and invalid settings are reported together, each with its remedy."""
    code, out, err = command(name, *NAMED[name], "--metrics-port=http", env={"DEPLOYMENT_MODE": "managed"})
    assert (code, out) == (2, "")
    assert err.startswith(f"gpu-provisioner {name}: 4 settings are invalid:\n")
    for setting in ("--metrics-port=http", "ARM_SUBSCRIPTION_ID", "ARM_RESOURCE_GROUP", "AZURE_CLUSTER_NAME"):
        assert f"  {setting}: " in err

    gone = tmp_path / "kubeconfig"
    code, out, err = command(name, *NAMED[name], env={**ENV, "KUBECONFIG": str(gone)})
    assert (code, out) == (2, "")
    assert f"KUBECONFIG={gone}: there is no such file" in err

    file = tmp_path / "settings.yaml"
    file.write_text(f"kubeconfig: {gone}\ncluster-name: other\n")
    code, out, err = command(name, *NAMED[name], "--config", str(file), env=ENV)
    assert (code, out) == (2, "")
    assert f"KUBECONFIG={gone}: there is no such file" in err


@pytest.mark.parametrize("name", sorted(NAMED))
@pytest.mark.parametrize("text", ["", "{}", "not: [a kubeconfig", "apiVersion: v1\nkind: Config\n"])
def test_an_invalid_kubeconfig_is_rejected(name: str, text: str, tmp_path: Path) -> None:
    """Empty, malformed or without a context: exit code 2, a cause and a remedy."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(text)
    code, out, err = command(name, *NAMED[name], env={**ENV, "KUBECONFIG": str(kubeconfig)})
    assert (code, out) == (2, "")
    assert err.startswith(f"gpu-provisioner {name}: ")
    assert err.endswith("    Correct the kubeconfig, or select another one with --kubeconfig or --context.\n")
    assert "Traceback" not in err


def test_table_columns_are_aligned() -> None:
    """Three spaces apart, with a dash for an empty cell and without trailing spaces."""
    assert table(("A", "LONG HEAD", "B"), [("value", "", ""), ("x", "yy", "z")]) == [
        "A       LONG HEAD   B",
        "value   -           -",
        "x       yy          z",
    ]
    assert [counted(number, "pool") for number in (0, 1, 2)] == ["0 pools", "1 pool", "2 pools"]


@pytest.mark.parametrize(("answer", "agreed"), [("yes\n", True), (" YES \n", True), ("no\n", False), ("", False)])
def test_only_yes_confirms(answer: str, agreed: bool) -> None:
    """The end of input does not."""

    async def ask(_: str) -> str:
        return answer

    console = Console(io.StringIO(), io.StringIO(), ask)
    if agreed:
        asyncio.run(console.confirm("Really?", yes=False))
    else:
        with pytest.raises(Refused) as refused:
            asyncio.run(console.confirm("Really?", yes=False))
        assert refused.value.code == 1


def test_a_prompt_does_not_block_the_event_loop() -> None:
    """It is printed, and the typed line is the answer; without a terminal there is no prompt."""
    mine, theirs = pty.openpty()
    shown = io.StringIO()

    async def story(typed: TextIO) -> str:
        ask = terminal_prompt(typed, shown)
        assert ask is not None

        async def line() -> str:
            return await ask("Really?")

        async with asyncio.TaskGroup() as tasks:
            answer = tasks.create_task(line())
            await asyncio.sleep(0)
            assert not answer.done()
            os.write(mine, b"yes\n")
        return answer.result()

    with open(theirs, encoding="utf-8") as typed:
        assert asyncio.run(story(typed)) == "yes\n"
    assert shown.getvalue() == "Really? [yes/no] "
    os.close(mine)
    assert terminal_prompt(io.StringIO("yes\n"), shown) is None
