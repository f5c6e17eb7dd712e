"""Unmodified clients that publish with confirms to a broker that is killed again and again: what was confirmed is there.

Enters: BROKER_DURABLE, AMQP_BROKER; INTEROP_KILLS, the number of kills (5).  Leaves: a line for each client (see report.py).
Owns:   a durable broker of its own, a queue for each client, and the clients, which are processes.
Never:  kills RabbitMQ: it does not write what it confirms to the disk at once.
"""

import contextlib
import os
import random
import subprocess
import sys
import threading
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import pika

from report import Report
from second import started, stopped

KILLS = int(os.environ.get("INTEROP_KILLS", "5"))
# Confirms of all clients between two kills: at most so many.
CONFIRMS_MAX = 400
DEADLINE_S = 60
CACHE = Path(os.environ["CACHE"])
COMMANDS = {
    "pika": [sys.executable, HERE / "publish.py"],
    "java": ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", f"{CACHE}/classes:{CACHE}/lib/*", "Publish"],
    "amqp091-go": [CACHE / "publish"],
}
NEEDED = {"java": CACHE / "classes", "amqp091-go": CACHE / "publish"}


class Confirms:
    """How many confirms have come, for whoever waits for more."""

    def __init__(self):
        self.count, self.changed = 0, threading.Condition()

    def add(self):
        with self.changed:
            self.count += 1
            self.changed.notify_all()

    def wait_for(self, more):
        with self.changed:
            until = self.count + more
            if not self.changed.wait_for(lambda: self.count >= until, DEADLINE_S):
                raise AssertionError(f"{self.count} confirms have come, and no {until} within {DEADLINE_S} s")


class Publisher:
    """A client at work."""

    def __init__(self, name, url, confirms):
        self.queue, self.confirmed, self.confirms = f"kills-{name}", [], confirms
        self.process = subprocess.Popen(
            [*COMMANDS[name], self.queue],
            env=os.environ | {"AMQP_URL": url},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.confirmed.append(int(line))
            self.confirms.add()

    def end(self):
        self.process.stdin.close()
        status = self.process.wait(DEADLINE_S)
        self.reader.join()
        if status:
            raise AssertionError(f"the client ended with status {status}")

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()


def declared(url, queues):
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        for queue in queues:
            channel.queue_declare(queue, durable=True)


def found(url, queue):
    """The numbers in a queue."""
    numbers = []
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        left = channel.queue_declare(queue, passive=True).method.message_count
        for method, _, body in channel.consume(queue, auto_ack=True, inactivity_timeout=DEADLINE_S) if left else ():
            if method is None:
                raise AssertionError(f"{left} messages of {queue} do not come")
            numbers.append(int(body))
            left -= 1
            if not left:
                break
    return numbers


def run(names):
    """Runs the clients. Returns what each has confirmed, and the address of the broker."""
    url = started("BROKER_DURABLE")
    declared(url, [f"kills-{name}" for name in names])
    confirms, chance = Confirms(), random.Random(int(os.environ.get("INTEROP_SEED", "1")))
    publishers = {name: Publisher(name, url, confirms) for name in names}
    try:
        # Each has begun.
        for publisher in publishers.values():
            while not publisher.confirmed:
                confirms.wait_for(1)
        for _ in range(KILLS):
            confirms.wait_for(chance.randrange(CONFIRMS_MAX))
            stopped("BROKER_DURABLE", "kill")
            started("BROKER_DURABLE")
        confirms.wait_for(1)
        for publisher in publishers.values():
            publisher.end()
    finally:
        for publisher in publishers.values():
            publisher.kill()
    return {name: publisher.confirmed for name, publisher in publishers.items()}, url


def compare(name, confirmed, url):
    numbers = found(url, f"kills-{name}")
    lost = set(confirmed) - set(numbers)
    print(f"{name}: {len(confirmed)} confirmed over {KILLS} kills, {len(numbers)} there, {len(lost)} lost", file=sys.stderr)
    if lost:
        raise AssertionError(f"{len(lost)} of {len(confirmed)} confirmed messages are lost: {sorted(lost)[:10]}")
    beyond = set(numbers) - set(range(max(confirmed) + 1 + 20))
    if beyond:
        raise AssertionError(f"numbers that nobody published: {sorted(beyond)[:10]}")


def main():
    report = Report()
    if os.environ.get("AMQP_BROKER") != "harrier":
        for name in COMMANDS:
            report.skip(f"kills-{name}", "this broker does not promise it")
        report.exit()
    names = [name for name in COMMANDS if name not in NEEDED or NEEDED[name].exists()]
    for name in COMMANDS.keys() - names:
        report.skip(f"kills-{name}", "its compiler is not here")
    confirmed, url = run(names)
    for name in names:
        report.check(f"kills-{name}", compare, name, confirmed[name], url)
    stopped("BROKER_DURABLE")
    report.exit()


main()
