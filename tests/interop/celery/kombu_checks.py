"""kombu by itself: queues, what publishing gives back, declarations, remote control over its pidboxes, a lost connection.

Enters: AMQP_URL.  Leaves: EXPECTATIONS, by name.
Owns:   queues and exchanges of its own names, deleted in the end.
Never:  sleeps: every wait is for a message or a condition, with a deadline.
"""

import contextlib
import os
import queue
import socket
import threading
import time

import kombu
from kombu.mixins import ConsumerMixin
from kombu.pidbox import Mailbox

from report import equal

DEADLINE_S = 15
serial = iter(range(1 << 30))


def unique(word):
    return f"kombu-{word}-{os.getpid()}-{next(serial)}"


def connection(**more):
    return kombu.Connection(os.environ["AMQP_URL"], **more)


def until(condition, what):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {DEADLINE_S} s: {what}")
        time.sleep(0.01)  # between two looks at the condition, which has a deadline


def drained(made, condition, what):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {DEADLINE_S} s: {what}")
        with contextlib.suppress(socket.timeout):
            made.drain_events(timeout=0.1)


def simple_queue():
    with connection() as made:
        name = unique("simple")
        with contextlib.closing(made.SimpleQueue(name)) as simple:
            simple.put("one")
            simple.put("two")
            equal(simple.clear(), 2, "cleared")
            for number in range(10):
                simple.put({"number": number}, compression="zlib" if number % 2 else None)
            until(lambda: simple.qsize() == 10, "all are there: a broker may count before it has queued what was sent unconfirmed")
            first = simple.get(timeout=DEADLINE_S)
            equal(first.payload, {"number": 0})
            first.requeue()
            for number in range(1, 10):
                message = simple.get(timeout=DEADLINE_S)
                equal(message.payload, {"number": number}, "in order: it has them all already")
                message.ack()
            again = simple.get(timeout=DEADLINE_S)
            equal((again.payload, again.delivery_info["redelivered"]), ({"number": 0}, True))
            again.reject()
            try:
                simple.get(block=False)
                raise AssertionError("it should be empty")
            except simple.Empty:
                pass
            equal(simple.qsize(), 0, "nothing is left")
            simple.consumer.cancel()
            simple.queue.delete()
        with contextlib.closing(made.SimpleBuffer(unique("buffer"))) as buffer:
            buffer.put("gone with its consumer")
            equal(buffer.get(timeout=DEADLINE_S).payload, "gone with its consumer")


def publishing():
    back = []
    with connection(transport_options={"confirm_publish": True}) as made:
        channel = made.channel()
        exchange = kombu.Exchange(unique("exchange"), type="topic", durable=False, auto_delete=True)
        target = kombu.Queue(unique("target"), exchange, routing_key="a.#", exclusive=True, message_ttl=60, expires=60, max_length=3)
        bound = target(channel)
        bound.declare()
        producer = made.Producer(channel, exchange=exchange, on_return=lambda *words: back.append(words))
        producer.publish({"lost": True}, routing_key="b", mandatory=True)
        drained(made, lambda: back, "what nobody gets comes back")
        error, name, key, message = back[0]
        equal((error.reply_code, error.reply_text, name, key), (312, "NO_ROUTE", exchange.name, "b"))
        for number in range(5):
            producer.publish({"n": number}, routing_key="a.b", headers={"n": number}, expiration=30, serializer="json", retry=True)
        equal(bound.queue_declare(passive=True).message_count, 3, "as long as it may be")
        message = bound.get()
        equal((message.payload["n"], message.headers["n"]), (2, 2), "the oldest were dropped")
        equal(message.properties["expiration"], "30000", "in milliseconds")
        message.ack()


def topology():
    """Exchanges bound to exchanges, bindings with arguments, taken down in order."""
    with connection() as made:
        channel = made.channel()
        source = kombu.Exchange(unique("source"), type="fanout", durable=False)(channel)
        sorter = kombu.Exchange(unique("sorter"), type="headers", durable=False)(channel)
        source.declare()
        sorter.declare()
        sorter.bind_to(source.name)
        wanted = kombu.Queue(unique("wanted"), durable=False, expires=60)(channel)
        wanted.queue_declare()
        wanted.bind_to(sorter.name, arguments={"x-match": "all", "kind": "ship"})
        producer = made.Producer(channel)
        for kind in ("ship", "train", "ship"):
            producer.publish(kind, exchange=source.name, headers={"kind": kind})
        got = []
        with made.Consumer(wanted, callbacks=[lambda body, message: (got.append(body), message.ack())], channel=channel, prefetch_count=1):
            drained(made, lambda: len(got) == 2, "both ships")
        sorter.unbind_from(source.name)
        producer.publish("ship", exchange=source.name, headers={"kind": "ship"})
        equal((got, wanted.queue_declare(passive=True).message_count), (["ship", "ship"], 0))
        equal(wanted.delete(if_empty=True), 0)
        sorter.delete(if_unused=True)
        source.delete()


