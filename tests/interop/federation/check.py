"""RabbitMQ's federation plugin with the broker under test as its upstream.

Enters: AMQP_URL.  Leaves: a line for each expectation (see report.py).
Owns:   a private RabbitMQ that federates, the downstream; on the upstream exchanges and queues of its own names, deleted in the end.
Never:  sleeps: every wait is for a message, a return or a count, with a deadline.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE.parent / "pika"))

import pika

from scene import BROKER, URL, connection, unique, until  # first: it says where report.py is
from brokers import RabbitMQ
from report import Report, Skip, equal

import joined
import moved

DOWNSTREAM = "harrier-test-downstream"


class Scene:
    """An exchange or a queue of one name on both, and a channel to each."""

    def __init__(self, downstream):
        self.downstream = downstream

    def __enter__(self):
        self.near = self.downstream.connect()
        self.entered = connection()
        self.far = self.entered.__enter__()
        self.down, self.up = self.near.channel(), self.far.channel()
        self.up.confirm_delivery()
        self.exchanges, self.queues = [], []
        return self

    def __exit__(self, *_how):
        # The downstream's first: with them goes what its links have made at the upstream.
        with self.downstream.connect() as near, connection() as far:
            for channel in (near.channel(), far.channel()):
                for name in self.exchanges:
                    channel.exchange_delete(name)
                for name in self.queues:
                    channel.queue_delete(name)
        self.near.close()
        self.entered.__exit__(None, None, None)

    def exchange(self, kind="topic"):
        name = unique("federated").removeprefix("pika-")
        self.exchanges.append(name)
        self.up.exchange_declare(name, kind)
        self.down.exchange_declare(name, kind)
        return name

    def bound(self, exchange, *keys, arguments=None):
        queue = self.down.queue_declare("", exclusive=True).method.queue
        for key in keys:
            self.down.queue_bind(queue, exchange, key, arguments)
        return queue

    def goes(self, exchange, key, body=b"", properties=None):
        """Whether the upstream finds a place for a message."""
        try:
            self.up.basic_publish(exchange, key, body, properties, mandatory=True)
        except pika.exceptions.UnroutableError:
            return False
        return True

    def until_it_goes(self, exchange, key, properties=None):
        """Publishes until the downstream's binding has arrived at the upstream."""
        until(self.near, lambda: self.goes(exchange, key, b"first", properties), f"{key} is wanted by the downstream")

    def until_it_does_not(self, exchange, key):
        until(self.near, lambda: not self.goes(exchange, key), f"{key} is wanted no more")

    def collect(self, queue):
        got = []
        self.down.basic_consume(queue, lambda _c, m, p, body: got.append((m, p, body)), auto_ack=True)
        return got

    def until_there_are(self, got, count):
        until(self.near, lambda: len(got) >= count, f"{count} messages at the downstream")


def bindings_are_mirrored(scene):
    exchange = scene.exchange()
    equal(scene.goes(exchange, "a.b"), False, "before anybody wants it")
    queue = scene.bound(exchange, "a.*", "c")
    got = scene.collect(queue)
    scene.until_it_goes(exchange, "a.b")
    scene.until_it_goes(exchange, "c")
    equal(scene.goes(exchange, "b.a"), False, "what nobody wants")
    scene.until_there_are(got, 2)
    equal([(m.exchange, m.routing_key, body) for m, _, body in got], [(exchange, "a.b", b"first"), (exchange, "c", b"first")])
    [hop] = got[0][1].headers["x-received-from"]
    equal((hop["exchange"], hop["vhost"], hop["redelivered"]), (exchange, "/", False), "where it came from")
    # Pika keeps what a server says of itself in the connection beneath.
    equal(hop["cluster-name"], scene.far._impl.server_properties["cluster_name"], "from whom")
    scene.down.queue_unbind(queue, exchange, "c")
    scene.until_it_does_not(exchange, "c")
    equal(scene.goes(exchange, "a.b"), True, "the other binding stays")


