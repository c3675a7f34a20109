"""Packed logs: the same lines in another layout, and an index that nobody has to believe."""
