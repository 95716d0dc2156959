"""The VM size that the author of an unknown name probably meant.

A name states series, vCPUs and, for most sizes with GPUs, the GPU model, as in Standard_NC24ads_A100_v4. A size whose
name differs in one place is the first choice, then the model in the name, the series, the vCPUs and the letters. A size
with more than twice or less than half of the vCPUs is never meant: it costs many times as much, or does too little.

Source: https://learn.microsoft.com/en-us/azure/virtual-machines/vm-naming-conventions.
"""

import math
import re
from difflib import SequenceMatcher
from itertools import takewhile

from .instance_types import gpu_sizes, lookup
from .pricing import known_sizes

# No size has 10,000 vCPUs; a user may write any number of digits.
_NAME = re.compile(r"standard_(?P<series>[a-z]+)(?P<vcpus>[0-9]{1,4})(?P<rest>.*)")


def nearest_size(name: str) -> str:
    """The known size of this name, or the one that it resembles most; "" if it resembles none. Ignores case."""
    written = name.casefold()
    full = written if written.startswith("standard_") else f"standard_{written}"
    known = {size.casefold(): size for size in known_sizes()}
    if full in known:
        return known[full]
    resembling = {one: rank for one in known if (rank := _rank(full, one)) is not None}
    return known[max(resembling, key=lambda one: resembling[one])] if resembling else ""


def _rank(written: str, known: str) -> tuple[bool, bool, bool, float, float] | None:
    """How much the written name resembles a known one, most is best; None if it does not."""
    wanted, found = _NAME.fullmatch(written), _NAME.fullmatch(known)
    if wanted is None or found is None:
        return None
    factor = abs(math.log2(max(1, int(wanted["vcpus"])) / int(found["vcpus"])))
    model, size = _model(wanted["rest"]), lookup(known)
    same_model = bool(model) and size is not None and _word(size.model) == model
    same_series = _series(wanted["series"]) == _series(found["series"])
    one_edit = _differs_once(written, known)
    if factor > 1.0 or not (one_edit or same_model or (same_series and not model)):
        return None
    return one_edit, same_model, same_series, -factor, SequenceMatcher(None, written, known).ratio()


def _series(letters: str) -> str:
    """The series: the family, and for sizes with GPUs the letter after it."""
    return letters[:2] if letters.startswith("n") else letters[:1]


def _model(text: str) -> str:
    """The GPU model that the rest of a name states, "" if it states none that is known."""
    return max((word for size in gpu_sizes() if (word := _word(size.model)) in text), key=len, default="")


def _word(model: str) -> str:
    """A model as names of sizes have it: A100 of `A100 80`, RTXPRO6000BSE of `RTX PRO 6000 BSE`."""
    joined = model.casefold().replace(" ", "")
    return joined if joined.startswith("rtx") else model.casefold().split(" ")[0]


def _differs_once(one: str, other: str) -> bool:
    """Whether at most one character is replaced, inserted or removed."""
    start = _equal(one, other)
    end = _equal(one[start:][::-1], other[start:][::-1])
    return max(len(one), len(other)) - start - end <= 1


def _equal(one: str, other: str) -> int:
    """The number of characters before the first that differs."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
