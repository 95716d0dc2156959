"""Generators of files of this repository, and release tools; not part of the distribution."""
