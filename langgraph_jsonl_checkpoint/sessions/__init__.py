"""Threads open in this process: what is read from their logs, and what is appended to them."""
