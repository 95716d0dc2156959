"""`run`: the controller. A signal stops it with exit code 0 once its work has stopped and the Lease is released.

A second signal ends the process at once.
"""

import asyncio
import errno
import gc
from collections.abc import Mapping
from typing import TextIO

from provisioner.runtime import logs
from provisioner.runtime.clock import SystemClock
from provisioner.runtime.signals import Signalled, until_signalled
from provisioner.settings import Settings, SettingsError
from provisioner.version import own_commit

from .refusal import FAILED, OK, bad_kubeconfig


def run(settings: Settings, env: Mapping[str, str], err: TextIO) -> int:
    """Run the controller; returns the exit code. Raises SettingsError, and Refused for an invalid kubeconfig."""
    # Almost every object created before the start stays alive; collecting garbage meanwhile takes a fifth of the start.
    gc.disable()
    # The SDKs take half a second to import, which invalid settings do not need.
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
    except SettingsError:
        raise
    except ConfigException as error:
        raise bad_kubeconfig(error) from None
    except Exception as error:  # noqa: BLE001 - the log redacts it; a traceback on stderr would not be redacted
        return _log_failure(_first(error), error)
    finally:
        gc.enable()
    return OK


async def _controller(settings: Settings) -> None:
    from provisioner.operator.clients import open_clients
    from provisioner.operator.config import config_from
    from provisioner.operator.operator import Operator
    from provisioner.operator.prices import unknown_sizes

    async with open_clients(settings) as clients:
        for warning in unknown_sizes(clients.cloud, settings.prices):
            logs.get_logger("cli").warning(warning)
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
