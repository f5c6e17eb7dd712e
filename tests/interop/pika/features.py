"""pika's expectations of queues that do more than queue: times, limits, dead letters, priorities, one active consumer.

Enters: connections of scene.py.  Leaves: EXPECTATIONS, by name.
Owns:   queues and exchanges of its own names, deleted in the end.
Never:  sleeps: what must come late is waited for, and what must be gone is looked at until it is.
"""

import functools
import time

import pika
from pika import exceptions

from scene import BROKER, DEADLINE_S, collector, ready, refused, texts, unique, until  # first: it says where report.py is
import scene
from report import equal


def with_channel(body):
    """As scene's, on a channel that confirms: what was put is there."""

    @functools.wraps(body)
    def confirmed(made, channel):
        channel.confirm_delivery()
        body(made, channel)

    return scene.with_channel(confirmed)


def queue_with(channel, **arguments):
    arguments = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    return channel.queue_declare("", exclusive=True, arguments=arguments).method.queue


def dead_lettering(channel, **arguments):
    """A queue, and the one that takes its dead letters."""
    dead = channel.queue_declare("", exclusive=True).method.queue
    return queue_with(channel, dead_letter_exchange="", dead_letter_routing_key=dead, **arguments), dead


def taken(channel, queue, auto_ack=True):
    """The next message of a queue, as soon as there is one."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        method, properties, body = channel.basic_get(queue, auto_ack=auto_ack)
        if method:
            return method, properties, body.decode()
    raise AssertionError(f"nothing came to {queue}")


def emptied(made, channel, queue):
    until(made, lambda: ready(channel, queue) == 0, f"{queue} is empty")


def put(channel, queue, *bodies, **properties):
    for body in bodies:
        channel.basic_publish("", queue, body.encode(), pika.BasicProperties(**properties))


@with_channel
def message_ttl(made, channel):
    queue = queue_with(channel, message_ttl=200)
    start = time.monotonic()
    put(channel, queue, "a", "b")
    emptied(made, channel, queue)
    equal(0.19 < time.monotonic() - start < 10, True, "after its time, and not long after")
    plain = channel.queue_declare("", exclusive=True).method.queue
    put(channel, plain, "stays", expiration="60000")
    put(channel, plain, "stands behind", expiration="1")
    put(channel, queue, "c", expiration="60000")
    emptied(made, channel, queue)
    equal(ready(channel, plain), 2, "only the head expires")
    equal(taken(channel, plain)[2], "stays")
    emptied(made, channel, plain)


@with_channel
def ttl_zero(made, channel):
    queue, dead = dead_lettering(channel)
    put(channel, queue, "nobody takes it", expiration="0")
    equal(taken(channel, dead)[2], "nobody takes it")
    got, _ = collector(channel, queue, auto_ack=True)
    put(channel, queue, "somebody does", expiration="0")
    until(made, lambda: got, "a delivery")
    equal(texts(got), ["somebody does"])


@with_channel
def queue_expires(made, channel):
    name = unique("expires")
    channel.queue_declare(name, arguments={"x-expires": 1000})
    tag = channel.basic_consume(name, lambda *_: None)
    start = time.monotonic()
    until(made, lambda: time.monotonic() > start + 1.4, "more than its time has passed")
    equal(channel.queue_declare(name, passive=True).method.consumer_count, 1, "a consumer is use")
    channel.basic_cancel(tag)

    def gone():
        with_other = made.channel()
        try:
            with_other.queue_declare(name, passive=True)
            return False
        except exceptions.ChannelClosedByBroker as closed:
            equal((closed.reply_code, closed.reply_text), (404, f"NOT_FOUND - no queue '{name}' in vhost '/'"))
            return True

    start = time.monotonic()
    for _ in range(3):
        until(made, lambda: time.monotonic() > start + 0.45, "much of its time has passed")
        equal(gone(), False, "a look is use")
        start = time.monotonic()
    until(made, lambda: time.monotonic() > start + 1.6, "its time has passed")
    equal(gone(), True)


@with_channel
def max_length(made, channel):
    queue, dead = dead_lettering(channel, max_length=2)
    put(channel, queue, "a", "b", "c")
    equal([taken(channel, queue)[2] for _ in range(2)], ["b", "c"])
    _, properties, body = taken(channel, dead)
    equal((body, properties.headers["x-death"][0]["reason"]), ("a", "maxlen"))
    bytes_ = queue_with(channel, max_length_bytes=10)
    put(channel, bytes_, "12345", "12345", "x")
    equal(ready(channel, bytes_), 2)
    put(channel, bytes_, "more than may wait")
    equal(ready(channel, bytes_), 0)


@with_channel
def overflow(made, channel):
    for how in ("reject-publish", "reject-publish-dlx"):
        queue, dead = dead_lettering(channel, max_length=2, overflow=how)
        confirmed = made.channel()
        confirmed.confirm_delivery()
        for number in range(4):
            try:
                confirmed.basic_publish("", queue, str(number).encode())
                equal(number < 2, True, f"{number} is refused")
            except exceptions.NackError:
                equal(number >= 2, True, f"{number} is taken")
        equal([taken(channel, queue)[2] for _ in range(2)], ["0", "1"])
        if how == "reject-publish-dlx":
            equal([taken(channel, dead)[2] for _ in range(2)], ["2", "3"])
        equal(ready(channel, dead), 0)
    full = queue_with(channel, max_length=0, overflow="reject-publish")
    transaction = made.channel()
    transaction.tx_select()
    transaction.basic_publish("", full, b"x")
    with refused(406, "PRECONDITION_FAILED - partial tx completion"):
        transaction.tx_commit()


def death(properties, **more):
    """The first death in a message's headers, without its time."""
    event = dict(properties.headers["x-death"][0])
    equal(event.pop("time") is not None, True, "a time")
    event["count"] = int(event["count"])
    return event


