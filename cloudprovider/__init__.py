"""The CloudProvider interface, its Azure implementation, and its decorators."""
