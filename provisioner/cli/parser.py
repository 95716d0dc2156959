"""The parser of the command line: one argparse parser for all commands.

The flags of the settings are generated from `provisioner.settings.OPTIONS`. They are read as Go reads flags, for users
of Azure/gpu-provisioner: one dash or two, and a boolean flag needs no value.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NoReturn

from provisioner.api.field_error import FieldError
from provisioner.settings import BY_FLAG, IGNORED, OPTIONS, assignment, masked
from provisioner.settings.kinds import DURATION

from .descriptions import COMMANDS, INSTALL_TRY, RELEASE_FLAG, TRY_DISTRIBUTION, Command
from .installation import missing_for_try
from .output import FORMATS, TEXT_FORMATS, VALUES_FORMATS

PROGRAM = "gpu-provisioner"
SHELLS = ("bash", "zsh", "fish")
SETTINGS = f"""\
The settings of {PROGRAM} run (KUBECONFIG, ARM_SUBSCRIPTION_ID, ARM_RESOURCE_GROUP, AZURE_CLUSTER_NAME, …) apply,
as flags or as environment variables: {PROGRAM} run --help lists them. Outside a Pod, the credential for
Azure is your own login (az login), unless DEPLOYMENT_MODE or AZURE_FEDERATED_TOKEN_FILE is set."""


class UsageError(Exception):
    """The command line is invalid. The text is one line for the cause and one for the remedy."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """`flags`: values of settings by the name of their flag. `errors`: words that are neither flags nor arguments."""

    command: str
    arguments: argparse.Namespace
    flags: Mapping[str, str]
    errors: tuple[FieldError, ...] = ()


class Parser(argparse.ArgumentParser):
    """`commands`: the parsers of the commands by name, for the top-level parser."""

    commands: Mapping[str, "Parser"]

    def error(self, message: str) -> NoReturn:
        self.fail(message, f"See {self.prog} --help.")

    def fail(self, cause: str, remedy: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {cause}\n    {remedy}")

    def unknown(self, word: str) -> FieldError:
        """The error for a word that is neither a flag nor an argument of this command."""
        name, _, value = word.partition("=")
        near = get_close_matches(name, self._option_string_actions, n=1)
        remedy = f"Did you mean {near[0]}?" if near else f"Remove it; {self.prog} --help lists the flags."
        message = "unknown flag" if word.startswith("-") else "unexpected argument"
        return FieldError(masked(name), "FieldValueInvalid", message, masked(value), remedy)


def parse(words: Sequence[str]) -> CommandLine:
    """Parse the words after the program's name. Without a command, they are flags of `run`.

    Raises UsageError; and SystemExit with code 0 once `--help` has been printed.
    """
    words = [*_go_syntax(words)]
    if not words or (words[0].startswith("-") and words[0] not in ("-h", "--help")):
        words = ["run", *words]
    if words[0] == "run" and "--version" in words:
        words = ["version"]
    if words[0] == "help" and not {"-h", "--help"} & {*words}:
        words = [*words[1:], "--help"]
    name = words[0]
    if name not in (commands := _installed()) and not name.startswith("-"):
        if name in COMMANDS:
            cause = f"the package {TRY_DISTRIBUTION} is not installed (no module {missing_for_try()})"
            raise UsageError(f"{PROGRAM} {name}: {cause}\n    {INSTALL_TRY}")
        near = get_close_matches(name, commands, n=1)
        remedy = f"{f'Did you mean {near[0]}? ' if near else ''}The commands are {', '.join(commands)}."
        raise UsageError(f"{PROGRAM}: unknown command {name!r}\n    {remedy}")
    parser = build_parser(name)
    arguments, rest = parser.parse_known_args(words)
    command = parser.commands[arguments.command]
    errors = tuple(command.unknown(word) for word in rest if word != "--")
    if errors and COMMANDS[arguments.command].settings != "listed":
        command.fail(f"unrecognized arguments: {' '.join(map(assignment, errors))}", errors[0].remedy)
    flags = {name[2:]: value for name, value in vars(arguments).items() if name.startswith("--")}
    return CommandLine(command=arguments.command, arguments=arguments, flags=flags, errors=errors)


def _installed() -> Mapping[str, Command]:
    """The commands without those whose distribution is not installed."""
    missing = missing_for_try()
    return {name: command for name, command in COMMANDS.items() if not (missing and command.of_try)}


def build_parser(only: str = "", *, list_settings: bool = False) -> Parser:
    """The parser of all installed commands. `only`: the command that is run; the others have no flags.
    `list_settings`: flags of settings are visible in each command that accepts them."""
    parser = Parser(
        prog=PROGRAM,
        usage="%(prog)s [COMMAND] [flags]",
        description="Turns Karpenter NodeClaims into GPU nodes on Azure Kubernetes Service, and removes them again.",
        epilog=f"{PROGRAM} COMMAND --help describes a command. Flags without a command are flags of run, as for"
        f" Azure/gpu-provisioner; {PROGRAM} run --help lists the settings.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", title="commands", metavar="COMMAND", parser_class=Parser)
    for name, command in _installed().items():
        own = commands.add_parser(name, prog=f"{PROGRAM} {name}", **_texts(command))
        if only not in ("", name):
            continue
        if name in _ARGUMENTS:
            _ARGUMENTS[name](own)
        if command.settings:
            _add_settings(own, visible=list_settings or command.settings == "listed")
    parser.commands = commands.choices
    return parser


def _go_syntax(words: Sequence[str]) -> Iterator[str]:
    """The words with two dashes before each long flag, and with a value for each boolean setting."""
    rest = iter(words)
    for word in rest:
        if word == "--":
            yield from (word, *rest)
            return
        name, equals, value = word.lstrip("-").partition("=")
        is_flag = 1 <= len(word) - len(word.lstrip("-")) <= 2
        if is_flag and name in BY_FLAG:
            yield f"--{name}={value}" if equals else f"--{name}=true" if BY_FLAG[name].switch else f"--{name}"
        elif is_flag and name in ("help", "version", "config"):
            yield f"--{word.lstrip('-')}"
        else:
            yield word


def _texts(command: Command) -> dict[str, Any]:
    """The texts of a command's help."""
    parts = [
        f"examples:\n{command.examples}" if command.examples else "",
        SETTINGS if command.settings == "accepted" else "",
        command.exit_codes,
    ]
    return {
        "usage": "%(prog)s [settings]" if command.settings == "listed" else None,
        "help": command.summary,
        "description": command.description,
        "epilog": "\n\n".join(filter(None, parts)),
        "formatter_class": argparse.RawDescriptionHelpFormatter,
        "allow_abbrev": False,
    }


