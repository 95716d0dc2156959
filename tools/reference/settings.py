"""`docs/reference/settings.md`: every setting with its flag, environment variables, chart value and default."""

from provisioner.settings import IGNORED, OPTIONS, Option, shown
from provisioner.settings.clouds import CLOUDS

from .markdown import code, page, table

INTRODUCTION = """\
The order of precedence is: flag, environment variable, the file named by `--config`, default. A flag can have one
dash or two, and its value follows `=` or a space. In the file (YAML), a setting has the name of its flag. If a
setting has two variables, the first one that is set applies. The chart sets a variable from its
[chart value](values.md), and variables without one from `controller.extraEnv`.

Outside a Pod, unless the subscription, the resource group and the cluster name are given, the commands `check`,
`explain`, `gc`, `adopt`, `release` and `uninstall` read the settings that are not given from the environment of the
release's Deployment. This needs the permission to list Deployments in the namespace of the release
(`--release-namespace`). The identity, the files, the proxy and the log of the Pod are not read, nor are values from a
Secret or a ConfigMap.

All errors are reported together, each with its remedy, with exit code 2. `gpu-provisioner config` prints every value
and its source; credentials in addresses are masked."""

IGNORED_HEAD = """\
## Ignored variables

Deployments of Azure/gpu-provisioner or Karpenter can set these variables. They have no effect; those marked in the
table cause a warning at startup, and an error with `--strict-config`."""


def render() -> str:
    """The page."""
    rows = [
        [
            code(f"--{option.flag}"),
            _variables(option),
            code(option.chart) if option.chart else "",
            _default(option),
            option.help,
            option.kind.expects,
        ]
        for option in OPTIONS
    ]
    ignored = [[_variables(option), "yes" if option.warn else ""] for option in IGNORED]
    clouds = [[code(c.name), c.endpoint, c.audience, c.authority] for c in CLOUDS]
    return page(
        "Settings",
        "provisioner/settings/model.py",
        INTRODUCTION,
        table(["Flag", "Variable", "Chart value", "Default", "Meaning", "Value"], rows),
        "## Clouds\n\n`AZURE_ENVIRONMENT` sets three addresses; a separate setting can override each of them.",
        table(["Cloud", "ARM", "Audience", "Authority"], clouds),
        IGNORED_HEAD,
        table(["Variable", "Warning"], ignored),
    )


def _variables(option: Option) -> str:
    return ", ".join(code(name) for name in option.env)


def _default(option: Option) -> str:
    default = shown(option.default, option.kind)
    return code(default) if default else option.unset or "none"
