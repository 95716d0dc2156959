"""Labels and taints of machines. Machines with the same ones share one instance, so that what follows is made once."""

from collections.abc import Collection, Hashable, Mapping
from functools import cached_property

from provisioner.api.meta import Taint
from provisioner.api.requirements import Requirements, combine
from provisioner.api.value_sets import NEGATIVE, one_of

from .places import Place


class Labelled:
    """`requirements`: the labels of a machine, with several values where one is still open.

    `open_keys`: labels that it need not define yet. `required`: what the pods on it require of the labels.
    """

    def __init__(
        self,
        requirements: Requirements,
        taints: tuple[Taint, ...] = (),
        open_keys: frozenset[str] = frozenset(),
        required: Requirements | None = None,
    ) -> None:
        self.requirements = requirements
        self.taints = taints
        self.open_keys = open_keys
        self.required: Requirements = required or {}
        # By the identity of a pod's requirements, which are kept, so that no identity is used twice.
        self._narrowed: dict[int, tuple[Requirements, Labelled]] = {}
        self._requiring: dict[Hashable, Labelled] = {}

    def copied(self) -> "Labelled":
        """The same labels, without what was made of them."""
        return Labelled(self.requirements, self.taints, self.open_keys, self.required)

    @cached_property
    def known(self) -> Mapping[str, str]:
        """The labels whose value is known."""
        return {key: one for key, allowed in self.requirements.items() if (one := allowed.single) is not None}

    @cached_property
    def place(self) -> Place:
        """What the node inclusion policies of spread constraints compare."""
        return Place((self.requirements,), self.taints, self.open_keys)

    @cached_property
    def kind(self) -> Hashable:
        """Equal for equal labels and taints."""
        return frozenset(self.requirements.items()), self.taints

    @cached_property
    def required_items(self) -> frozenset[tuple[str, object]]:
        """`required` as a key."""
        return frozenset(self.required.items())

    def narrowed(self, wanted: Requirements) -> "Labelled":
        """The labels with a pod on the machine."""
        if id(wanted) not in self._narrowed:
            # A label that nothing sets, and that the pod does not require, needs no requirement of the machine.
            chosen = {
                key: one
                for key, one in wanted.items()
                if key in self.requirements or key in self.open_keys or one.operator not in NEGATIVE
            }
            requirements, required = combine(self.requirements, chosen), combine(self.required, chosen)
            same = requirements == self.requirements and required == self.required
            made = self if same else Labelled(requirements, self.taints, self.open_keys, required)
            self._narrowed[id(wanted)] = wanted, made
        return self._narrowed[id(wanted)][1]

    def requiring(self, more: Requirements) -> "Labelled":
        """The labels with further requirements, such as those of constraints that count on a value."""
        key = frozenset(more.items())
        if key not in self._requiring:
            required = combine(self.required, more)
            self._requiring[key] = Labelled(self.requirements, self.taints, self.open_keys, required)
        return self._requiring[key]

    def fixed(self, keys: Collection[str]) -> "Labelled":
        """The labels with their present values required, because constraints of other pods count on them."""
        more = {key: one_of((self.known[key],)) for key in keys if key in self.known}
        return self.requiring(more) if more else self
