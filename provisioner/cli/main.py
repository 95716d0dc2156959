"""The command line: what the program can be asked to do, and how it ends.

    gpu-provisioner [run] [flags]   the controller itself (the default, as for Azure/gpu-provisioner)
    gpu-provisioner try [...]       the same controller against an embedded cluster and Azure
    gpu-provisioner plan -f FILE    what agent pool and Node a NodeClaim would become, and what is wrong with it
    gpu-provisioner check           whether everything that the controller needs is there
    gpu-provisioner values          the Helm chart's values for an existing cluster, and what is left to do for it
    gpu-provisioner gc [...]        what would be removed without anybody's having asked, and why
    gpu-provisioner adopt NAME      a restored claim takes its agent pool back
    gpu-provisioner release NAME    our finalizers come off a claim whose pool is gone for good
    gpu-provisioner config          every setting, its value and where it came from
    gpu-provisioner completion bash what bash or zsh reads to complete all of this
    gpu-provisioner version

Exit codes 0 (done), 1 (failed while running), 2 (usage or settings), 3 (`check` found something), 130 and 143
(interrupted by SIGINT, by SIGTERM); a line for the cause and one for the remedy; no traceback for a user's mistake, and
none past the redaction. What runs until it is told to end (`run`) ends well by a signal: work stops, the lease is
released, exit 0; a second signal ends the process at once.
"""

import asyncio
import errno
import gc
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from provisioner.api.field_error import FieldError
from provisioner.runtime import logs
from provisioner.runtime.clock import SystemClock
from provisioner.runtime.signals import Signalled, until_signalled
from provisioner.settings import OPTIONS, Settings, SettingsError, describe, load, read_file, read_flags
from provisioner.version import own_commit, own_version

from .installation import strangers

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
COMMANDS = {
    "run": "the controller itself (the default)",
    "try": "the same controller on an embedded cluster and an embedded Azure; try --help tells more",
    "plan": "offline: what a NodeClaim would become, and what is wrong with it; plan --help tells more",
    "check": "configuration, cluster, Azure, quota: what is missing, and what to do about it",
    "values": "the Helm chart's values for an existing cluster, from Azure; values --help tells more",
    "gc": "what would be removed by inference, and why; --confirm lifts the circuit breaker for it",
    "adopt": "let a restored NodeClaim take its agent pool back",
    "release": "drop our finalizers from a deleting NodeClaim whose pool is gone for good",
    "config": "every setting, its value and where it came from",
    "completion": 'what bash or zsh reads to complete command lines: eval "$(gpu-provisioner completion bash)"',
    "version": "the version",
}
ONCE = frozenset({"plan", "check", "values", "gc", "adopt", "release"})
HELP_FLAGS = frozenset({"-h", "-help", "--help"})
VERSION_FLAGS = frozenset({"-version", "--version"})


def main() -> None:
    """The console script."""
    if foreign := strangers():
        sys.stderr.write(
            f"gpu-provisioner: packages that are not this program's stand in their place: {', '.join(foreign)}\n"
            "    Install aks-gpu-provisioner into a virtual environment of its own, and unset PYTHONPATH.\n"
        )
        sys.exit(USAGE)
    try:
        sys.exit(run_command(sys.argv[1:], os.environ, sys.stdout, sys.stderr))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def run_command(arguments: Sequence[str], env: Mapping[str, str], out: TextIO, err: TextIO) -> int:
    """Run one command line; returns the exit code."""
    named = bool(arguments) and not arguments[0].startswith("-")
    command, rest = (arguments[0], arguments[1:]) if named else ("run", arguments)
    if command not in COMMANDS:
        err.write(f"gpu-provisioner: there is no command {command!r}\n    Use one of: {', '.join(COMMANDS)}.\n")
        return USAGE
    if command == "try":
        return _try(rest, out, err)
    if command in ONCE:
        from .commands import command as once  # not before strangers have been looked for

        return once.run(command, rest, env, typed=sys.stdin, out=out, err=err)
    if HELP_FLAGS & set(rest):
        out.write(_help())
        return OK
    if command == "version" or VERSION_FLAGS & set(rest):
        out.write(f"gpu-provisioner {own_version()}{f' ({commit})' if (commit := own_commit()) else ''}\n")
        return OK
    if command == "completion":
        return _completion(rest, out, err)
    try:
        settings = _settings(rest, env)
    except SettingsError as error:
        err.write(f"gpu-provisioner: {error}\n")
        return USAGE
    if command == "config":
        width = max(len(name) for name, _, _ in describe(settings))
        out.writelines(f"{name:<{width}}  {value}  ({origin})\n" for name, value, origin in describe(settings))
        return OK
    return _run(settings, env, err)


