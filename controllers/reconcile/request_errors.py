"""Keeps an error of a request about one object from the requests about others, and raises it after them."""

from collections.abc import Iterator
from contextlib import contextmanager

from provisioner.runtime.kube import KubeError


class RequestErrors:
    """The errors of one pass; call `raise_first` at its end, so that the pass is repeated with a delay."""

    def __init__(self) -> None:
        self._first: KubeError | None = None

    @contextmanager
    def kept(self) -> Iterator[None]:
        """A context that a KubeError ends."""
        try:
            yield
        except KubeError as error:
            self.keep(error)

    def keep(self, error: KubeError) -> None:
        """Raise this one at the end, unless there was one before."""
        self._first = self._first or error

    @property
    def any(self) -> bool:
        """Whether there was one."""
        return self._first is not None

    def raise_first(self) -> None:
        """Raise the first one, if there was any."""
        if self._first is not None:
            raise self._first
