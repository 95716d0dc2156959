"""Comparison of resourceVersions: as numbers if both are numeric, otherwise only for equality. No I/O.

Source: https://github.com/kubernetes/enhancements/issues/5504 (resourceVersions are officially comparable since
Kubernetes 1.35; earlier versions behave the same).
"""

# A uint64 has at most 20; a CRD of another version can keep any text in `metadata` of its objects.
DIGITS_MAX = 20


def older(version: str, than: str) -> bool:
    """Whether `version` is older; False if they cannot be compared."""
    return _number(version) and _number(than) and int(version) < int(than)


def reached(seen: str, version: str) -> bool:
    """Whether a cache at version `seen` contains `version`."""
    if _number(seen) and _number(version):
        return int(seen) >= int(version)
    return bool(seen) and seen == version


def _number(version: str) -> bool:
    return version.isascii() and version.isdigit() and len(version) <= DIGITS_MAX
