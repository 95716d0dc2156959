"""Which of two resourceVersions is newer.

Numeric when both are numbers; otherwise only equality is known. No I/O.

Source: https://github.com/kubernetes/enhancements/issues/5504 (since Kubernetes 1.35, resource versions are officially
comparable as numbers; before, they were in fact).
"""


def older(version: str, than: str) -> bool:
    """Whether `version` is certainly older. False if that cannot be told."""
    return _number(version) and _number(than) and int(version) < int(than)


def reached(seen: str, version: str) -> bool:
    """Whether somebody who has seen everything up to `seen` has seen `version`."""
    if _number(seen) and _number(version):
        return int(seen) >= int(version)
    return bool(seen) and seen == version


def _number(version: str) -> bool:
    return version.isascii() and version.isdigit()
