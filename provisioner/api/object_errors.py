"""The errors that a value of an object of a user can cause; see `provisioner/runtime/isolation.py`."""

# A failed request, a cancellation and a lack of memory are not among them.
OBJECT_ERRORS = (ValueError, ArithmeticError, LookupError, TypeError, AttributeError, RecursionError)