def _add_settings(parser: Parser, *, visible: bool) -> None:
    title = "settings, each with its environment variable; a flag overrides the variable, which overrides the file"
    group = parser.add_argument_group(title if visible else None)
    for option in (*OPTIONS, *IGNORED):
        _add(
            group,
            f"--{option.flag}",
            dest=f"--{option.flag}",
            default=argparse.SUPPRESS,
            metavar=option.env[0],
            help=option.help.replace("%", "%%") if visible and option in OPTIONS else argparse.SUPPRESS,
            is_file=option.is_path,
        )
    _add(parser, "--config", default="", metavar="FILE", help="a YAML file of settings, by flag name", is_file=True)


def _add(group: argparse._ActionsContainer, *names: str, is_file: bool = False, **options: Any) -> None:
    """Add an argument; `is_file`: shells complete its value with the names of files."""
    action: Any = group.add_argument(*names, **options)
    if is_file:
        action.is_file = True


def _try(parser: Parser) -> None:
    # Part of the second distribution, and not needed by the other commands.
    from provisioner.trial import flags

    flags.add_arguments(parser)
    parser.epilog = f"{flags.epilog()}\n\n{parser.epilog}"


def _plan(parser: Parser) -> None:
    text = "manifests; may be given repeatedly"
    _add(parser, "-f", "--filename", action="append", required=True, metavar="FILE|DIR|-", help=text, is_file=True)
    _output(parser)


def _schedule(parser: Parser) -> None:
    source = parser.add_mutually_exclusive_group()
    text = "manifests; may be given repeatedly"
    _add(source, "-f", "--filename", action="append", default=[], metavar="FILE|DIR|-", help=text, is_file=True)
    source.add_argument("--json-lines", action="store_true", help="read one scenario on each line of standard input")
    parser.add_argument(
        "--disrupt", action="store_true", help="print which machines would be disrupted now, and what keeps the others"
    )
    parser.add_argument(
        "--region", metavar="REGION", help="whose sizes and prices (that of the zones in the manifests, or eastus)"
    )
    _output(parser)


