"""The warm program of the restore tests; an order names a job of `restore.jobs` and what it is given."""

from __future__ import annotations

import functools
from typing import Any

import warm

from restore import jobs


def work(report: warm.Report, job: str, **given: Any) -> None:
    """Do a job."""
    getattr(jobs, job)(report, **given)


if __name__ == "__main__":
    warm.serve(functools.partial(warm.run, work))
