"""The controller, and the commands about the program itself."""

from collections.abc import Iterator, Sequence

from provisioner.api.text import printable
from provisioner.cli.arguments import PROGRAM, Parser, add_output
from provisioner.cli.command import Command, Invocation
from provisioner.cli.output import encoded
from provisioner.settings import Described, SettingsError, load_all
from provisioner.version import own_commit, own_version

SHELLS = ("bash", "zsh", "fish")


def _run(call: Invocation) -> int:
    settings = call.settings()
    from provisioner.cli.commands import run

    return run.run(settings, call.env, call.err)


def _config(call: Invocation) -> int:
    """Prints every setting, also if some are missing or invalid; these are marked, and reported with their remedies."""
    rows, errors = load_all(call.line.flags, call.env, call.file())
    if call.arguments.output == "table":
        call.out.writelines(_settings_table(rows))
    else:
        call.out.write(f"{encoded(rows, call.arguments.output)}\n")
    if wrong := [*call.line.errors, *errors]:
        raise SettingsError(wrong)
    return 0


def _settings_table(rows: Sequence[Described]) -> Iterator[str]:
    width = max(len(row.setting) for row in rows)
    for row in rows:
        mark, value = ("✗", f"({row.error})") if row.error else (" ", row.value)
        yield f"{printable(f'{mark} {row.setting:<{width}}  {value}  ({row.source})')}\n"


def _add_completion(parser: Parser) -> None:
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help="the shell: %(choices)s")


def _completion(call: Invocation) -> int:
    from argcomplete.shell_integration import shellcode

    call.out.write(f"{shellcode([PROGRAM], shell=call.arguments.shell).strip()}\n")
    return 0


def _version(call: Invocation) -> int:
    version, commit = own_version(), own_commit()
    if call.arguments.output == "table":
        call.out.write(f"{PROGRAM} {version}{f' ({commit})' if commit else ''}\n")
    else:
        call.out.write(f"{encoded({'version': version, 'commit': commit}, call.arguments.output)}\n")
    return 0


def _add_help(parser: Parser) -> None:
    from . import COMMANDS

    parser.add_argument("topic", nargs="?", choices=tuple(COMMANDS), metavar="COMMAND", help="a command")


def _help(_: Invocation) -> int:
    """The parser prints the help."""
    return 0


RUN = Command(
    name="run",
    summary="run the controller (the default)",
    description="""\
Runs the controller. It serves metrics at :8080/metrics, and /healthz and /readyz at :8081. SIGTERM stops it: running
work is cancelled, the Lease is released, the exit code is 0. A second signal ends the process at once.""",
    exit_codes="Exit codes: 0 stopped by a signal, 1 ended by an error, which is logged, 2 invalid usage or settings.",
    settings="listed",
    run=_run,
)

CONFIG = Command(
    name="config",
    summary="print every setting with its value and its source",
    description="""\
Prints every setting with its value and its source: flag, environment variable, file or default. Settings that are
missing or invalid are marked with ✗. Credentials in addresses are masked.""",
    exit_codes="Exit codes: 0 done, 2 invalid usage or settings, all of them reported at once.",
    settings="listed",
    arguments=add_output,
    run=_config,
)

COMPLETION = Command(
    name="completion",
    summary="print a completion script for a shell",
    description="""\
Prints a script that completes commands, flags and values in a shell: files, regions, VM sizes, contexts of the
kubeconfig, and NodeClaims, NodePools, Pods and Namespaces, which it reads from the cluster.""",
    examples="""\
  eval "$(gpu-provisioner completion bash)"     in ~/.bashrc
  eval "$(gpu-provisioner completion zsh)"      in ~/.zshrc, after compinit
  gpu-provisioner completion fish | source      in ~/.config/fish/config.fish""",
    exit_codes="Exit codes: 0 done, 2 invalid usage.",
    arguments=_add_completion,
    run=_completion,
)

VERSION = Command(
    name="version",
    summary="print the version",
    description="Prints the version.",
    exit_codes="Exit code: 0.",
    arguments=add_output,
    run=_version,
)

HELP = Command(
    name="help",
    summary="print the help of a command",
    description="Prints the help of a command, or the list of commands.",
    exit_codes="Exit codes: 0 done, 2 unknown command.",
    arguments=_add_help,
    run=_help,
)

OWN = (CONFIG, COMPLETION, VERSION, HELP)
