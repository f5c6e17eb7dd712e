"""Harrier pulls from RabbitMQ and pushes to it, with the federation plugin there and without; chains and circles of both.

Enters: three brokers.  Leaves: nothing: each expectation removes what it has made.
Owns:   the script; exchanges that begin with `back` are those that RabbitMQ pulls from Harrier.
Never:  sleeps: every wait is for a message, a return or a state, with a deadline.
"""

import contextlib
import json
import time

import pika

from brokers import Harrier, RabbitMQ
from report import equal
from scene import unique, until

MADE_S_MAX = 30
LARGE_BYTES = 3_000_000


class Joined:
    """Harrier, a RabbitMQ with the plugin that pulls from it, and one without."""

    def __init__(self):
        self.brokers = []
        self.harrier = self.kept(Harrier("joined-harrier"))
        self.plugged = self.kept(RabbitMQ("joined-plugged", {"back": self.harrier.url}))
        self.plain = self.kept(RabbitMQ("joined-plain", plugin=False))

    def kept(self, broker):
        self.brokers.append(broker)
        return broker

    def stop(self):
        for broker in reversed(self.brokers):
            broker.stop()


class Scene:
    """Channels to brokers, and exchanges and routes that go again."""

    def __init__(self, joined):
        self.joined = joined
        self.undo, self.connections = [], []

    def __enter__(self):
        return self

    def __exit__(self, *_how):
        for connection in self.connections:
            # One to a broker that has been away is lost, and may not know it.
            with contextlib.suppress(pika.exceptions.AMQPError):
                connection.close()
        for words in reversed(self.undo):
            words()

    def channel(self, broker, confirms=True):
        connection = broker.connect()
        self.connections.append(connection)
        channel = connection.channel()
        if confirms:
            channel.confirm_delivery()
        return channel

    def exchange(self, brokers, kind="topic", start="there", durable=False):
        name = unique(start).removeprefix("pika-")
        for broker in brokers:
            self.channel(broker).exchange_declare(name, kind, durable=durable)
            self.undo.append(lambda broker=broker: deleted(broker, lambda channel: channel.exchange_delete(name)))
        return name

    def route(self, *words):
        """Adds one, which goes with its link in the end."""
        self.joined.harrier.route(*words)
        self.undo.append(lambda: self.joined.harrier.route(*undone(words)))

    def bound(self, broker, exchange, *keys, arguments=None):
        """A queue there, and what comes to it."""
        channel = self.channel(broker, confirms=False)
        queue = channel.queue_declare("", exclusive=True).method.queue
        for key in keys:
            channel.queue_bind(queue, exchange, key, arguments)
        got = []
        channel.basic_consume(queue, lambda _c, m, p, body: got.append((m, p, body)), auto_ack=True)
        return Got(channel, queue, got)

    def until_routes_run(self):
        def run():
            routes = [route for link in self.joined.harrier.links() for route in link["routes"]]
            return routes and all(route["runs"] for route in routes)

        waited(run, lambda: f"routes run: {self.joined.harrier.links()}")


class Got:
    def __init__(self, channel, queue, got):
        self.channel, self.queue, self.got = channel, queue, got

    def bodies(self):
        return [body for _, _, body in self.got]

    def until(self, count):
        until(self.channel.connection, lambda: len(self.got) >= count, f"{count} messages, not {len(self.got)}")
        return self.bodies()


def undone(words):
    """The words that undo such words; with its last route goes the link."""
    words = ["del" if word == "add" else word for word in words]
    for option in ("--ack", "--credit"):
        if option in words:
            at = words.index(option)
            del words[at : at + 2]
    return ["-e", *(word for word in words if word not in ("-d", "--force"))]


def deleted(broker, what):
    connection = broker.connect()
    what(connection.channel())
    connection.close()


def waited(condition, what):
    deadline = time.monotonic() + MADE_S_MAX
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {MADE_S_MAX} s: {what()}")
        time.sleep(0.05)  # between two looks at the condition, which has a deadline


