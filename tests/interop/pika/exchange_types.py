"""pika's expectations of the exchange types beyond AMQP's four: consistent hashing, and delays.

Enters: connections of scene.py.  Leaves: EXPECTATIONS, by name.
Owns:   queues and exchanges of its own names, deleted in the end.
Never:  expects a certain queue for a key: brokers hash differently. RabbitMQ's plugin for delays is not in Debian's
        packages, so there only Harrier can be asked.
"""

import time

import pika

from scene import BROKER, ready, refused, unique, until  # first: it says where report.py is
from features import taken, with_channel
from report import Skip, equal

COUNT = 2_000


def hashing(channel, weights, **arguments):
    """An exchange, and a queue for each weight."""
    exchange = unique("hash")
    arguments = {name.replace("_", "-"): value for name, value in arguments.items()}
    channel.exchange_declare(exchange, "x-consistent-hash", auto_delete=True, arguments=arguments)
    queues = [channel.queue_declare("", exclusive=True).method.queue for _ in weights]
    for queue, weight in zip(queues, weights):
        channel.queue_bind(queue, exchange, str(weight))
    return exchange, queues


def unconfirmed(made):
    """A channel on which many publishes are quick; `settled` says that they are in their queues."""
    channel = made.channel()
    channel.tx_select()
    return channel


def shares(channel, queues):
    return [ready(channel, queue) / COUNT for queue in queues]


def close(got, want, what):
    """Five standard deviations, or one thing in a million."""
    for share, expected in zip(got, want):
        allowed = 5 * (expected * (1 - expected) / COUNT) ** 0.5
        if abs(share - expected) > allowed:
            raise AssertionError(f"{what}: got {got}, expected {want}")


@with_channel
def consistent_hash(made, channel):
    publisher = unconfirmed(made)
    weights = (1, 2, 3)
    exchange, queues = hashing(channel, weights)
    for number in range(COUNT):
        publisher.basic_publish(exchange, f"key.{number}", b"")
    publisher.tx_commit()
    close(shares(channel, queues), [weight / 6 for weight in weights], "in proportion to the weights")
    # The same key goes to the same queue.
    for queue in queues:
        channel.queue_purge(queue)
    for _ in range(20):
        publisher.basic_publish(exchange, "the same", b"")
    publisher.tx_commit()
    equal(sorted(ready(channel, queue) for queue in queues), [0, 0, 20])
    # A second binding to a queue does not count, and one queue takes all when the others are gone.
    channel.queue_bind(queues[0], exchange, "+3")
    for queue in queues:
        channel.queue_purge(queue)
    for number in range(COUNT):
        publisher.basic_publish(exchange, f"key.{number}", b"")
    publisher.tx_commit()
    close(shares(channel, queues), [weight / 6 for weight in weights], "two bindings to one queue")
    for queue in queues[:2]:
        channel.queue_delete(queue)
    channel.basic_publish(exchange, "anything", b"", mandatory=True)


@with_channel
def consistent_hash_moves_little(made, channel):
    """What a queue had goes to the others when it leaves; RabbitMQ moves some of theirs too, so there only the rest is held to."""
    publisher = unconfirmed(made)
    exchange, queues = hashing(channel, (1, 1, 1, 1))
    homes = []
    for gone in (False, True):
        if gone:
            channel.queue_unbind(queues[1], exchange, "1")
        for number in range(400):
            publisher.basic_publish(exchange, f"key.{number}", f"{number}".encode())
        publisher.tx_commit()
        home = {}
        for queue in queues:
            while True:
                method, _, body = channel.basic_get(queue, auto_ack=True)
                if not method:
                    break
                home[body] = queue
        equal(len(home), 400, "each message is in one queue")
        homes.append(home)
    before, after = homes
    equal(queues[1] in after.values(), False, "what is unbound gets nothing")
    if BROKER != "rabbitmq":
        moved = [key for key in before if before[key] != after[key]]
        equal({before[key] for key in moved}, {queues[1]}, "only its own messages moved")