@with_channel
def dead_letter(made, channel):
    queue, dead = dead_lettering(channel)
    sent = pika.BasicProperties(
        headers={"mine": 1}, expiration="60000", priority=3, message_id="m", correlation_id="c", delivery_mode=2
    )
    for round_ in (1, 2):
        channel.basic_publish("", queue, b"unwanted", sent)
        tag = channel.basic_get(queue)[0].delivery_tag
        if round_ == 1:
            channel.basic_reject(tag, requeue=False)
        else:
            channel.basic_nack(tag, requeue=False)
        method, properties, body = taken(channel, dead)
        equal((method.exchange, method.routing_key, method.redelivered, body), ("", dead, False, "unwanted"))
        equal(
            death(properties),
            {
                "count": round_,
                "reason": "rejected",
                "queue": queue,
                "exchange": "",
                "routing-keys": [queue],
                "original-expiration": "60000",
            },
        )
        headers = properties.headers
        for name, value in (("queue", queue), ("reason", "rejected"), ("exchange", "")):
            equal(headers[f"x-first-death-{name}"], value)
            if BROKER != "rabbitmq":  # RabbitMQ has these since 3.13.
                equal(headers[f"x-last-death-{name}"], value)
        equal(headers["mine"], 1)
        equal(properties.expiration, None, "it would end the letter again")
        equal((properties.priority, properties.message_id, properties.correlation_id), (3, "m", "c"))
        sent.headers = headers


@with_channel
def dead_letter_exchange(made, channel):
    exchange = unique("dead")
    channel.exchange_declare(exchange, "topic", auto_delete=True)
    dead = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(dead, exchange, "#")
    queue = queue_with(channel, dead_letter_exchange=exchange, message_ttl=50)
    channel.queue_bind(queue, "amq.direct", queue)
    channel.basic_publish("amq.direct", queue, b"late")
    method, properties, body = taken(channel, dead)
    equal((method.exchange, method.routing_key, body), (exchange, queue, "late"))
    event = death(properties)
    equal((event["reason"], event["exchange"], event["routing-keys"]), ("expired", "amq.direct", [queue]))
    # One whose exchange is not there loses its dead letters.
    lost = queue_with(channel, dead_letter_exchange=unique("nowhere"), message_ttl=1)
    put(channel, lost, "x")
    emptied(made, channel, lost)