def goes(channel, exchange, key, body=b"", properties=None):
    """Whether a broker finds a place for a message."""
    try:
        channel.basic_publish(exchange, key, body, properties, mandatory=True)
    except pika.exceptions.UnroutableError:
        return False
    return True


def hops(message):
    return [hop["cluster-name"] for hop in message[1].headers["x-received-from"]]


def pulled(scene, source, ack):
    harrier = scene.joined.harrier
    exchange = scene.exchange((harrier, source))
    up = scene.channel(source)
    scene.route("dynamic", "add", harrier.place, source.place, exchange, "--ack", ack)
    scene.until_routes_run()
    equal(goes(up, exchange, "a.b"), False, "before anybody wants it")
    got = scene.bound(harrier, exchange, "a.*", "c")
    for key in ("a.b", "c"):
        waited(lambda key=key: goes(up, exchange, key, b"first"), lambda: f"{key} is wanted")
    equal(goes(up, exchange, "b.a"), False, "what nobody wants")
    got.until(2)
    equal([(m.exchange, m.routing_key, body) for m, _, body in got.got], [(exchange, "a.b", b"first"), (exchange, "c", b"first")])
    [hop] = got.got[0][1].headers["x-received-from"]
    want = {"uri": f"amqp://{source.place}", "exchange": exchange, "redelivered": False, "cluster-name": source.name, "vhost": "/"}
    equal(hop, want, "where it came from")
    got.channel.queue_unbind(got.queue, exchange, "c")
    waited(lambda: not goes(up, exchange, "c"), lambda: "c is wanted no more")
    # In order, small and large, under way at the same time.
    sizes = [1 + number % 7 * 300 for number in range(1000)] + [LARGE_BYTES, 1]
    bodies = [str(number).encode() * size for number, size in enumerate(sizes)]
    before = len(got.got)
    fast = scene.channel(source, confirms=False)
    for body in bodies:
        fast.basic_publish(exchange, "a.b", body)
    equal(got.until(before + len(bodies))[before:] == bodies, True, "all of them, in order")


def pulls(scene):
    pulled(scene, scene.joined.plugged, "confirm")


def pulls_unconfirmed(scene):
    pulled(scene, scene.joined.plugged, "none")


def pulls_without_the_plugin(scene):
    pulled(scene, scene.joined.plain, "confirm")
    pulled(scene, scene.joined.plain, "none")


def pulls_by_key_headers_and_queue(scene):
    harrier, source = scene.joined.harrier, scene.joined.plugged
    up = scene.channel(source)
    by_key = scene.exchange((harrier, source), "direct")
    scene.route("route", "add", harrier.place, source.place, by_key, "k")
    of_headers = scene.exchange((harrier, source), "headers")
    scene.route("dynamic", "add", harrier.place, source.place, of_headers)
    queue = unique("there-queue").removeprefix("pika-")
    up.queue_declare(queue, durable=True)
    scene.undo.append(lambda: deleted(source, lambda channel: channel.queue_delete(queue)))
    for number in range(100):
        up.basic_publish("", queue, str(number).encode())
    got = scene.bound(harrier, by_key, "k", "other", queue)
    scene.route("queue", "add", harrier.place, source.place, by_key, queue)
    scene.until_routes_run()
    equal(got.until(100), [str(number).encode() for number in range(100)], "what was in the queue")
    waited(lambda: up.queue_declare(queue, passive=True).method.message_count == 0, lambda: "the queue is empty")
    equal(goes(up, by_key, "k", b"by key"), True, "with the key")
    equal(goes(up, by_key, "other"), False, "with another key")
    equal(got.until(101)[100], b"by key")
    headers = scene.bound(harrier, of_headers, "", arguments={"x-match": "all", "kind": "wanted"})
    wanted = pika.BasicProperties(headers={"kind": "wanted"})
    waited(lambda: goes(up, of_headers, "", b"headers", wanted), lambda: "the headers are wanted")
    equal(goes(up, of_headers, "", b"", pika.BasicProperties(headers={"kind": "other"})), False, "another kind")
    equal(headers.until(1), [b"headers"])


