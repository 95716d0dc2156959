"""All commands of the console script, in the order of its help."""

from .offline import OFFLINE
from .program import OWN, RUN
from .reading import READING
from .writing import WRITING

COMMANDS = {command.name: command for command in (RUN, *OFFLINE, *READING, *WRITING, *OWN)}
