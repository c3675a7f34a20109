"""Processes, threads and savers that race on one log; some are killed, some stopped, some removed from."""