def pushes(scene):
    harrier, there = scene.joined.harrier, scene.joined.plugged
    for ack in ("confirm", "none"):
        exchange = scene.exchange((harrier, there))
        got = scene.bound(there, exchange, "#")
        here = scene.channel(harrier)
        scene.route("-s", "route", "add", there.place, harrier.place, exchange, "eu.#", "--ack", ack)
        scene.until_routes_run()
        equal(goes(here, exchange, "us.x"), False, "what the route does not carry")
        bodies = [str(number).encode() * (1 + number % 5 * 500) for number in range(500)] + [b"x" * LARGE_BYTES]
        fast = scene.channel(harrier, confirms=False)
        for body in bodies:
            fast.basic_publish(exchange, "eu.de", body)
        equal(got.until(len(bodies)) == bodies, True, "all of them, in order")
        equal(hops(got.got[0]), [harrier.name], "where they came from")
        queue = unique("here-queue").removeprefix("pika-")
        here.queue_declare(queue)
        scene.undo.append(lambda queue=queue: deleted(harrier, lambda channel: channel.queue_delete(queue)))
        here.basic_publish("", queue, b"queued")
        scene.route("-s", "queue", "add", there.place, harrier.place, exchange, queue, "--ack", ack)
        equal(got.until(len(bodies) + 1)[-1], b"queued")


def until_state(harrier, command, *columns, state):
    """Until the only line of a list is this."""
    waited(lambda: harrier.ctl(command, "-s", *columns).strip() == state, lambda: f"{state}: {harrier.ctl(command)}")


def federated_by_parameters(scene):
    harrier = scene.joined.harrier
    for source in (scene.joined.plugged, scene.joined.plain):
        # The source has none of its own: the link declares it.
        exchange = scene.exchange((harrier,), start="param")
        got = scene.bound(harrier, exchange, "eu.#")
        upstream = {"uri": source.url, "prefetch-count": 50, "expires": 600_000}
        harrier.ctl("set_parameter", "federation-upstream", "up", json.dumps(upstream))
        policy = json.dumps({"federation-upstream-set": "all"})
        harrier.ctl("set_policy", "--apply-to", "exchanges", "federate", f"^{exchange}$", policy)
        scene.undo.append(lambda source=source, exchange=exchange: deleted(source, lambda c: c.exchange_delete(exchange)))
        until_state(harrier, "federation_status", "upstream", "exchange", "status", state=f"up\t{exchange}\trunning")
        up = scene.channel(source)
        waited(lambda up=up: goes(up, exchange, "eu.de", b"wanted"), lambda: "it is wanted")
        equal(goes(up, exchange, "us.ny"), False, "what nobody wants")
        equal(got.until(1), [b"wanted"])
        equal(hops(got.got[0]), [source.name], "where it came from")
        queue = f"federation: {exchange} -> {harrier.name}"
        up.queue_declare(queue, passive=True)
        harrier.ctl("clear_parameter", "federation-upstream", "up")
        equal(harrier.ctl("federation_status", "-s").strip(), "", "there is no link")
        waited(lambda source=source, queue=queue: not has_queue(source, queue), lambda: "its queue there is gone")
        harrier.ctl("clear_policy", "federate")


def has_queue(broker, queue):
    connection = broker.connect()
    try:
        connection.channel().queue_declare(queue, passive=True)
    except pika.exceptions.ChannelClosedByBroker:
        return False
    finally:
        connection.close()
    return True


