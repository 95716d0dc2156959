"""The parser of the command line: Go's syntax for the flags of settings, and the flags of each command."""

import argparse

import pytest

from provisioner.cli.arguments import UsageError
from provisioner.cli.command import CommandLine
from provisioner.cli.definitions import COMMANDS
from provisioner.cli.parser import build_parser, parse
from provisioner.settings import IGNORED, OPTIONS, assignment


def refused(*words: str) -> str:
    with pytest.raises(UsageError) as error:
        parse(words)
    return str(error.value)


def unknown(line: CommandLine) -> list[str]:
    return [assignment(error) for error in line.errors]


def test_flags_are_read_as_go_reads_them() -> None:
    """One dash or two, an equals sign or a space, a boolean without a value; other words are unknown to `run`."""
    line = parse(
        [
            "--metrics-port=9090",
            "-health-probe-port",
            "9091",
            "--disable-leader-election",
            "-enable-profiling=false",
            "--location=",
            "-f",
            "claim.yaml",
            "--unknown=1",
            "-",
            "---metrics-port=1",
        ]
    )
    assert line.command == "run"
    assert line.flags == {
        "metrics-port": "9090",
        "health-probe-port": "9091",
        "disable-leader-election": "true",
        "enable-profiling": "false",
        "location": "",
    }
    assert unknown(line) == ["-f", "claim.yaml", "--unknown=1", "-", "---metrics-port=1"]


def test_a_boolean_flag_takes_no_further_word() -> None:
    """As in Go, and unlike an optional value of argparse."""
    line = parse(["adopt", "-disable-leader-election", "ws1", "--all"])
    assert (line.flags, line.arguments.name, line.arguments.all) == ({"disable-leader-election": "true"}, "ws1", True)


@pytest.mark.matrix(quick=15)
@pytest.mark.parametrize("option", [*OPTIONS, *IGNORED], ids=lambda option: option.flag)
def test_every_flag_is_accepted_with_one_dash_or_two(option) -> None:
    """Those of Azure/gpu-provisioner and Karpenter that have no effect included."""
    for dashes in ("-", "--"):
        for name in (name for name, command in COMMANDS.items() if command.settings):
            words = {"explain": ["ws1"], "release": ["ws1"], "uninstall": ["--drain"]}.get(name, [])
            assert parse([name, *words, f"{dashes}{option.flag}=x"]).flags == {option.flag: "x"}


@pytest.mark.parametrize(
    ("words", "config"),
    [((), ""), (("run",), ""), (("-config=a",), "a"), (("--config", "a"), "a"), (("run", "--config=a"), "a")],
)
def test_run_is_the_default(words: tuple[str, ...], config: str) -> None:
    """Azure/gpu-provisioner has no commands."""
    line = parse(words)
    assert (line.command, line.arguments.config, line.errors) == ("run", config, ())


def test_the_last_of_equal_flags_wins() -> None:
    """Wrappers append their own flags."""
    assert parse(["--log-level=info", "--log-level", "debug"]).flags == {"log-level": "debug"}


def test_words_after_two_dashes_are_not_flags() -> None:
    """They are unknown words, whatever they look like."""
    line = parse(["--", "--metrics-port=1"])
    assert (line.flags, unknown(line)) == ({}, ["--metrics-port=1"])


def test_a_flag_without_its_value_is_refused() -> None:
    """At the end of the line, and before another flag."""
    for words in (("--metrics-port",), ("-metrics-port", "--log-level=info")):
        assert refused(*words) == (
            "gpu-provisioner run: argument --metrics-port: expected one argument\n    See gpu-provisioner run --help."
        )


def test_flags_are_not_abbreviated() -> None:
    """The remedy names the flag that is similar."""
    assert refused("gc", "--conf").splitlines() == [
        "gpu-provisioner gc: unrecognized arguments: --conf",
        "    Did you mean --config?",
    ]


@pytest.mark.parametrize("name", COMMANDS)
def test_each_flag_of_a_command_has_a_help_text(name: str) -> None:
    """Settings are hidden where `run --help` is referred to, and visible for completion."""
    settings = COMMANDS[name].settings
    for complete in (False, True):
        actions = build_parser(list_settings=complete).commands[name]._actions
        assert all(action.help for action in actions)
        visible = {flag for one in actions if one.help != argparse.SUPPRESS for flag in one.option_strings}
        listed = settings == "listed" or (settings == "accepted" and complete)
        assert ({f"--{option.flag}" for option in OPTIONS} <= visible) is listed
        assert not {f"--{option.flag}" for option in IGNORED} & visible
