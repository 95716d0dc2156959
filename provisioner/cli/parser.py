"""The parser of the command line: one argparse parser for all commands.

The flags of the settings are generated from `provisioner.settings.OPTIONS`. They are read as Go reads flags, for users
of Azure/gpu-provisioner: one dash or two, and a boolean flag needs no value.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from provisioner.settings import BY_FLAG, IGNORED, OPTIONS, Option, assignment

from .arguments import PROGRAM, Completes, Parser, UsageError, add
from .command import Command, CommandLine
from .definitions import COMMANDS
from .installation import INSTALL_TRY, TRY_DISTRIBUTION, missing_for_try

SETTINGS = f"""\
The settings of {PROGRAM} run (--subscription-id, --resource-group, --cluster-name, …) apply, as flags or as
environment variables: {PROGRAM} run --help lists them. Outside a Pod, the credential for Azure is your own
login (az login), unless DEPLOYMENT_MODE or AZURE_FEDERATED_TOKEN_FILE is set."""
# In the help of each command that connects to the API server.
CLUSTER_FLAGS = ("kubeconfig", "context")
RELEASE = """\
Outside a Pod, the settings that are not given are read from the Helm release in the cluster: the environment of its
Deployment. A warning names what is given otherwise."""


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
        command.arguments(own)
        if command.settings:
            _add_settings(own, command, visible=list_settings or command.settings == "listed")
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
        RELEASE if command.release else "",
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


def _add_settings(parser: Parser, command: Command, *, visible: bool) -> None:
    title = "settings, each with its environment variable; a flag overrides the variable, which overrides the file"
    cluster = parser.add_argument_group("cluster") if command.kube else None
    group = parser.add_argument_group(title if visible else None)
    for option in (*OPTIONS, *IGNORED):
        of_cluster = cluster is not None and option.flag in CLUSTER_FLAGS
        add(
            cluster if cluster is not None and of_cluster else group,
            f"--{option.flag}",
            dest=f"--{option.flag}",
            default=argparse.SUPPRESS,
            metavar=option.env[0],
            help=option.help.replace("%", "%%") if of_cluster or (visible and option in OPTIONS) else argparse.SUPPRESS,
            completes=_completes(option),
        )
    if cluster is not None and command.release:
        text = "the namespace of the Helm release (all, or gpu-provisioner if only that may be read)"
        named = Completes.NAMESPACES
        add(cluster, "--release-namespace", default="", metavar="NAME", help=text, completes=named)
    text = "a YAML file of settings, by flag name"
    add(parser, "--config", default="", metavar="FILE", help=text, completes=Completes.FILES)


def _completes(option: Option) -> Completes:
    if option.is_path:
        return Completes.FILES
    return {"context": Completes.CONTEXTS, "location": Completes.REGIONS}.get(option.flag, Completes.NOTHING)
