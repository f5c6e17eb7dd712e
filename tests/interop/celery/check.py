"""Celery's and kombu's run: workers as real processes, and what an application does with them.

Enters: AMQP_URL, CACHE.  Leaves: a line for each expectation (see report.py); the workers' logs on standard error.
Owns:   the workers, its queues and exchanges, a folder of notes.
Never:  leaves a worker behind.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

os.environ["INTEROP_RUN"] = str(os.getpid())
os.environ["INTEROP_NOTES"] = tempfile.mkdtemp(prefix="celery-")

import kombu_checks
import tasks_checks
from report import Report

report = Report()
try:
    for name, body in kombu_checks.EXPECTATIONS.items():
        report.check(name, body)
    wanted = {name: body for name, body in tasks_checks.EXPECTATIONS.items() if not report.only or name in report.only}
    if wanted:
        report.only |= {"celery-workers", "celery-shutdown"} if report.only else set()
        with tasks_checks.Workers() as workers:
            if report.check("celery-workers", workers.started):
                for name, body in wanted.items():
                    report.check(name, body, workers)
            report.check("celery-shutdown", workers.shut_down)
finally:
    shutil.rmtree(os.environ["INTEROP_NOTES"])
report.exit()
