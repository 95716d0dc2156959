"""The other side of the wire: an embedded cluster and an embedded Azure, for `try` and for most tests."""
