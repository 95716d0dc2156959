"""The console script `gpu-provisioner`.

Exit codes: 0 done, 1 failed or refused, 2 invalid usage or settings, 3 `check` failed or `uninstall` left only the
Lease, 130 and 143 interrupted by SIGINT and by SIGTERM, 141 the reader of the output has ended. A user's mistake is
reported on stderr in one line for the cause and one for the remedy, never as a traceback; an error of the program is
logged, with credentials redacted.
"""

import os
import select
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from typing import TextIO

from provisioner.runtime.signals import Signalled
from provisioner.settings import SettingsError

from .arguments import UsageError
from .command import Invocation
from .definitions import COMMANDS
from .installation import shadowing_packages
from .parser import parse

# The last one is that of a process that SIGPIPE ended, as if Python did not ignore it.
OK, USAGE, INTERRUPTED, CLOSED = 0, 2, 130, 141
# The variable by which the script of `completion` marks its calls of the program.
COMPLETION_REQUEST = "_ARGCOMPLETE"


def main() -> None:
    """The console script."""
    if foreign := shadowing_packages():
        sys.stderr.write(
            f"gpu-provisioner: packages of the same names shadow this program's packages: {', '.join(foreign)}\n"
            "    Install aks-gpu-provisioner into its own virtual environment, and unset PYTHONPATH.\n"
        )
        sys.exit(USAGE)
    if COMPLETION_REQUEST in os.environ:
        from . import completion

        completion.complete()
    try:
        code = run_command(sys.argv[1:], os.environ, sys.stdout, sys.stderr)
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        if not _is_closed(sys.stdout):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is still buffered
        code = CLOSED
    sys.exit(code)


def _is_closed(stream: TextIO) -> bool:
    """Whether it is a pipe whose reader has ended, such as head or a pager."""
    poll = select.poll()
    poll.register(stream, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


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
    from .commands.refusal import Refused  # imports packages that only `shadowing_packages` has checked

    command = COMMANDS[line.command]
    try:
        return command.run(Invocation(command, line, env, sys.stdin, out, err))
    except Refused as refused:
        err.write(refused.printed(command.prefix))
        return refused.code
    except SettingsError as error:
        err.write(f"{command.prefix}: {error}\n")
        return USAGE
    except Signalled as signalled:
        return signalled.exit_code
