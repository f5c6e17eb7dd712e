"""A Celery worker of two processes, over whatever carries the address: tasks there, results back.

Enters: AMQP_URL, WAY.  Leaves: a line for each expectation.
Owns:   the worker, which it stops.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from report import Report, equal

DEADLINE_S = float(os.environ.get("INTEROP_DEADLINE_S", 30))
WAY = os.environ["WAY"]


def started(process, note):
    """It is ready once it has noted what carries its connection."""
    deadline = time.monotonic() + DEADLINE_S
    while not note.exists() or not note.read_text():
        equal(process.poll(), None, "the worker runs")
        equal(time.monotonic() < deadline, True, f"it is ready within {DEADLINE_S} s")
        time.sleep(0.05)  # between two looks at the condition, which has a deadline
    equal(note.read_text(), WAY)


def results(app):
    """Many tasks at once, and one of a megabyte, whose results come back."""
    sent = [app.tasks["add"].delay(number, 1) for number in range(50)]
    equal([one.get(timeout=DEADLINE_S) for one in sent], list(range(1, 51)))
    equal(app.tasks["size"].delay("x" * 1_000_000).get(timeout=DEADLINE_S), 1_000_000)
    with app.connection_for_read() as connection:
        equal(connection.connection._core.transport(), WAY)


def control(app):
    """The worker answers over its pidbox, and says through what it came."""
    (stats,) = app.control.inspect(timeout=DEADLINE_S, limit=1).stats().values()
    equal(stats["broker"]["transport"], "harrier")


def ended(process):
    process.send_signal(signal.SIGTERM)
    equal(process.wait(DEADLINE_S), 0, "the worker's status")


if __name__ == "__main__":
    report = Report()
    with tempfile.TemporaryDirectory(prefix="python-tasks-") as folder:
        note = Path(folder) / "note"
        os.environ |= {"WORKER_RUN": str(os.getpid()), "WORKER_NOTE": str(note)}
        # After what it reads.
        from worker import app

        command = [sys.executable, "-m", "celery", "-A", "worker", "worker", "-l", "info", "-c", "2", "-n", "python@test"]
        process = subprocess.Popen(
            command, env=os.environ | {"C_FORCE_ROOT": "1"}, stdin=subprocess.DEVNULL, stdout=sys.stderr
        )
        try:
            if report.check(f"python-{WAY}-worker-starts", started, process, note):
                report.check(f"python-{WAY}-worker-results", results, app)
                report.check(f"python-{WAY}-worker-control", control, app)
                report.check(f"python-{WAY}-worker-ends", ended, process)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    report.exit()