def _check(parser: Parser) -> None:
    text = "a VM size; may be given repeatedly"
    parser.add_argument("--size", action="append", default=[], metavar="SIZE", help=text)
    _output(parser)


def _values(parser: Parser) -> None:
    for flag, text in (("release", "the Helm release"), ("namespace", "the namespace of the Helm release")):
        parser.add_argument(f"--{flag}", default=PROGRAM, metavar="NAME", help=f"{text} (%(default)s)")
    text = "the repository of the controller's image, without a tag"
    parser.add_argument("--image", default="", metavar="REPOSITORY", help=text)
    parser.add_argument("--identity-name", default=PROGRAM, metavar="NAME", help="the managed identity (%(default)s)")
    text = "its resource group (the cluster's resource group)"
    parser.add_argument("--identity-resource-group", default="", metavar="NAME", help=text)
    _output(parser, VALUES_FORMATS)


def _doctor(parser: Parser) -> None:
    text = "a NodeClaim or its Node (all that lack GPUs or are not initialized)"
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help=text)
    _output(parser)


def _explain(parser: Parser) -> None:
    text = "nodeclaim/NAME, pod/NAMESPACE/NAME, nodepool/NAME (short: nc, po, np), or a name that one of them has"
    parser.add_argument("name", metavar="TYPE/NAME", help=text)
    parser.add_argument(
        "-n", "--namespace", default="default", metavar="NAME", help="the namespace of a Pod (%(default)s)"
    )
    text = "manifests to read in place of the cluster; may be given repeatedly"
    _add(parser, "-f", "--filename", action="append", default=[], metavar="FILE|DIR|-", help=text, is_file=True)
    _output(parser, TEXT_FORMATS)


def _gc(parser: Parser) -> None:
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--dry-run", action="store_true", help="only list the removals (the default)")
    mode.add_argument("--confirm", action="store_true", help="let exactly the listed removals pass the circuit breaker")
    parser.add_argument("--yes", action="store_true", help="do not ask before --confirm writes")
    _output(parser)


def _adopt(parser: Parser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="the NodeClaim")
    parser.add_argument("--all", action="store_true", help="every NodeClaim whose agent pool has a dead UID")
    parser.add_argument("--yes", action="store_true", help="do not ask before --all writes")
    _output(parser)


def _release(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="the NodeClaim")
    text = "state that you have verified in Azure that the agent pool is gone"
    parser.add_argument(RELEASE_FLAG, dest="known", action="store_true", help=text)


def _uninstall(parser: Parser) -> None:
    parser.add_argument("--drain", action="store_true", required=True, help="drain and delete the machines")
    parser.add_argument("--dry-run", action="store_true", help="only list what would be deleted")
    parser.add_argument("--yes", action="store_true", help="do not ask before NodeClaims are deleted")
    text = "how long to wait for the removals, such as 45m (30m)"
    parser.add_argument("--timeout", type=_duration, default=1800.0, metavar="DURATION", help=text)
    _output(parser)


def _duration(written: str) -> float:
    """Seconds."""
    try:
        seconds: float = DURATION.read(written)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{written!r}: {error}; set it to {DURATION.expects}") from None
    return seconds


def _completion(parser: Parser) -> None:
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help="the shell: %(choices)s")


def _help(parser: Parser) -> None:
    parser.add_argument("topic", nargs="?", choices=tuple(COMMANDS), metavar="COMMAND", help="a command")


def _output(parser: Parser, formats: Sequence[str] = FORMATS) -> None:
    parser.add_argument("-o", "--output", choices=formats, default=formats[0], help="output format (%(default)s)")


_ARGUMENTS: Mapping[str, Callable[[Parser], None]] = {
    "try": _try,
    "plan": _plan,
    "schedule": _schedule,
    "check": _check,
    "doctor": _doctor,
    "explain": _explain,
    "values": _values,
    "gc": _gc,
    "adopt": _adopt,
    "release": _release,
    "uninstall": _uninstall,
    "config": _output,
    "completion": _completion,
    "version": _output,
    "help": _help,
}
