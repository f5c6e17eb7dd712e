"""The application: the tasks that workers run and the suite sends, and the queues they go through.

Enters: AMQP_URL; INTEROP_RUN (a word for this run's names), INTEROP_NOTES (a folder), INTEROP_RESULTS and INTEROP_QUEUE for a worker.
Leaves: lines that tasks note in files of that folder, so that the suite sees what ran, where and how often.
Owns:   nothing that outlives a task.
Never:  ends a task that was told to wait before its gate is open (or a deadline is over).
"""

import os
import signal
import time
from pathlib import Path

from celery import Celery
from celery.exceptions import Reject
from kombu import Exchange, Queue

RUN = os.environ["INTEROP_RUN"]
NOTES = Path(os.environ["INTEROP_NOTES"])
GATE_S_MAX = 30


def named(word):
    return f"celery-{RUN}-{word}"


def queue(word, **more):
    return Queue(named(word), Exchange(named("tasks"), type="direct", durable=True), routing_key=word, durable=True, **more)


QUEUES = [
    queue("plain"),
    queue("late"),
    queue("files"),
    queue("priority", max_priority=10),
    queue("refused", queue_arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": named("dead")}),
]


def note(name, words):
    """One write at the end of the file: lines of several processes do not mix."""
    with open(NOTES / name, "ab", buffering=0) as file:
        file.write(f"{words}\n".encode())


def noted(name):
    path = NOTES / name
    return path.read_text().splitlines() if path.exists() else []


def open_gate(name):
    (NOTES / f"gate-{name}").touch()


def wait_for_gate(name):
    deadline = time.monotonic() + GATE_S_MAX
    while not (NOTES / f"gate-{name}").exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nobody opened the gate {name}")
        time.sleep(0.01)  # between two looks at the condition, which has a deadline


def add(a, b):
    return a + b


def total(numbers):
    return sum(numbers)


def stamp():
    return time.time()


def fails(word):
    raise ValueError(word)


def flaky(self, name, failures):
    note(name, f"attempt {self.request.retries}")
    if self.request.retries < failures:
        raise self.retry(countdown=0.2)
    return self.request.retries


def held(self, name):
    """Waits in its middle; says which worker has it, and whether for the first time."""
    note(name, f"start {self.request.hostname} {'again' if self.request.delivery_info['redelivered'] else 'first'}")
    wait_for_gate(name)
    note(name, "end")


def dies(self, name):
    """Ends its process the first time."""
    again = self.request.delivery_info["redelivered"]
    note(name, "again" if again else "first")
    if not again:
        os.kill(os.getpid(), signal.SIGKILL)
    return "survived"


def refuses(self):
    raise Reject("not mine", requeue=False)


def writes(name, word):
    note(name, word)


TASKS = {
    "add": (add, {}),
    "total": (total, {}),
    "stamp": (stamp, {}),
    "fails": (fails, {}),
    "flaky": (flaky, {"bind": True, "max_retries": 3}),
    "held": (held, {"bind": True}),
    "held-late": (held, {"bind": True, "acks_late": True}),
    "dies": (dies, {"bind": True, "acks_late": True, "reject_on_worker_lost": True}),
    "refuses": (refuses, {"bind": True, "acks_late": True}),
    "writes": (writes, {"acks_late": True}),
}


def make(results, default):
    made = Celery("interop", broker=os.environ["AMQP_URL"], backend=results, set_as_current=False)
    made.conf.update(
        task_queues=QUEUES,
        task_default_queue=named(default),
        task_default_exchange=named("tasks"),
        task_default_routing_key=default,
        task_send_sent_event=True,
        worker_prefetch_multiplier=1,
        broker_connection_retry_on_startup=True,
        # Names of this run alone, where the defaults would be shared by all applications of the virtual host.
        control_exchange=named("pidbox"),
        event_exchange=named("events"),
        event_queue_prefix=named("event"),
        result_exchange=named("results"),
        result_chord_retry_interval=0.3,
        broker_transport_options={"confirm_publish": True},
    )
    for name, (body, options) in TASKS.items():
        made.task(name=name, **options)(body)
    return made


if "INTEROP_RESULTS" in os.environ:
    app = make(os.environ["INTEROP_RESULTS"], os.environ["INTEROP_QUEUE"])