class Node(threading.Thread):
    """A pidbox that answers, in a thread with a connection of its own."""

    def __init__(self, mailbox, name):
        super().__init__(daemon=True)
        self.ready, self.stop, self.heard, self.trouble = threading.Event(), threading.Event(), [], None
        self.connection = connection()
        self.node = mailbox(self.connection).Node(name, state=self.heard, channel=self.connection.channel())
        self.node.handlers.update(where=self.where, fill=self.fill)
        self.start()

    def where(self, state, **_):
        return {"I am": self.node.hostname}

    def fill(self, state, words=None, **_):
        state.append(words)

    def run(self):
        try:
            with self.connection, self.node.listen():
                self.ready.set()
                while not self.stop.is_set():
                    with contextlib.suppress(socket.timeout):
                        self.connection.drain_events(timeout=0.05)
        except Exception as error:  # told where the thread is joined
            self.trouble = error
            self.ready.set()

    def end(self):
        self.stop.set()
        self.join(DEADLINE_S)
        if self.trouble:
            raise self.trouble


def pidbox():
    """A question to all, to one, and an order without an answer."""
    mailbox = Mailbox(unique("pidbox"), type="fanout")
    nodes = [Node(mailbox, name) for name in ("alpha", "beta")]
    for node in nodes:
        equal(node.ready.wait(DEADLINE_S), True, "it listens")
    try:
        with connection() as made:
            box = mailbox(made)
            answers = box.multi_call("where", timeout=DEADLINE_S, limit=2)
            equal(sorted(name for answer in answers for name in answer), ["alpha", "beta"])
            equal(box.call(["beta"], "where", timeout=DEADLINE_S), [{"beta": {"I am": "beta"}}])
            box.abcast("fill", {"words": "to all"})
            box.cast(["alpha"], "fill", {"words": "to one"})
            until(lambda: (nodes[0].heard, nodes[1].heard) == (["to all", "to one"], ["to all"]), "both have heard it")
    finally:
        for node in nodes:
            node.end()


class Relay(threading.Thread):
    """Carries connections to the broker until they are cut."""

    def __init__(self):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.target = kombu.Connection(os.environ["AMQP_URL"])
        self.pairs = []
        self.start()

    def url(self):
        return f"amqp://guest:guest@127.0.0.1:{self.listener.getsockname()[1]}/%2F"

    def run(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.create_connection((self.target.hostname, self.target.port))
            self.pairs.append((near, far))
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self.carry, args=(one, other), daemon=True).start()

    @staticmethod
    def carry(one, other):
        with contextlib.suppress(OSError):
            while piece := one.recv(1 << 16):
                other.sendall(piece)
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self):
        for pair in self.pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
        self.pairs.clear()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.cut()


class Worker(ConsumerMixin):
    """kombu's own consumer, which comes back by itself."""

    connect_max_retries = None

    def __init__(self, made, target):
        self.connection, self.target, self.got, self.sessions = made, target, queue.Queue(), queue.Queue()

    def get_consumers(self, Consumer, channel):
        return [Consumer(self.target, callbacks=[self.on_message], prefetch_count=10)]

    def on_consume_ready(self, *_, **__):
        self.sessions.put("ready")

    def on_message(self, body, message):
        if body == "keep":
            # Answered when the broker has read the acknowledgements before it.
            self.target(message.channel).queue_declare(passive=True)
        else:
            message.ack()
        self.got.put((body, message.delivery_info["redelivered"]))


def reconnecting():
    """The connection is cut: the consumer is back, with what it had not acknowledged."""
    target = kombu.Queue(unique("reconnect"), durable=False, expires=60)
    relay = Relay()
    worker = Worker(kombu.Connection(relay.url()), target)
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    try:
        worker.sessions.get(timeout=DEADLINE_S)
        with connection() as made:
            producer = made.Producer()
            producer.publish("one", routing_key=target.name)
            producer.publish("keep", routing_key=target.name)
            equal([worker.got.get(timeout=DEADLINE_S) for _ in range(2)], [("one", False), ("keep", False)])
            relay.cut()
            worker.sessions.get(timeout=DEADLINE_S)
            equal(worker.got.get(timeout=DEADLINE_S), ("keep", True), "unacknowledged, and so brought again")
            producer.publish("two", routing_key=target.name)
            equal(worker.got.get(timeout=DEADLINE_S), ("two", False))
            worker.should_stop = True
            producer.publish("wake", routing_key=target.name)
            thread.join(DEADLINE_S)
            equal(thread.is_alive(), False, "it ends when it is told to")
            target(made.channel()).delete()
    finally:
        relay.close()


EXPECTATIONS = {
    "kombu-simple-queue": simple_queue,
    "kombu-publishing": publishing,
    "kombu-topology": topology,
    "kombu-pidbox": pidbox,
    "kombu-reconnect": reconnecting,
}
