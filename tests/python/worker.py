"""The application of `tasks.py`: what a worker runs, and what is sent to it.

Enters: AMQP_URL, WORKER_NOTE (a file).  Leaves: in that file, what carries the worker's connection.
"""

import os
from pathlib import Path

import celery
import harrier.kombu
from celery.signals import worker_ready

app = celery.Celery("python", broker=os.environ["AMQP_URL"].replace("amqp", "harrier", 1), backend="rpc://", set_as_current=False)
app.conf.update(task_default_queue=f"python-tasks-{os.environ['WORKER_RUN']}", task_queue_max_priority=None, worker_prefetch_multiplier=1)


@worker_ready.connect
def note(sender, **_):
    connection = sender.connection.connection
    assert isinstance(connection, harrier.kombu.DrainedConnection), connection
    Path(os.environ["WORKER_NOTE"]).write_text(connection._core.transport())


@app.task(name="add")
def add(a, b):
    return a + b


@app.task(name="size")
def size(text):
    return len(text)