@with_channel
def dead_letter_cycle(made, channel):
    names = [unique("round") for _ in range(2)]
    for name, other in zip(names, reversed(names)):
        channel.queue_declare(
            name,
            exclusive=True,
            arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": other, "x-message-ttl": 20},
        )
    put(channel, names[0], "a")
    until(made, lambda: ready(channel, names[0]) + ready(channel, names[1]) == 0, "it went round once and is dropped")
    # With a rejection in between it goes round as often as it is rejected.
    work = unique("work")
    wait = queue_with(channel, dead_letter_exchange="", dead_letter_routing_key=work, message_ttl=20)
    channel.queue_declare(
        work, exclusive=True, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": wait}
    )
    put(channel, work, "b")
    for round_ in range(3):
        got = {}

        def comes():
            got["method"], got["properties"], _ = channel.basic_get(work)
            return got["method"]

        until(made, comes, f"round {round_}")
        if round_:
            counts = {event["queue"]: int(event["count"]) for event in got["properties"].headers["x-death"]}
            equal(counts, {work: round_, wait: round_})
        channel.basic_reject(got["method"].delivery_tag, requeue=False)


@with_channel
def priorities(made, channel):
    queue = queue_with(channel, max_priority=5)
    for body, priority in (("a", None), ("b", 3), ("c", 9), ("d", 5), ("e", 0), ("f", 3)):
        put(channel, queue, body, priority=priority)
    until(made, lambda: ready(channel, queue) == 6, "all wait")
    channel.basic_qos(prefetch_count=2)
    got, _ = collector(channel, queue)
    until(made, lambda: len(got) == 2, "two deliveries")
    channel.basic_nack(got[1][0], multiple=True, requeue=True)
    until(made, lambda: len(got) == 4, "they come again")
    for tag in range(3, 7):
        until(made, lambda: len(got) >= tag, f"delivery {tag}")
        channel.basic_ack(tag)
    until(made, lambda: len(got) == 8, "the rest")
    equal(texts(got), ["c", "d", "c", "d", "b", "f", "a", "e"])


