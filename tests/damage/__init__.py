"""Damage with names, and what each reader makes of it."""
