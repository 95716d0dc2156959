"""The console script `gpu-provisioner`.

Exit codes: 0 done, 1 failed, 2 invalid usage or settings, 3 `check` failed or `uninstall` left only the Lease, 130 and
143 interrupted by SIGINT and by SIGTERM. A user's mistake is reported on stderr in one line for the cause and one for
the remedy, never as a traceback; an error of the program is logged, with credentials redacted. A signal stops `run`
with exit code 0 once its work has stopped and the Lease is released; a second signal ends the process at once.
"""

import asyncio
import errno
import gc
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from typing import TextIO

from provisioner.api.text import printable
from provisioner.runtime import logs
from provisioner.runtime.clock import SystemClock
from provisioner.runtime.signals import Signalled, until_signalled
from provisioner.settings import Described, Settings, SettingsError, load, load_all, read_file
from provisioner.version import own_commit, own_version

from . import completion
from .installation import shadowing_packages
from .output import encoded
from .parser import CommandLine, UsageError, parse

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


def main() -> None:
    """The console script."""
    if foreign := shadowing_packages():
        sys.stderr.write(
            f"gpu-provisioner: packages of the same names shadow this program's packages: {', '.join(foreign)}\n"
            "    Install aks-gpu-provisioner into its own virtual environment, and unset PYTHONPATH.\n"
        )
        sys.exit(USAGE)
    if completion.REQUEST in os.environ:
        completion.complete()
    try:
        sys.exit(run_command(sys.argv[1:], os.environ, sys.stdout, sys.stderr))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def run_command(words: Sequence[str], env: Mapping[str, str], out: TextIO, err: TextIO) -> int:
    """Run one command line; returns the exit code."""
    try:
        with redirect_stdout(out):
            line = parse(words)
    except UsageError as error:
        err.write(f"{error}\n")
        return USAGE
    except SystemExit:  # --help was printed
        return OK
    match line.command:
        case "version":
            return _version(line.arguments.output, out)
        case "completion":
            out.write(completion.script(line.arguments.shell))
            return OK
        case "try":
            from provisioner.trial import command as trial

            return trial.run(line.arguments, out, err)
        case "run":
            return _run_with(line, env, err)
        case "config":
            return _config(line, env, out, err)
    from .commands import command  # imports packages that only `shadowing_packages` has checked

    return command.run(line.command, line.arguments, line.flags, env, typed=sys.stdin, out=out, err=err)


def _version(output: str, out: TextIO) -> int:
    version, commit = own_version(), own_commit()
    if output == "table":
        out.write(f"gpu-provisioner {version}{f' ({commit})' if commit else ''}\n")
    else:
        out.write(f"{encoded({'version': version, 'commit': commit}, output)}\n")
    return OK


def _run_with(line: CommandLine, env: Mapping[str, str], err: TextIO) -> int:
    try:
        settings = _settings(line, env)
    except SettingsError as error:
        err.write(f"gpu-provisioner: {error}\n")
        return USAGE
    return _run(settings, env, err)


def _config(line: CommandLine, env: Mapping[str, str], out: TextIO, err: TextIO) -> int:
    """Print every setting, also if some are missing or invalid; these are marked, and reported with their remedies."""
    try:
        file = read_file(line.arguments.config) if line.arguments.config else None
    except SettingsError as error:
        err.write(f"gpu-provisioner: {error}\n")
        return USAGE
    rows, errors = load_all(line.flags, env, file)
    if line.arguments.output == "table":
        out.writelines(_settings_table(rows))
    else:
        out.write(f"{encoded(rows, line.arguments.output)}\n")
    if not (errors or line.errors):
        return OK
    err.write(f"gpu-provisioner: {SettingsError([*line.errors, *errors])}\n")
    return USAGE


def _settings_table(rows: Sequence[Described]) -> Iterator[str]:
    width = max(len(row.setting) for row in rows)
    for row in rows:
        mark, value = ("✗", f"({row.error})") if row.error else (" ", row.value)
        yield f"{printable(f'{mark} {row.setting:<{width}}  {value}  ({row.source})')}\n"


def _settings(line: CommandLine, env: Mapping[str, str]) -> Settings:
    """The settings. Raises SettingsError with all errors, those of the command line first."""
    file = read_file(line.arguments.config) if line.arguments.config else None
    try:
        settings = load(line.flags, env, file)
    except SettingsError as error:
        raise SettingsError([*line.errors, *error.errors]) from None
    if line.errors:
        raise SettingsError([*line.errors])
    return settings


def _run(settings: Settings, env: Mapping[str, str], err: TextIO) -> int:
    # Almost every object created before the start stays alive; collecting garbage meanwhile takes a fifth of the start.
    gc.disable()
    # The SDKs take half a second to import, which --help and invalid settings do not need.
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
        err.write(f"gpu-provisioner: {error}\n    Correct the kubeconfig, or name another one with KUBECONFIG.\n")
        return USAGE
    except Exception as error:  # noqa: BLE001 - the log redacts it; a traceback on stderr would not be redacted
        return _log_failure(_first(error), error)
    finally:
        gc.enable()
    return OK


async def _controller(settings: Settings) -> None:
    from provisioner.operator.clients import open_clients
    from provisioner.operator.config import config_from
    from provisioner.operator.operator import Operator

    async with open_clients(settings) as clients:
        app = Operator(clients, config_from(settings))
        gc.freeze()  # otherwise each later collection examines 100,000 objects and blocks the loop for 50 ms
        gc.enable()
        await app.run()


def _log_failure(cause: BaseException, error: Exception) -> int:
    """Log why the controller ended, with a traceback only for an error of the program; returns the exit code."""
    from provisioner.runtime.leaderelection import LeadershipLost

    log = logs.get_logger("cli")
    match cause:
        case LeadershipLost():
            log.error("stopped: leadership was lost", error=str(cause), remedy="restart; another replica may lead")
        case OSError(errno=errno.EADDRINUSE | errno.EACCES):
            log.error("stopped: cannot listen", error=str(cause), remedy="set METRICS_PORT and HEALTH_PROBE_PORT")
        case _:
            log.error("stopped by an unexpected error, please report it", exc_info=error)
    return FAILED


def _first(error: BaseException) -> BaseException:
    """The first exception in nested exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