@with_channel
def single_active_consumer(made, channel):
    queue = queue_with(channel, single_active_consumer=True)
    first, first_tag = collector(channel, queue, auto_ack=True)
    other = made.channel()
    second, _ = collector(other, queue, auto_ack=True)
    third, _ = collector(channel, queue, auto_ack=True)
    put(channel, queue, "a", "b")
    until(made, lambda: len(first) == 2, "the first has all")
    channel.basic_cancel(first_tag)
    put(channel, queue, "c")
    until(made, lambda: len(second) == 1, "the second follows")
    other.close()
    put(channel, queue, "d")
    until(made, lambda: len(third) == 1, "the third follows")
    equal((texts(first), texts(second), texts(third)), (["a", "b"], ["c"], ["d"]))
    with refused(403, f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"):
        channel.basic_consume(queue, lambda *_: None, exclusive=True)


@with_channel
def cc_and_bcc(made, channel):
    queues = [channel.queue_declare("", exclusive=True).method.queue for _ in range(4)]
    first, copy, blind, last = queues
    put(channel, first, "x", headers={"CC": [copy, first], "BCC": [blind, "nowhere"], "mine": 1})
    for queue in (first, copy, blind):
        method, properties, _ = taken(channel, queue)
        equal((method.routing_key, properties.headers), (first, {"CC": [copy, first], "mine": 1}))
    # The keys of a topic exchange are patterns' matches, each queue once.
    exchange = unique("copies")
    channel.exchange_declare(exchange, "topic", auto_delete=True)
    for queue, pattern in ((first, "a.*"), (copy, "*.b"), (last, "#.c")):
        channel.queue_bind(queue, exchange, pattern)
    channel.basic_publish(exchange, "a.b", b"y", pika.BasicProperties(headers={"CC": ["a.x"], "BCC": ["c"]}))
    equal([ready(channel, queue) for queue in queues], [1, 1, 0, 1])
    # A dead letter without a key of its own goes by all of its keys.
    source = queue_with(channel, dead_letter_exchange=exchange, max_length=0)
    put(channel, source, "z", headers={"CC": ["a.1"], "BCC": ["x.c"]})
    equal([taken(channel, first)[2] for _ in range(2)], ["y", "z"])
    equal([taken(channel, last)[2] for _ in range(2)], ["y", "z"])
    # Again, from one that died before, and after a rejection; but a key of the queue's own takes the place of all.
    between = unique("between")
    channel.exchange_declare(between, "direct", auto_delete=True)
    source = queue_with(channel, dead_letter_exchange=between)
    twice = queue_with(channel, dead_letter_exchange=exchange, message_ttl=10)
    own = queue_with(channel, dead_letter_exchange=exchange, dead_letter_routing_key="own.b", message_ttl=10)
    channel.queue_bind(twice, between, "p.c")
    channel.queue_bind(own, between, "p.c")
    put(channel, source, "w", headers={"CC": ["a.2"], "BCC": ["p.c"]})
    channel.basic_reject(channel.basic_get(source)[0].delivery_tag, requeue=False)
    for queue in (first, last):
        method, properties, body = taken(channel, queue)
        equal((method.routing_key, body, "BCC" in properties.headers), (source, "w", False))
        equal([event["routing-keys"] for event in properties.headers["x-death"]], [[source, "a.2"]] * 2)
    equal([taken(channel, copy)[2] for _ in range(2)], ["y", "w"])
    equal([ready(channel, queue) for queue in (first, copy, last)], [0, 0, 0])
    for header, kind in (("CC", "longstr"), ("BCC", "signedint")):
        text = f'PRECONDITION_FAILED - invalid message: {{unacceptable_type_in_header,"{header}",{kind}}}'
        with refused(406, text):
            channel = made.channel()
            channel.confirm_delivery()
            put(channel, first, "x", headers={header: "text" if kind == "longstr" else 5})


@with_channel
def quorum_queue(made, channel):
    last = channel.queue_declare("", exclusive=True).method.queue
    queue = unique("quorum")
    arguments = {
        "x-queue-type": "quorum",
        "x-quorum-initial-group-size": 1,
        "x-delivery-limit": 2,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": last,
    }
    try:
        for _ in range(2):
            channel.queue_declare(queue, durable=True, arguments=arguments)
        put(channel, queue, "a")
        for round_ in range(3):
            method, properties, body = taken(channel, queue, auto_ack=False)
            # RabbitMQ writes a count of zero, too.
            count = int((properties.headers or {}).get("x-delivery-count", 0))
            equal((body, method.redelivered, count), ("a", round_ > 0, round_))
            channel.basic_reject(method.delivery_tag, requeue=True)
        _, properties, body = taken(channel, last)
        equal((body, properties.headers["x-death"][0]["reason"]), ("a", "delivery_limit"))
        equal(ready(channel, queue), 0)
    finally:
        channel.queue_delete(queue)


@with_channel
def shared_prefetch_without_acks(made, channel):
    kept, taken_at_once = (channel.queue_declare("", exclusive=True).method.queue for _ in range(2))
    channel.basic_qos(prefetch_count=1, global_qos=True)
    first, _ = collector(channel, kept)
    second, _ = collector(channel, taken_at_once, auto_ack=True)
    put(channel, taken_at_once, "a")
    until(made, lambda: texts(second) == ["a"], "nothing is unsettled")
    put(channel, kept, "b")
    until(made, lambda: texts(first) == ["b"], "nor was it behind that")
    put(channel, taken_at_once, "c")
    equal((ready(channel, taken_at_once), texts(second)), (1, ["a"]))
    channel.basic_ack(first[0][0])
    until(made, lambda: texts(second) == ["a", "c"], "the other consumer has settled")


@with_channel
def delete_with_consumers(made, channel):
    # A client without a callback for cancellations expects nothing but the reply.
    queue = channel.queue_declare("").method.queue
    tags = [channel.basic_consume(queue, lambda *_: None) for _ in range(3)]
    cancelled = []
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    channel.queue_delete(queue)
    until(made, lambda: len(cancelled) == 3, "the consumers are cancelled")
    equal(sorted(cancelled), sorted(tags))


EXPECTATIONS = {
    "quorum-queue": quorum_queue,
    "shared-prefetch-without-acks": shared_prefetch_without_acks,
    "delete-with-consumers": delete_with_consumers,
    "cc-and-bcc": cc_and_bcc,
    "message-ttl": message_ttl,
    "ttl-zero": ttl_zero,
    "queue-expires": queue_expires,
    "max-length": max_length,
    "overflow": overflow,
    "dead-letter": dead_letter,
    "dead-letter-exchange": dead_letter_exchange,
    "dead-letter-cycle": dead_letter_cycle,
    "priorities": priorities,
    "single-active-consumer": single_active_consumer,
}
