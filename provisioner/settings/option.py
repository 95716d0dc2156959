"""What one row of the settings declares: flag, environment variables, chart value, kind and help of a field.

A row is the annotation of a field, which gives it the name, the type and the default. Fields without a row are not
settings.
"""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, get_args, get_origin

import msgspec

from . import kinds
from .kinds import Kind

# The kinds of fields whose row has none.
_OF_TYPE = {bool: kinds.BOOLEAN, float: kinds.DURATION}


class Row(NamedTuple):
    """`kind` None: by the type of the field, for a boolean, a duration or a choice. `unset`: the meaning of no value.

    `flag`: without dashes; by default the name of the field, where `_seconds` is `-deadline`. `env`: the variable and
    its aliases, separated by spaces; by default the flag. `chart`: the key of the chart's values that sets it; by
    default the flag below `settings`, "" if the chart has none.
    """

    help: str
    kind: Kind | None = None
    flag: str = ""
    env: str = ""
    chart: str | None = None
    unset: str = ""


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """A complete row. `env`: the variable and its aliases; the first one that is set applies.

    `field`: the name in `Settings`; empty for a setting without effect, which causes a warning if `warn` is set.
    """

    field: str = ""
    flag: str
    env: tuple[str, ...]
    kind: Kind
    default: Any = ""
    help: str
    unset: str = ""
    chart: str = ""
    warn: bool = False

    @property
    def is_path(self) -> bool:
        """Whether the value is the path of a file."""
        return self.kind is kinds.PATH

    @property
    def switch(self) -> bool:
        """Whether the flag may have no value, which means true."""
        return self.kind is kinds.BOOLEAN


def options_of(settings: type[msgspec.Struct]) -> Iterator[Option]:
    """The rows of a struct, in the order of its fields."""
    for field in msgspec.structs.fields(settings):
        row = next((one for one in get_args(field.type)[1:] if isinstance(one, Row)), None)
        if row is not None:
            yield _option(field, row)


def _option(field: msgspec.structs.FieldInfo, row: Row) -> Option:
    kind = get_args(field.type)[0]
    flag = row.flag or field.name.replace("_seconds", "_deadline").replace("_", "-")
    first, *others = flag.split("-")
    return Option(
        field=field.name,
        flag=flag,
        env=tuple(row.env.split()) or (flag.upper().replace("-", "_"),),
        kind=row.kind or (kinds.choice(*get_args(kind)) if get_origin(kind) is Literal else _OF_TYPE[kind]),
        default=field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory(),
        help=row.help,
        unset=row.unset,
        chart=f"settings.{first}{''.join(map(str.capitalize, others))}" if row.chart is None else row.chart,
    )