def shovelled_by_parameters(scene):
    harrier, other = scene.joined.harrier, scene.joined.plain
    here, there = unique("shovel-here").removeprefix("pika-"), unique("shovel-there").removeprefix("pika-")
    for broker, queue in ((harrier, here), (other, here), (other, there), (harrier, there)):
        scene.undo.append(lambda broker=broker, queue=queue: deleted(broker, lambda c: c.queue_delete(queue)))
    # The queues at both ends are declared.
    ways = {"out": ("amqp://", here, other.url, here), "in": (other.url, there, "amqp://", there)}
    for name, (source, src, destination, dest) in ways.items():
        shovel = {"src-uri": source, "src-queue": src, "dest-uri": destination, "dest-queue": dest}
        harrier.ctl("set_parameter", "shovel", name, json.dumps(shovel | {"reconnect-delay": 0.2}))
        until_state(harrier, "shovel_status", "name", "state", state=f"{name}\trunning")
        start, end = (harrier, other) if name == "out" else (other, harrier)
        sent = scene.channel(start)
        bodies = [str(number).encode() * (1 + number % 5 * 500) for number in range(300)] + [b"x" * LARGE_BYTES]
        stored = pika.BasicProperties(delivery_mode=2, headers={"kept": "as it was"})
        for body in bodies:
            sent.basic_publish("", src, body, stored)
        taken = scene.channel(end, confirms=False)
        got = []
        taken.basic_consume(dest, lambda _c, _m, p, body, got=got: got.append((p.headers, body)), auto_ack=True)
        until(taken.connection, lambda got=got, bodies=bodies: len(got) >= len(bodies), "all have come")
        equal([body for _, body in got] == bodies, True, "all of them, in order")
        equal(got[0][0], {"kept": "as it was"}, "and nothing is added")
        harrier.ctl("delete_shovel", name)
    # So many and no more.
    up = scene.channel(other)
    for number in range(10):
        up.basic_publish("", there, str(number).encode())
    shovel = {"src-uri": other.url, "src-queue": there, "dest-uri": "amqp://", "dest-queue": here, "src-delete-after": 7}
    harrier.ctl("set_parameter", "shovel", "some", json.dumps(shovel))
    waited(lambda: harrier.ctl("shovel_status", "-s").strip() == "", lambda: harrier.ctl("shovel_status"))

    def counted(broker, queue):
        return scene.channel(broker).queue_declare(queue, passive=True).method.message_count

    waited(lambda: (counted(other, there), counted(harrier, here)) == (3, 7), lambda: "seven have moved")


def forced(scene):
    """Who cannot mark messages, or know them again, has no second path, by whatever force."""
    harrier, other = scene.joined.harrier, scene.joined.plugged
    exchange = scene.exchange((harrier, other))
    scene.route("dynamic", "add", harrier.place, other.place, exchange)
    scene.route("-s", "route", "add", other.place, harrier.place, exchange, "us.#")
    for words in (["route", "add", harrier.place, other.place], ["-s", "route", "add", other.place, harrier.place]):
        why = harrier.refused(*words, exchange, "us.x")
        equal("beside another route (--force adds it" in why, True, why)
        why = harrier.refused("--force", *words, exchange, "us.x")
        equal("is not Harrier, and neither marks messages nor recognises duplicates" in why, True, why)
    # What no message has both of is no second path.
    scene.route("-s", "route", "add", other.place, harrier.place, exchange, "eu.#")


def both_ways(scene):
    """RabbitMQ pulls from Harrier what Harrier pulls from RabbitMQ: everything comes to each side once."""
    harrier, other = scene.joined.harrier, scene.joined.plugged
    exchange = scene.exchange((harrier, other), start="back")
    scene.route("dynamic", "add", harrier.place, other.place, exchange)
    here, there = scene.bound(harrier, exchange, "#"), scene.bound(other, exchange, "#")
    at = {harrier: scene.channel(harrier), other: scene.channel(other)}

    def crosses(source, got, word):
        """Publishes until the binding has come: each of these may or may not cross."""
        count = iter(range(1 << 30))

        def one():
            at[source].basic_publish(exchange, "try", f"{word} {next(count)}".encode())
            got.channel.connection.process_data_events(time_limit=0.05)
            return any(body.startswith(word.encode()) for body in got.bodies())

        waited(one, lambda: f"from {source.name}: {harrier.links()}")

    crosses(other, here, "down")
    crosses(harrier, there, "up")
    for number in range(200):
        at[harrier].basic_publish(exchange, "k", f"harrier {number}".encode())
        at[other].basic_publish(exchange, "k", f"rabbitmq {number}".encode())
    for channel in at.values():
        channel.basic_publish(exchange, "end", b"end")
    want = [f"{name} {number}".encode() for name in ("harrier", "rabbitmq") for number in range(200)]
    for got in (here, there):
        until(got.channel.connection, lambda got=got: got.bodies().count(b"end") == 2, "both ends have come")
        counted = sorted(body for m, _, body in got.got if m.routing_key == "k")
        equal(counted == sorted(want), True, f"each once: {len(counted)} of {len(want)}")
        equal(len(set(got.bodies()) - {b"end"}), len(got.got) - 2, "nothing twice")