@with_channel
def consistent_hash_by(made, channel):
    publisher = unconfirmed(made)
    asked = (
        ({"hash_header": "account"}, lambda value: {"headers": {"account": value}}),
        ({"hash_property": "message_id"}, lambda value: {"message_id": value}),
        ({"hash_property": "correlation_id"}, lambda value: {"correlation_id": value}),
        ({"hash_property": "timestamp"}, lambda value: {"timestamp": int(value)}),
    )
    for arguments, properties in asked:
        exchange, queues = hashing(channel, (1, 1), **arguments)
        for number in range(40):
            publisher.basic_publish(exchange, f"key.{number}", b"", pika.BasicProperties(**properties("77")))
        publisher.tx_commit()
        equal(sorted(ready(channel, queue) for queue in queues), [0, 40], f"{arguments}: the routing key does not count")
        for number in range(COUNT):
            publisher.basic_publish(exchange, "key", b"", pika.BasicProperties(**properties(str(number))))
        publisher.tx_commit()
        for queue, share in zip(queues, shares(channel, queues)):
            equal(0.4 < share < 0.6, True, f"{arguments}: {share}")
            channel.queue_purge(queue)
        # Those without it are alike.
        for number in range(20):
            publisher.basic_publish(exchange, f"key.{number}", b"")
        publisher.tx_commit()
        equal(sorted(ready(channel, queue) for queue in queues), [0, 20], f"{arguments}: messages without it")


def delaying(channel, kind="direct", **more):
    if BROKER == "rabbitmq":
        raise Skip("Debian's packages of RabbitMQ have no plugin for delayed messages")
    exchange = unique("delayed")
    arguments = {"x-delayed-type": kind} | more
    channel.exchange_declare(exchange, "x-delayed-message", auto_delete=True, arguments=arguments)
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, exchange, "k")
    return exchange, queue


def put_off(channel, exchange, body, ms, **more):
    channel.basic_publish(exchange, "k", body.encode(), pika.BasicProperties(headers={"x-delay": ms}), **more)


@with_channel
def delayed_messages(made, channel):
    exchange, queue = delaying(channel)
    start = time.monotonic()
    put_off(channel, exchange, "late", 3000)
    put_off(channel, exchange, "early", 1500, mandatory=True)
    put_off(channel, exchange, "past", -200)
    channel.basic_publish(exchange, "k", b"plain")
    equal(time.monotonic() - start < 1.5, True, "all are confirmed before the first is due")
    for body, delay, at_s in (("past", -200, 0), ("plain", None, 0), ("early", -1500, 1.5), ("late", -3000, 3)):
        method, properties, got = taken(channel, queue)
        equal((got, method.exchange, method.routing_key), (body, exchange, "k"))
        equal((properties.headers or {}).get("x-delay"), delay, body)
        equal(at_s <= time.monotonic() - start < at_s + 10, True, f"{body} after {time.monotonic() - start:.3f} s")


@with_channel
def delayed_and_changed(made, channel):
    exchange, queue = delaying(channel, "topic")
    other = channel.queue_declare("", exclusive=True).method.queue
    put_off(channel, exchange, "m", 1500)
    channel.queue_bind(other, exchange, "#")
    channel.queue_unbind(queue, exchange, "k")
    equal(taken(channel, other)[2], "m")
    equal(ready(channel, queue), 0, "what is bound when the time comes gets it")
    put_off(channel, exchange, "lost", 1000)
    channel.exchange_delete(exchange)
    start = time.monotonic()
    until(made, lambda: time.monotonic() > start + 1.2, "its time has passed")
    equal(ready(channel, other), 0, "nobody routes it")
    channel.exchange_declare(exchange, "x-delayed-message", auto_delete=True, arguments={"x-delayed-type": "fanout"})
    channel.queue_bind(other, exchange)
    channel.basic_publish(exchange, "", b"works on", mandatory=True)
    with refused(406, "PRECONDITION_FAILED - Invalid argument, 'x-delayed-type' must be an existing exchange type"):
        channel.exchange_declare(unique("none"), "x-delayed-message")


EXPECTATIONS = {
    "consistent-hash": consistent_hash,
    "consistent-hash-moves-little": consistent_hash_moves_little,
    "consistent-hash-by": consistent_hash_by,
    "delayed-messages": delayed_messages,
    "delayed-and-changed": delayed_and_changed,
}