def headers_are_matched_at_the_upstream(scene):
    exchange = scene.exchange("headers")
    queue = scene.bound(exchange, "", arguments={"x-match": "all", "kind": "wanted"})
    got = scene.collect(queue)
    scene.until_it_goes(exchange, "", pika.BasicProperties(headers={"kind": "wanted"}))
    equal(scene.goes(exchange, "", b"", pika.BasicProperties(headers={"kind": "other"})), False, "another kind")
    scene.until_there_are(got, 1)


def nothing_goes_back(scene):
    exchange = scene.exchange("fanout")
    scene.bound(exchange, "")
    scene.until_it_goes(exchange, "")

    def came_by(*names):
        hops = [{"cluster-name": name, "vhost": "/", "exchange": exchange} for name in names]
        return scene.goes(exchange, "", b"", pika.BasicProperties(headers={"x-received-from": hops}))

    equal(came_by("elsewhere"), True, "what came from elsewhere goes on")
    equal(came_by(DOWNSTREAM), False, "what came from the downstream does not")
    equal(came_by(DOWNSTREAM, "elsewhere"), False, "however long ago")
    equal(came_by("here", "there"), False, "what came over as many brokers as it may")


def everything_arrives_in_order(scene):
    exchange = scene.exchange("direct")
    queue = scene.bound(exchange, "k")
    got = scene.collect(queue)
    scene.until_it_goes(exchange, "k")
    scene.until_there_are(got, 1)
    with connection() as other:
        publisher = other.channel()
        for number in range(2000):
            publisher.basic_publish(exchange, "k", str(number).encode() * (1 + number % 7 * 300))
        scene.until_there_are(got, 2001)
    equal([body for _, _, body in got[1:]], [str(number).encode() * (1 + number % 7 * 300) for number in range(2000)])


def queues_are_federated(scene):
    queue = unique("federated-queue").removeprefix("pika-")
    scene.queues.append(queue)
    scene.up.queue_declare(queue)
    scene.down.queue_declare(queue)
    for number in range(20):
        scene.up.basic_publish("", queue, str(number).encode())
    # Only what is consumed down there leaves the upstream.
    got = scene.collect(queue)
    scene.until_there_are(got, 20)
    equal([body for _, _, body in got], [str(number).encode() for number in range(20)])
    # A consumer of the upstream comes first.
    here = []
    scene.up.basic_consume(queue, lambda _c, _m, _p, body: here.append(body), auto_ack=True)
    with connection() as other:
        publisher = other.channel()
        for number in range(10):
            publisher.basic_publish("", queue, str(number).encode())
        until(scene.far, lambda: len(here) == 10, "the consumer at the upstream has them all")
    equal(len(got), 20, "at the downstream")


EXPECTATIONS = {
    "federation-bindings": bindings_are_mirrored,
    "federation-headers": headers_are_matched_at_the_upstream,
    "federation-loops": nothing_goes_back,
    "federation-order": everything_arrives_in_order,
    "federation-queues": queues_are_federated,
}


def run_all(report, expectations, make, scene_of):
    """Runs expectations on what `make` makes, each with a scene of its own."""
    wanted = [name for name in expectations if not report.only or name in report.only]
    if not wanted:
        return
    try:
        brokers = make()
    except Skip as why:
        for name in wanted:
            report.skip(name, why)
        return

    def run(body):
        with scene_of(brokers) as scene:
            body(scene)

    try:
        for name in wanted:
            report.check(name, run, expectations[name])
    finally:
        brokers.stop()


def main():
    report = Report()
    # Whatever is called `federated…` pulls from the broker under test.
    run_all(report, EXPECTATIONS, lambda: RabbitMQ(DOWNSTREAM, {"federated": URL}), Scene)
    # What Harrier does as a downstream is tried where it is the broker under test.
    if BROKER == "harrier":
        run_all(report, joined.EXPECTATIONS | moved.EXPECTATIONS, joined.Joined, joined.Scene)
    report.exit()


main()
