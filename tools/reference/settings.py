"""`docs/reference/settings.md`: every flag, variable and default, from the table that the program reads them by."""

from provisioner.settings import OPTIONS, Option
from provisioner.settings.clouds import CLOUDS
from provisioner.settings.model import shown
from provisioner.settings.options import IGNORED

from .markdown import code, page, table

INTRODUCTION = """\
A flag counts before its environment variable, that before the file that `--config` names, that before the default. A
flag may be written with one dash or two, with `=` or a space. In the file (YAML), a setting has the name of its flag.
Where a second variable is named, the first one that is set wins.

All that is wrong is told at once, each with its remedy, with exit code 2. `gpu-provisioner config` shows every value
and where it came from; credentials in addresses are masked."""

IGNORED_HEAD = """\
## Accepted, without effect

The predecessors know these names and a deployment of theirs may set them. They start here unchanged; what is marked
gives a warning at start, and an error with `--strict-config`."""


def render() -> str:
    """The page."""
    rows = [
        [code(f"--{option.flag}"), _variables(option), _default(option), option.help, option.kind.expects]
        for option in OPTIONS
    ]
    ignored = [[_variables(option), "yes" if option.warn else ""] for option in IGNORED]
    clouds = [[code(c.name), c.endpoint, c.audience, c.authority] for c in CLOUDS]
    return page(
        "Settings",
        "provisioner/settings/options.py",
        INTRODUCTION,
        table(["Flag", "Variable", "Default", "What it means", "Value"], rows),
        "## Clouds\n\n`AZURE_ENVIRONMENT` decides three addresses, each of which has a setting of its own besides.",
        table(["Cloud", "ARM", "Audience", "Tokens from"], clouds),
        IGNORED_HEAD,
        table(["Variable", "Warns"], ignored),
    )


def _variables(option: Option) -> str:
    return ", ".join(code(name) for name in option.env)


def _default(option: Option) -> str:
    default = shown(option.default)
    return code(default) if default else option.unset or "none"