def chain(scene):
    """RabbitMQ, Harrier, RabbitMQ: a binding at the end is known at the beginning."""
    first, middle, last = scene.joined.plain, scene.joined.harrier, scene.joined.plugged
    exchange = scene.exchange((first, middle, last), start="back")
    scene.route("dynamic", "add", middle.place, first.place, exchange)
    up = scene.channel(first)
    equal(goes(up, exchange, "a.b"), False, "before anybody wants it")
    got = scene.bound(last, exchange, "a.*")
    waited(lambda: goes(up, exchange, "a.b", b"first"), lambda: f"the binding has come: {middle.links()}")
    equal(goes(up, exchange, "b"), False, "what nobody wants")
    for number in range(500):
        up.basic_publish(exchange, "a.b", str(number).encode())
    equal(got.until(501), [b"first", *(str(number).encode() for number in range(500))])
    equal(hops(got.got[0]), [middle.name, first.name], "where it came from")


def restarted(scene):
    """RabbitMQ ends and comes back while it is published to: what it has confirmed arrives."""
    harrier, source = scene.joined.harrier, scene.joined.plain
    exchange = scene.exchange((harrier, source), "direct", durable=True)
    got = scene.bound(harrier, exchange, "k")
    scene.route("-d", "dynamic", "add", harrier.place, source.place, exchange, "--credit", "10")
    up = scene.channel(source)
    waited(lambda: goes(up, exchange, "k", b"first"), lambda: f"it is wanted: {harrier.links()}")
    stored = pika.BasicProperties(delivery_mode=2)
    for number in range(300):
        up.basic_publish(exchange, "k", str(number).encode(), stored)
    source.halt()

    def state():
        [link] = harrier.links()
        return link["state"] in ("backing off", "connecting") and link["last_error"]

    waited(state, lambda: f"the state says why: {harrier.links()}")
    source.start()
    up = scene.channel(source)
    # Its queue is there before the link is.
    for number in range(300, 600):
        equal(goes(up, exchange, "k", str(number).encode(), stored), True, "there is a place for it")
    up.basic_publish(exchange, "k", b"end", stored)
    until(got.channel.connection, lambda: b"end" in got.bodies(), f"the end has come: {harrier.links()}")
    numbers = [(int(body), p) for _, p, body in got.got if body.isdigit()]
    equal(sorted({number for number, _ in numbers}), list(range(600)), "all that was confirmed")
    seen = set()
    for number, properties in numbers:
        if number in seen:
            equal(properties.headers["x-received-from"][0]["redelivered"], True, f"{number} came again")
        seen.add(number)
    once = list(dict.fromkeys(number for number, _ in numbers))
    equal(once, sorted(once), "in order")


EXPECTATIONS = {
    "joined-pulls": pulls,
    "joined-pulls-unconfirmed": pulls_unconfirmed,
    "joined-pulls-without-the-plugin": pulls_without_the_plugin,
    "joined-by-key-headers-and-queue": pulls_by_key_headers_and_queue,
    "joined-pushes": pushes,
    "joined-federated-by-parameters": federated_by_parameters,
    "joined-shovelled-by-parameters": shovelled_by_parameters,
    "joined-forced": forced,
    "joined-both-ways": both_ways,
    "joined-chain": chain,
    "joined-restarted": restarted,
}