def _settings(arguments: Sequence[str], env: Mapping[str, str]) -> Settings:
    flags, rest = read_flags(arguments)
    rest = [argument for argument in rest if argument != "--"]
    file: Mapping[str, Any] | None = None
    if rest[:1] == ["--config"] or (rest and rest[0].startswith("--config=")):
        file, rest = _config_file(rest)
    errors = [
        FieldError(word, "FieldValueInvalid", "there is no such flag", remedy="Leave it out, or see --help.")
        for word in rest
    ]
    try:
        settings = load(flags, env, file)
    except SettingsError as error:
        raise SettingsError([*errors, *error.errors]) from None
    if errors:
        raise SettingsError(errors)
    return settings


def _config_file(rest: list[str]) -> tuple[Mapping[str, Any], list[str]]:
    _, _, path = rest[0].partition("=")
    path, left = (path, rest[1:]) if path else (rest[1] if len(rest) > 1 else "", rest[2:])
    return read_file(path), left


def _help() -> str:
    lines = [
        "usage: gpu-provisioner [command] [flags]",
        "",
        "Turns Karpenter NodeClaims into GPU nodes on AKS, and takes them away again.",
        "",
        *(f"  {name:<12}{what}" for name, what in COMMANDS.items()),
        "",
        "A flag counts before its environment variable, that before the file of --config, that before the default:",
        "",
    ]
    lines += [f"  --{option.flag:<28} {option.env[0]:<28} {option.help}" for option in OPTIONS]
    lines += [f"  --{'config':<28} {'':<28} a YAML file of settings, by the names of their flags"]
    return "\n".join([*lines, ""])


def _completion(words: Sequence[str], out: TextIO, err: TextIO) -> int:
    from .completion import SHELLS, script

    if len(words) != 1 or words[0] not in SHELLS:
        err.write(f"gpu-provisioner completion: for which shell?\n    Name one of: {', '.join(SHELLS)}.\n")
        return USAGE
    out.write(script(words[0], COMMANDS))
    return OK


def _run(settings: Settings, env: Mapping[str, str], err: TextIO) -> int:
    # Nearly all that is made until the program runs stays: looking through it for garbage is a fifth of the start.
    gc.disable()
    # The SDKs take half a second to import: not for --help, nor for a settings error.
    from provisioner.operator.config import check_files
    from provisioner.runtime.kubernetes_sdk import ConfigException

    console = {"auto": None, "json": False, "console": True}[settings.log_encoding]
    logs.configure(SystemClock(), level=settings.log_level, stream=err, console=console, commit=own_commit())
    log = logs.get_logger("cli")
    for warning in settings.warnings:
        log.warning(warning)
    for note in settings.notes:
        log.debug(note)
    try:
        check_files(settings, env)
        asyncio.run(until_signalled(_controller(settings)))
    except Signalled:
        return OK
    except SettingsError as error:
        err.write(f"gpu-provisioner: {error}\n")
        return USAGE
    except ConfigException as error:
        err.write(f"gpu-provisioner: {error}\n    Mend the kubeconfig, or name another with KUBECONFIG.\n")
        return USAGE
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not pass the redaction of the log
        return _told(_first(error), error)
    finally:
        gc.enable()
    return OK


async def _controller(settings: Settings) -> None:
    from provisioner.operator.clients import open_clients
    from provisioner.operator.config import config_from
    from provisioner.operator.operator import Operator

    async with open_clients(settings) as clients:
        app = Operator(clients, config_from(settings))
        gc.freeze()  # and later looks through 100,000 objects would each halt the loop for 50 ms
        gc.enable()
        await app.run()


def _told(cause: BaseException, error: Exception) -> int:
    """Log why the controller ended, in one line unless it is our own mistake; returns the exit code."""
    from provisioner.runtime.leaderelection import LeadershipLost

    log = logs.get_logger("cli")
    match cause:
        case LeadershipLost():
            log.error("ended: leadership was lost", error=str(cause), remedy="start again; another replica may lead")
        case OSError(errno=errno.EADDRINUSE | errno.EACCES):
            log.error("ended: cannot listen", error=str(cause), remedy="set METRICS_PORT and HEALTH_PROBE_PORT")
        case _:
            log.error("ended: this is a mistake of the program, please report it", exc_info=error)
    return FAILED


def _first(error: BaseException) -> BaseException:
    """The first cause in a nest of exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _try(arguments: Sequence[str], out: TextIO, err: TextIO) -> int:
    try:
        from provisioner.trial import command

        return command.run(arguments, out, err)
    except ModuleNotFoundError as error:
        err.write(f"gpu-provisioner try: {error.name} is not installed\n    pip install 'aks-gpu-provisioner[try]'\n")
        return USAGE
