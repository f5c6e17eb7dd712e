"""Celery's expectations, with four workers: results, retries, times, priorities, chords, revocation, killed workers, remote control, events.

Enters: AMQP_URL, and what app.py enters.  Leaves: EXPECTATIONS, by name; Workers.
Owns:   the workers: each is a process group of its own, killed in the end if it has not gone by itself.
Never:  sleeps: every wait is for a result, a note or an event, with a deadline.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from datetime import datetime, timedelta, timezone

import celery
import kombu
from celery.exceptions import TaskRevokedError, TimeoutError as NotInTime
from celery.result import allow_join_result

import app
from report import equal

DEADLINE_S = 25
FILES = f"file://{app.NOTES}/results"
serial = iter(range(1 << 30))


def unique(word):
    return f"{word}-{next(serial)}"


def until(condition, what):
    deadline = time.monotonic() + DEADLINE_S
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {DEADLINE_S} s: {what}")
        time.sleep(0.02)  # between two looks at the condition, which has a deadline
    return found


def counts(word):
    """Messages and consumers of a queue; none of both where there is no queue."""
    with kombu.Connection(os.environ["AMQP_URL"]) as made:
        try:
            found = kombu.Queue(app.named(word), channel=made.default_channel).queue_declare(passive=True)
        except made.channel_errors:
            return 0, 0
        return found.message_count, found.consumer_count


class Workers:
    """name: (what its results go by, its queues, how many processes)"""

    WANTED = {
        "plain": ("rpc://", "plain,refused", 2),
        "late-1": ("rpc://", "late", 1),
        "late-2": ("rpc://", "late", 1),
        "files": (FILES, "files,priority", 1),
    }

    def __init__(self):
        (app.NOTES / "results").mkdir()
        self.processes = {}
        self.rpc = app.make("rpc://", "plain")
        self.files = app.make(FILES, "files")

    def __enter__(self):
        with kombu.Connection(os.environ["AMQP_URL"]) as made:
            made.default_channel.queue_declare(app.named("dead"), durable=True, auto_delete=False)
        for name, (results, queues, processes) in self.WANTED.items():
            self.start(name, results, queues, processes)
        return self

    def start(self, name, results, queues, processes):
        environment = os.environ | {"INTEROP_RESULTS": results, "INTEROP_QUEUE": queues.split(",")[0]}
        names = ",".join(app.named(queue) for queue in queues.split(","))
        command = [sys.executable, "-m", "celery", "-A", "app", "worker", "-l", "info", "-E", "-O", "fair"]
        command += ["-Q", names, "-c", str(processes), "-n", f"{name}@interop"]
        # It runs as root where the suite does, and would rather not.
        self.processes[name] = subprocess.Popen(
            command, env=environment | {"C_FORCE_ROOT": "1"}, stdin=subprocess.DEVNULL, stdout=sys.stderr, start_new_session=True
        )

    def started(self):
        """All answer a ping, sent again and again until they do."""

        def answered():
            for name, process in self.processes.items():
                equal(process.poll(), None, f"{name} runs")
            return {name for answer in self.rpc.control.ping(timeout=1, limit=len(self.WANTED)) for name in answer}

        wanted = {f"{name}@interop" for name in self.WANTED}
        until(lambda: answered() == wanted, "all workers answer")

    def kill(self, name):
        """At once, with its pool: nothing is said to the broker."""
        process = self.processes.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def shut_down(self):
        """Who is left ends in order when told to, over the broker."""
        if not self.processes:
            return
        self.rpc.control.shutdown()
        ended = {name: process.wait(DEADLINE_S) for name, process in self.processes.items()}
        equal(ended, dict.fromkeys(ended, 0))
        self.processes.clear()

    def __exit__(self, *_):
        for name in list(self.processes):
            self.kill(name)
        with kombu.Connection(os.environ["AMQP_URL"]) as made:
            channel = made.default_channel
            for word in ("plain", "late", "files", "priority", "refused", "dead"):
                channel.queue_delete(app.named(word))
            for word in ("tasks", "events"):
                channel.exchange_delete(app.named(word))
        self.rpc.close()
        self.files.close()


def send(application, task, *arguments, **options):
    return application.send_task(task, arguments, **options)


def results(workers):
    """Values and errors come back through the rpc backend; a group, a chain and a hundred at once too."""
    rpc = workers.rpc
    equal(send(rpc, "add", 2, 3).get(timeout=DEADLINE_S), 5)
    failed = send(rpc, "fails", "as it should")
    try:
        failed.get(timeout=DEADLINE_S)
        raise AssertionError("it should fail")
    except ValueError as error:
        equal(str(error), "as it should")
    many = [send(rpc, "add", number, 1) for number in range(100)]
    equal([one.get(timeout=DEADLINE_S) for one in many], list(range(1, 101)))
    add = rpc.tasks["add"]
    group = celery.group([add.s(number, number) for number in range(10)], app=rpc).apply_async()
    equal(group.get(timeout=DEADLINE_S), [2 * number for number in range(10)])
    chain = celery.chain(add.s(1, 2), add.s(3), add.s(4), app=rpc).apply_async()
    equal(chain.get(timeout=DEADLINE_S), 10)


def retries(workers):
    """Twice in vain, each again after its countdown; one that never succeeds ends with its limit."""
    name, start = unique("flaky"), time.monotonic()
    equal(send(workers.rpc, "flaky", name, 2).get(timeout=DEADLINE_S), 2)
    equal(time.monotonic() - start >= 0.4, True, "not before two countdowns")
    equal(app.noted(name), ["attempt 0", "attempt 1", "attempt 2"])
    name = unique("flaky")
    hopeless = send(workers.rpc, "flaky", name, 99)
    try:
        hopeless.get(timeout=DEADLINE_S)
        raise AssertionError("it should fail")
    except celery.exceptions.MaxRetriesExceededError:
        equal(len(app.noted(name)), 4, "attempts")


def times(workers):
    """What is to run later does not hold up what is to run now, and runs not before its time; what has expired never runs."""
    sent = time.time()
    later = send(workers.rpc, "stamp", countdown=5)
    at = datetime.now(timezone.utc) + timedelta(seconds=4.5)
    on_time = send(workers.rpc, "stamp", eta=at)
    # More of them than the prefetch count: the worker raises it for those that wait.
    crowd = [send(workers.rpc, "stamp", countdown=5) for _ in range(6)]
    stale = unique("stale")
    send(workers.rpc, "writes", stale, "ran", countdown=1.0, expires=0.5)
    now = send(workers.rpc, "stamp").get(timeout=DEADLINE_S)
    equal(now < at.timestamp(), True, "not after those that wait")
    equal(later.get(timeout=DEADLINE_S) >= sent + 5, True, "after its countdown")
    equal(on_time.get(timeout=DEADLINE_S) >= at.timestamp(), True, "after its eta")
    equal(all(one.get(timeout=DEADLINE_S) >= sent + 5 for one in crowd), True, "each after its countdown")
    # It had expired when its turn came: in the queue, or in the worker's hands.
    equal(app.noted(stale), [])


def priorities(workers):
    """With one process that holds one message, what waits is run by its priority, and in order within one."""
    gate, name = unique("gate"), unique("priority")
    routed = {"queue": app.named("priority")}
    first = send(workers.files, "held-late", gate, **routed)
    until(lambda: app.noted(gate), "the only process is busy")
    given = [1, 5, 0, 9, 5, 1, 9, 3]
    sent = [send(workers.files, "writes", name, f"{priority} {number}", priority=priority, **routed) for number, priority in enumerate(given)]
    # Sent without confirms they would be on their way still; with them they are there.
    app.open_gate(gate)
    for one in (first, *sent):
        one.get(timeout=DEADLINE_S)
    equal(app.noted(name), ["9 3", "9 6", "5 1", "5 4", "3 7", "1 0", "1 5", "0 2"])


def chords(workers):
    """The body runs once, after the whole header. The rpc backend has no chords: these go by files."""
    add, total = workers.files.tasks["add"], workers.files.tasks["total"]
    with allow_join_result():
        made = celery.chord([add.s(number, number) for number in range(10)], total.s(), app=workers.files)
        equal(made.apply_async().get(timeout=DEADLINE_S, interval=0.05), 90)


def revocation(workers):
    """A task that waits is never run once it is revoked; one that runs is ended with its process, and the pool lives on."""
    rpc = workers.rpc
    name = unique("revoked")
    waiting = send(rpc, "writes", name, "ran", countdown=5)
    until(lambda: waiting.id in str(rpc.control.inspect(["plain@interop"], timeout=1, limit=1).scheduled()), "it is scheduled")
    rpc.control.revoke(waiting.id)
    try:
        waiting.get(timeout=DEADLINE_S)
        raise AssertionError("it should be revoked")
    except TaskRevokedError:
        equal(app.noted(name), [])
    name = unique("ended")
    running = send(rpc, "held", name)
    until(lambda: app.noted(name), "it runs")
    rpc.control.revoke(running.id, terminate=True, signal="SIGKILL")
    try:
        running.get(timeout=DEADLINE_S)
        raise AssertionError("it should be ended")
    except TaskRevokedError:
        equal(len(app.noted(name)), 1, "started once, and never ended")
    equal(send(rpc, "add", 1, 1).get(timeout=DEADLINE_S), 2, "the pool lives on")


def lost_process(workers):
    """Its process dies in the middle of a task: the worker gives the message back, and it is done the second time."""
    name = unique("dies")
    equal(send(workers.rpc, "dies", name).get(timeout=DEADLINE_S), "survived")
    equal(app.noted(name), ["first", "again"])


def killed_worker(workers):
    """The whole worker is killed in the middle: with late acks another does the task, with early acks nobody does."""
    late = {"queue": app.named("late")}
    name = unique("late")
    result = send(workers.rpc, "held-late", name, **late)
    until(lambda: app.noted(name), "somebody has it")
    owner = app.noted(name)[0].split()[1].split("@")[0]
    other = {"late-1": "late-2", "late-2": "late-1"}[owner]
    workers.kill(owner)
    until(lambda: len(app.noted(name)) == 2, "the other has it")
    app.open_gate(name)
    result.get(timeout=DEADLINE_S)
    equal(app.noted(name), [f"start {owner}@interop first", f"start {other}@interop again", "end"])
    name = unique("early")
    send(workers.rpc, "held", name, **late)
    until(lambda: app.noted(name), "it has this one")
    # The task runs in a process of its own, whose note may come before the worker has acknowledged the message.
    asked = workers.rpc.control.inspect([f"{other}@interop"], timeout=DEADLINE_S, limit=1)
    until(lambda: [task["acknowledged"] for task in asked.active()[f"{other}@interop"]] == [True], "it acknowledged when it began")
    workers.kill(other)
    until(lambda: counts("late")[1] == 0, "the broker knows")
    equal(counts("late"), (0, 0), "it came back to nobody")
    equal(app.noted(name), [f"start {other}@interop first"])


def dead_letters(workers):
    """A task that refuses its message sends it to the dead letters, with its history."""
    sent = send(workers.rpc, "refuses", queue=app.named("refused"))
    with kombu.Connection(os.environ["AMQP_URL"]) as made:
        dead = kombu.Queue(app.named("dead"), channel=made.default_channel)
        message = until(dead.get, "it is among the dead letters")
        message.ack()
    history = message.headers["x-death"][0]
    equal((message.headers["id"], message.headers["task"]), (sent.id, "refuses"))
    equal((history["reason"], history["queue"], history["count"]), ("rejected", app.named("refused"), 1))


def remote_control(workers):
    """Questions to one worker and orders to it, by its pidbox."""
    control = workers.rpc.control
    plain = ["plain@interop"]
    asked = control.inspect(plain, timeout=DEADLINE_S, limit=1)
    equal(asked.ping(), {"plain@interop": {"ok": "pong"}})
    equal(asked.stats()["plain@interop"]["pool"]["max-concurrency"], 2)
    equal({"add", "held"} <= {name.split()[0] for name in asked.registered()["plain@interop"]}, True, "registered")
    name = unique("active")
    running = send(workers.rpc, "held", name)
    # The worker hears of it from the process that runs it, which may make its note before.
    until(lambda: [task["id"] for task in asked.active()["plain@interop"]] == [running.id], "it is active")
    until(lambda: app.noted(name), "it runs")
    app.open_gate(name)
    running.get(timeout=DEADLINE_S)
    more = app.named("more")
    ordered = {"destination": plain, "reply": True, "timeout": DEADLINE_S, "limit": 1}
    equal("ok" in control.add_consumer(more, exchange=app.named("tasks"), routing_key="more", **ordered)[0]["plain@interop"], True)
    # The worker answers before it does so.
    until(lambda: counts("more")[1] == 1, "it consumes")
    with kombu.Connection(os.environ["AMQP_URL"]) as made:
        exchange = kombu.Exchange(app.named("tasks"), type="direct", durable=True)
        taken = send(workers.rpc, "add", 20, 3, exchange=exchange, routing_key="more", connection=made)
        equal(taken.get(timeout=DEADLINE_S), 23, "from the queue that it was told of")
        equal("ok" in control.cancel_consumer(more, **ordered)[0]["plain@interop"], True)
        until(lambda: counts("more")[1] == 0, "it no longer consumes")
        made.default_channel.queue_delete(more)
    equal(control.rate_limit("stamp", "100/s", **ordered)[0]["plain@interop"], {"ok": "new rate limit set successfully"})


def events(workers):
    """Who listens hears of a task from its sending to its end, and of the workers."""
    heard, lock = [], threading.Lock()

    def on_event(event):
        with lock:
            heard.append(event)

    made = kombu.Connection(os.environ["AMQP_URL"])
    receiver = workers.rpc.events.Receiver(made, handlers={"*": on_event})
    trouble = []

    def listen():
        try:
            for _ in receiver.itercapture(limit=None, timeout=None, wakeup=True):
                pass
        except Exception as error:  # told in the end
            trouble.append(error)

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()

    def types(uuid=None):
        with lock:
            return {event["type"] for event in heard if uuid is None or event.get("uuid") == uuid}

    # Asked to wake, every worker says that it is there: by then the receiver is bound.
    until(lambda: "worker-heartbeat" in types(), "workers are heard of")
    sent = send(workers.rpc, "add", 4, 4)
    wanted = {"task-sent", "task-received", "task-started", "task-succeeded"}
    until(lambda: types(sent.id) >= wanted, "its whole life is heard of")
    failed = send(workers.rpc, "fails", "heard of")
    until(lambda: "task-failed" in types(failed.id), "a failure is heard of")
    receiver.should_stop = True
    until(lambda: not thread.is_alive(), "it stops")
    made.release()
    equal(trouble, [])


EXPECTATIONS = {
    "celery-results": results,
    "celery-retries": retries,
    "celery-times": times,
    "celery-priorities": priorities,
    "celery-chords": chords,
    "celery-revocation": revocation,
    "celery-lost-process": lost_process,
    "celery-dead-letters": dead_letters,
    "celery-control": remote_control,
    "celery-events": events,
    "celery-killed-worker": killed_worker,
}
