"""pika's run of the expectations, and of errors.toml as far as pika can say it.

Enters: AMQP_URL, AMQP_BROKER.  Leaves: a line for each expectation (see report.py).
Owns:   its connections; queues and exchanges of its own names, deleted in the end.
Never:  sleeps: every wait is for a condition, with a deadline.
"""

import functools
import inspect
import os
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "raw"))

import pika
from pika import exceptions, spec

import cases
from report import Report, equal

URL = os.environ["AMQP_URL"]
BROKER = os.environ.get("AMQP_BROKER", "other")
DEADLINE_S = 15
report = Report()
serial = iter(range(1 << 30))


def unique(word):
    return f"pika-{word}-{os.getpid()}-{next(serial)}"


@contextmanager
def connection(heartbeat=0, **parameters):
    settings = pika.URLParameters(URL)
    settings.heartbeat = heartbeat
    settings.blocked_connection_timeout = DEADLINE_S
    for name, value in parameters.items():
        setattr(settings, name, value)
    made = pika.BlockingConnection(settings)
    try:
        yield made
    finally:
        if made.is_open:
            made.close()


def until(made, condition, what):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {DEADLINE_S} s: {what}")
        made.process_data_events(time_limit=0.05)


@contextmanager
def refused(code, text, error=exceptions.ChannelClosedByBroker):
    try:
        yield
    except error as closed:
        equal((closed.reply_code, closed.reply_text), (code, text))
        return
    raise AssertionError(f"expected {code} {text}")


def with_channel(body):
    """Runs an expectation on a connection and channel of its own."""

    @functools.wraps(body)
    def run():
        with connection() as made:
            body(made, made.channel())

    return run


def filled(channel, count, **arguments):
    """A new queue holding messages "0", "1", …, all confirmed."""
    queue = channel.queue_declare("", exclusive=True, **arguments).method.queue
    with connection() as other:
        publisher = other.channel()
        publisher.confirm_delivery()
        for number in range(count):
            publisher.basic_publish("", queue, str(number).encode(), mandatory=True)
    return queue


def ready(channel, queue):
    return channel.queue_declare(queue, passive=True).method.message_count


def collector(channel, queue, **arguments):
    """Consumes into a list of (delivery tag, redelivered, text)."""
    got = []
    tag = channel.basic_consume(queue, lambda _c, m, _p, body: got.append((m.delivery_tag, m.redelivered, body.decode())), **arguments)
    return got, tag


def texts(got):
    return [item[2] for item in got]


def connect():
    with connection() as made:
        properties = made._impl.server_properties
        capabilities = properties["capabilities"]
        for name in ("publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify", "connection.blocked", "consumer_priorities", "authentication_failure_close", "per_consumer_qos", "direct_reply_to"):
            equal(capabilities.get(name), True, f"capability {name}")
        for name in ("product", "version", "platform"):
            equal(isinstance(properties.get(name), (str, bytes)), True, f"property {name}")
        equal(made.basic_nack_supported and made.consumer_cancel_notify_supported and made.exchange_exchange_bindings_supported and made.publisher_confirms_supported, True)


@with_channel
def exchanges(_made, channel):
    for kind in ("direct", "fanout", "topic", "headers"):
        name = unique(kind)
        for _ in range(2):
            channel.exchange_declare(name, kind, durable=True)
        channel.exchange_declare(name, passive=True)
        channel.exchange_declare(f"amq.{kind}", kind, durable=True)
        channel.exchange_declare(f"amq.{kind}", passive=True)
        channel.exchange_delete(name)
        channel.exchange_delete(name)
    channel.exchange_declare("amq.match", "headers", durable=True)
    with refused(404, f"NOT_FOUND - no exchange '{name}' in vhost '/'"):
        channel.exchange_declare(name, passive=True)


@with_channel
def queues(_made, channel):
    made_name = channel.queue_declare("", exclusive=True).method.queue
    equal(made_name.startswith("amq.gen-"), True, made_name)
    name = unique("queue")
    answer = channel.queue_declare(name, durable=True).method
    equal((answer.queue, answer.message_count, answer.consumer_count), (name, 0, 0))
    channel.confirm_delivery()
    for _ in range(3):
        channel.basic_publish("", name, b"x", mandatory=True)
    channel.basic_consume(made_name, lambda *_: None)
    equal(ready(channel, name), 3)
    equal(channel.queue_declare(made_name, passive=True).method.consumer_count, 1)
    equal(channel.queue_purge(name).method.message_count, 3)
    channel.basic_publish("", name, b"x")
    equal(channel.queue_delete(name).method.message_count, 1)
    equal(channel.queue_delete(name).method.message_count, 0)
    # An empty name means the queue this channel declared last.
    last = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind("", "amq.direct", routing_key="")
    channel.basic_publish("amq.direct", last, b"by its own name", mandatory=True)
    equal(channel.basic_get("", auto_ack=True)[2], b"by its own name")


def exclusive_queue():
    name = unique("exclusive")
    text = f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{name}' in vhost '/'. It could be originally declared on another connection or the exclusive property value does not match that of the original declaration."
    with connection() as other:
        with connection() as made:
            made.channel().queue_declare(name, exclusive=True)
            with refused(405, text):
                other.channel().queue_declare(name, passive=True)
            with refused(405, text):
                other.channel().basic_get(name)
        until(other, lambda: gone(other, name), "the exclusive queue goes with its connection")


def gone(made, queue):
    try:
        made.channel().queue_declare(queue, passive=True)
    except exceptions.ChannelClosedByBroker as closed:
        # 405: it is still there, locked.
        return closed.reply_code == 404
    return False


@with_channel
def auto_delete(made, channel):
    queue = unique("auto")
    channel.queue_declare(queue, auto_delete=True)
    equal(ready(channel, queue), 0)
    tag = channel.basic_consume(queue, lambda *_: None)
    second = channel.basic_consume(queue, lambda *_: None)
    channel.basic_cancel(tag)
    equal(gone(made, queue), False)
    channel.basic_cancel(second)
    until(made, lambda: gone(made, queue), "the auto-delete queue goes with its last consumer")
    exchange = unique("auto")
    channel.exchange_declare(exchange, "fanout", auto_delete=True)
    bound = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(bound, exchange)
    channel.queue_unbind(bound, exchange)
    with refused(404, f"NOT_FOUND - no exchange '{exchange}' in vhost '/'"):
        channel.exchange_declare(exchange, passive=True)


@with_channel
def refusals(made, channel):
    name = unique("refused")
    with refused(404, f"NOT_FOUND - no queue '{name}' in vhost '/'"):
        channel.queue_declare(name, passive=True)
    channel = made.channel()
    channel.queue_declare(name, auto_delete=True)
    with refused(406, f"PRECONDITION_FAILED - inequivalent arg 'durable' for queue '{name}' in vhost '/': received 'true' but current is 'false'"):
        channel.queue_declare(name, durable=True, auto_delete=True)
    with refused(403, f"ACCESS_REFUSED - exchange name 'amq.{name}' contains reserved prefix 'amq.*'"):
        made.channel().exchange_declare(f"amq.{name}")
    # Asynchronous: it comes some time after the publish.
    channel = made.channel()
    channel.basic_publish(name, "a", b"x")
    with refused(404, f"NOT_FOUND - no exchange '{name}' in vhost '/'"):
        channel.queue_declare("", exclusive=True)
    equal(made.is_open, True, "the connection goes on")
    channel = made.channel(7)
    equal(channel.channel_number, 7)
    channel.queue_delete(name)


def connection_refusal():
    with connection() as made:
        channel = made.channel()
        with refused(503, "COMMAND_INVALID - unknown exchange type 'nonsense'", exceptions.ConnectionClosedByBroker):
            channel.exchange_declare(unique("x"), "nonsense")


@with_channel
def bind_unbind(_made, channel):
    channel.confirm_delivery()
    queue = channel.queue_declare("", exclusive=True).method.queue
    exchange = unique("direct")
    channel.exchange_declare(exchange, "direct", auto_delete=True)
    for key in ("a", "a", "b"):
        channel.queue_bind(queue, exchange, key)
    channel.queue_bind(queue, exchange, "a", arguments={"other": 1})
    for key in ("a", "b"):
        channel.basic_publish(exchange, key, b"x", mandatory=True)
    equal(ready(channel, queue), 2, "one copy each")
    channel.queue_unbind(queue, exchange, "b")
    try:
        channel.basic_publish(exchange, "b", b"x", mandatory=True)
        raise AssertionError("routed after unbind")
    except exceptions.UnroutableError:
        pass
    # The other binding of the same key, with arguments, is a binding of its own.
    channel.queue_unbind(queue, exchange, "a")
    channel.basic_publish(exchange, "a", b"x", mandatory=True)
    equal(ready(channel, queue), 3)


@with_channel
def bind_exchange(_made, channel):
    channel.confirm_delivery()
    queue = channel.queue_declare("", exclusive=True).method.queue
    first, second = unique("first"), unique("second")
    channel.exchange_declare(first, "fanout")
    channel.exchange_declare(second, "fanout")
    channel.exchange_bind(second, first, "k")
    channel.exchange_bind(first, second, "k")  # a cycle
    channel.queue_bind(queue, first)
    channel.queue_bind(queue, second)
    channel.basic_publish(first, "k", b"x", mandatory=True)
    equal(ready(channel, queue), 1, "one copy")
    channel.queue_unbind(queue, first)
    channel.exchange_unbind(second, first, "k")
    try:
        channel.basic_publish(first, "k", b"x", mandatory=True)
        raise AssertionError("routed after unbind")
    except exceptions.UnroutableError:
        pass
    channel.exchange_delete(first)
    channel.exchange_delete(second)


def routed(channel, exchange, key, headers=None):
    try:
        channel.basic_publish(exchange, key, b"x", pika.BasicProperties(headers=headers), mandatory=True)
    except exceptions.UnroutableError:
        return False
    return True


@with_channel
def topic(_made, channel):
    channel.confirm_delivery()
    for pattern, yes, no in (
        ("a.*.c", ("a.b.c", "a..c"), ("a.c", "a.b.b.c", "a.b.c.d", "")),
        ("a.#", ("a", "a.b", "a.b.c"), ("b", "", "ab")),
        ("#", ("", "a", "a.b"), ()),
        ("#.z", ("z", "a.z", "a.b.z"), ("z.a", "")),
        ("a.#.*.z", ("a.b.z", "a.b.c.z"), ("a.z", "a.b")),
        ("*.*", ("a.b",), ("a", "a.b.c")),
        ("#.b.#", ("b", "a.b", "b.c", "a.b.b.c"), ("a", "a.c")),
        ("", ("",), ("a",)),
    ):
        exchange = unique("topic")
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.exchange_declare(exchange, "topic", auto_delete=True)
        channel.queue_bind(queue, exchange, pattern)
        for key in yes:
            equal(routed(channel, exchange, key), True, f"{pattern} <- {key}")
        for key in no:
            equal(routed(channel, exchange, key), False, f"{pattern} <- {key}")
        channel.queue_delete(queue)


@with_channel
def headers(_made, channel):
    channel.confirm_delivery()
    for arguments, yes, no in (
        ({"x-match": "all", "a": 1, "b": "two"}, ({"a": 1, "b": "two"}, {"a": 1, "b": "two", "c": 3}), ({"a": 1}, {"a": 2, "b": "two"}, {}, None)),
        ({"x-match": "any", "a": 1, "b": "two"}, ({"a": 1}, {"b": "two", "a": 7}), ({"a": 2}, {"c": 1}, {}, None)),
        ({"a": 1, "b": "two"}, ({"a": 1, "b": "two"},), ({"a": 1},)),
        ({"x-match": "all", "x-a": 1, "b": "two"}, ({"b": "two"},), ({"x-a": 1},)),
        ({"x-match": "all-with-x", "x-a": 1}, ({"x-a": 1},), ({"b": 1},)),
        ({"x-match": "any-with-x", "x-a": 1, "b": 2}, ({"x-a": 1}, {"b": 2}), ({"c": 1},)),
        ({"x-match": "all"}, ({}, None, {"a": 1}), ()),
        ({"x-match": "all", "a": None}, ({"a": 5}, {"a": "text"}), ({"b": 1},)),
    ):
        exchange = unique("headers")
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.exchange_declare(exchange, "headers", auto_delete=True)
        channel.queue_bind(queue, exchange, "", arguments=arguments)
        for table in yes:
            equal(routed(channel, exchange, "", table), True, f"{arguments} <- {table}")
        for table in no:
            equal(routed(channel, exchange, "", table), False, f"{arguments} <- {table}")
        channel.queue_delete(queue)


@with_channel
def alternate_exchange(_made, channel):
    channel.confirm_delivery()
    alternate, main = unique("alternate"), unique("main")
    channel.exchange_declare(alternate, "fanout")
    channel.exchange_declare(main, "direct", arguments={"alternate-exchange": alternate})
    wanted, other = (channel.queue_declare("", exclusive=True).method.queue for _ in range(2))
    channel.queue_bind(wanted, main, "wanted")
    channel.queue_bind(other, alternate)
    equal(routed(channel, main, "wanted"), True)
    equal(routed(channel, main, "unwanted"), True)
    equal((ready(channel, wanted), ready(channel, other)), (1, 1))
    channel.queue_unbind(other, alternate)
    equal(routed(channel, main, "unwanted"), False)
    channel.exchange_delete(alternate)
    equal(routed(channel, main, "unwanted"), False, "an alternate that is missing")
    channel.exchange_delete(main)


@with_channel
def publish_consume(made, channel):
    queue = channel.queue_declare("", exclusive=True).method.queue
    sent = pika.BasicProperties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers={"text": "ü", "int": 5, "big": 1 << 40, "bool": True, "none": None, "list": [1, "two"], "table": {"a": {"b": 1}}, "bytes": b"\x00\xff"},
        delivery_mode=2,
        priority=7,
        correlation_id="c",
        reply_to="r",
        expiration="60000",
        message_id="m",
        timestamp=1_700_000_000,
        type="t",
        user_id=pika.URLParameters(URL).credentials.username,
        app_id="a",
        cluster_id="x",
    )
    got = []
    tag = channel.basic_consume(queue, lambda _c, m, p, body: got.append((m, p, body)), auto_ack=True)
    for number in range(1000):
        channel.basic_publish("", queue, str(number).encode(), sent if number == 0 else None)
    until(made, lambda: len(got) >= 1000, "1,000 deliveries")
    equal([int(body) for _, _, body in got], list(range(1000)))
    method, properties, _ = got[0]
    equal((method.exchange, method.routing_key, method.consumer_tag, method.redelivered, method.delivery_tag), ("", queue, tag, False, 1))
    equal(vars(properties), vars(sent))
    equal(vars(got[1][1]), vars(pika.BasicProperties()))
    equal(ready(channel, queue), 0)


@with_channel
def confirm(made, channel):
    channel.confirm_delivery()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.basic_publish("", queue, b"routed")
    channel.basic_publish("", unique("nowhere"), b"unroutable")
    # A window of publishes, each confirmed once: tags counted below pika's one-at-a-time layer.
    acks = []
    plain = made.channel()
    plain._impl.confirm_delivery(lambda frame: acks.append(frame.method), callback=lambda _: None)
    for number in range(500):
        plain._impl.basic_publish("", queue, str(number).encode())
    settled = set()

    def count():
        for ack in acks:
            assert isinstance(ack, spec.Basic.Ack), ack
            settled.update(range(1, ack.delivery_tag + 1) if ack.multiple else (ack.delivery_tag,))
        acks.clear()
        return len(settled) >= 500

    until(made, count, "500 confirms")
    equal(settled, set(range(1, 501)))
    equal(ready(channel, queue), 501)


@with_channel
def returned(made, channel):
    key = unique("nowhere")
    events = []
    channel.add_on_return_callback(lambda _c, method, properties, body: events.append((method.reply_code, method.reply_text, method.exchange, method.routing_key, properties.type, body)))
    channel.basic_publish("amq.direct", key, b"come back", pika.BasicProperties(type="t"), mandatory=True)
    until(made, lambda: events, "the return")
    equal(events, [(312, "NO_ROUTE", "amq.direct", key, "t", b"come back")])
    # Return comes before its confirm.
    order = []
    plain = made.channel()
    plain._impl.add_on_return_callback(lambda *_: order.append("return"))
    plain._impl.confirm_delivery(lambda frame: order.append("confirm"), callback=lambda _: None)
    plain._impl.basic_publish("amq.direct", key, b"x", mandatory=True)
    until(made, lambda: len(order) == 2, "return and confirm")
    equal(order, ["return", "confirm"])


def immediate():
    with connection() as made:
        channel = made.channel()
        with refused(540, "NOT_IMPLEMENTED - immediate=true", exceptions.ConnectionClosedByBroker):
            channel._impl._send_method(spec.Basic.Publish(routing_key="x", immediate=True), (pika.BasicProperties(), b"x"))
            channel.queue_declare("", exclusive=True)


@with_channel
def ack_multiple(made, channel):
    queue = filled(channel, 10)
    got, _ = collector(channel, queue)
    until(made, lambda: len(got) == 10, "10 deliveries")
    channel.basic_ack(got[3][0], multiple=True)
    channel.basic_ack(got[6][0])
    channel.basic_recover(requeue=True)
    until(made, lambda: len(got) == 15, "5 redeliveries")
    equal(texts(got[10:]), ["4", "5", "7", "8", "9"])
    channel.basic_ack(0, multiple=True)
    channel.close()
    equal(ready(made.channel(), queue), 0)


@with_channel
def nack_requeue(made, channel):
    queue = filled(channel, 5)
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(4)]
    channel.basic_nack(tags[2])
    channel.basic_nack(tags[0])
    got = [channel.basic_get(queue) for _ in range(2)]
    equal([(body.decode(), method.redelivered) for method, _, body in got], [("0", True), ("2", True)])
    channel.basic_nack(0, multiple=True)
    got, _ = collector(channel, queue)
    until(made, lambda: len(got) == 5, "5 deliveries")
    equal([item[1:] for item in got], [(True, "0"), (True, "1"), (True, "2"), (True, "3"), (False, "4")])
    channel.basic_nack(got[1][0], multiple=True, requeue=False)
    channel.basic_nack(got[4][0], requeue=False)
    channel.close()
    channel = made.channel()
    got, _ = collector(channel, queue)
    until(made, lambda: len(got) == 2, "2 deliveries")
    equal(texts(got), ["2", "3"])


@with_channel
def reject(_made, channel):
    queue = filled(channel, 3)
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(2)]
    channel.basic_reject(tags[0], requeue=True)
    channel.basic_reject(tags[1], requeue=False)
    got = [channel.basic_get(queue) for _ in range(3)]
    equal([(body.decode(), method.redelivered) for method, _, body in got[:2]], [("0", True), ("2", False)])
    equal(got[2][0], None)


@with_channel
def recover(made, channel):
    queue = filled(channel, 4)
    got, _ = collector(channel, queue)
    until(made, lambda: len(got) == 4, "4 deliveries")
    channel.basic_ack(got[1][0])
    channel.basic_recover(requeue=True)
    until(made, lambda: len(got) == 7, "3 redeliveries")
    equal([item[1:] for item in got[4:]], [(True, "0"), (True, "2"), (True, "3")])
    # The old tags are void.
    channel.basic_ack(got[0][0])
    with refused(406, f"PRECONDITION_FAILED - unknown delivery tag {got[0][0]}"):
        channel.queue_declare(queue, passive=True)


@with_channel
def close_requeues(made, channel):
    queue = filled(channel, 3)
    other = made.channel()
    got, _ = collector(other, queue)
    until(made, lambda: len(got) == 3, "3 deliveries")
    other.close()
    got, _ = collector(channel, queue, auto_ack=True)
    until(made, lambda: len(got) == 3, "3 redeliveries")
    equal([item[1:] for item in got], [(True, "0"), (True, "1"), (True, "2")])


@with_channel
def qos_consumer(made, channel):
    queue = filled(channel, 9)
    channel.basic_qos(prefetch_count=2)
    first, _ = collector(channel, queue)
    until(made, lambda: len(first) == 2, "2 deliveries")
    channel.basic_qos(prefetch_count=3)
    second, _ = collector(channel, queue)
    until(made, lambda: len(second) == 3, "3 more to the second consumer")
    equal(ready(channel, queue), 4)
    channel.basic_ack(first[0][0])
    until(made, lambda: len(first) == 3, "one more for an ack")
    equal((ready(channel, queue), len(second)), (3, 3))
    channel.basic_ack(first[2][0], multiple=True)
    until(made, lambda: len(first) + len(second) == 9, "the rest for acks")


@with_channel
def qos_global(made, channel):
    queue = filled(channel, 9)
    channel.basic_qos(prefetch_count=3, global_qos=True)
    first, _ = collector(channel, queue)
    second, _ = collector(channel, queue)
    until(made, lambda: len(first) + len(second) == 3, "3 deliveries to both")
    equal((ready(channel, queue), len(first) + len(second)), (6, 3))
    channel.basic_ack((first + second)[0][0])
    until(made, lambda: len(first) + len(second) == 4, "one more for an ack")
    equal((ready(channel, queue), len(first) + len(second)), (5, 4))
    channel.basic_qos(prefetch_count=0, global_qos=True)
    until(made, lambda: len(first) + len(second) == 9, "all without a limit")


@with_channel
def get(_made, channel):
    queue = filled(channel, 2)
    method, properties, body = channel.basic_get(queue)
    equal((body, method.message_count, method.redelivered, method.exchange, method.routing_key, method.delivery_tag), (b"0", 1, False, "", queue, 1))
    method, _, body = channel.basic_get(queue, auto_ack=True)
    equal((body, method.message_count), (b"1", 0))
    equal(channel.basic_get(queue), (None, None, None))
    channel.close()


@with_channel
def tx(made, channel):
    queue = filled(channel, 2)
    channel.tx_select()
    channel.basic_publish("", queue, b"rolled back")
    channel.tx_rollback()
    equal(ready(channel, queue), 2)
    channel.basic_publish("", queue, b"committed")
    other = made.channel()
    equal(ready(other, queue), 2, "before the commit")
    channel.tx_commit()
    equal(ready(other, queue), 3, "after the commit")
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(2)]
    channel.basic_ack(tags[0])
    channel.tx_rollback()
    # Acks of a rolled back transaction have not happened: the tag is still there.
    channel.basic_ack(tags[0])
    channel.tx_commit()
    channel.basic_nack(tags[1])
    channel.tx_commit()
    got, _ = collector(other, queue, auto_ack=True)
    until(made, lambda: len(got) == 2, "2 deliveries")
    equal([item[1:] for item in got], [(True, "1"), (False, "committed")])
    # A mandatory message comes back at the commit.
    events = []
    channel.add_on_return_callback(lambda _c, method, _p, _b: events.append(method.reply_code))
    channel.basic_publish("", unique("nowhere"), b"x", mandatory=True)
    channel.tx_commit()
    until(made, lambda: events, "the return")
    equal(events, [312])


@with_channel
def cancel_notify(made, channel):
    queue = unique("cancel")
    channel.queue_declare(queue)
    events = []
    channel.add_on_cancel_callback(lambda frame: events.append(frame.method.consumer_tag))
    tag = channel.basic_consume(queue, lambda *_: None)
    made.channel().queue_delete(queue)
    until(made, lambda: events, "basic.cancel from the broker")
    equal(events, [tag])
    # The channel goes on.
    channel.queue_declare("", exclusive=True)


@with_channel
def consume_exclusive(made, channel):
    queue = unique("exclusive")
    channel.queue_declare(queue)
    tag = channel.basic_consume(queue, lambda *_: None, exclusive=True)
    text = f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"
    with refused(403, text):
        made.channel().basic_consume(queue, lambda *_: None)
    channel.basic_cancel(tag)
    channel.basic_consume(queue, lambda *_: None)
    with refused(403, text):
        made.channel().basic_consume(queue, lambda *_: None, exclusive=True)
    channel.queue_delete(queue)


@with_channel
def consumer_priority(made, channel):
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.basic_qos(prefetch_count=2)
    low, _ = collector(channel, queue)
    high, _ = collector(channel, queue, arguments={"x-priority": 10})
    for number in range(6):
        channel.basic_publish("", queue, str(number).encode())
    until(made, lambda: len(low) + len(high) == 4, "both consumers full")
    equal((texts(high), texts(low)), (["0", "1"], ["2", "3"]))
    equal(ready(channel, queue), 2)


@with_channel
def direct_reply_to(made, channel):
    server = made.channel()
    requests = server.queue_declare("", exclusive=True).method.queue

    def answer(on, _method, properties, body):
        equal(properties.reply_to.startswith("amq.rabbitmq.reply-to."), True, properties.reply_to)
        on.queue_declare(properties.reply_to, passive=True)
        on.basic_publish("", properties.reply_to, body[::-1], pika.BasicProperties(correlation_id=properties.correlation_id))

    server.basic_consume(requests, answer, auto_ack=True)
    replies = []
    channel.basic_consume("amq.rabbitmq.reply-to", lambda _c, m, p, body: replies.append((m.exchange, p.correlation_id, body)), auto_ack=True)
    for number in range(3):
        channel.basic_publish("", requests, f"ask {number}".encode(), pika.BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id=str(number)))
    until(made, lambda: len(replies) == 3, "3 replies")
    equal(replies, [("", str(number), f"{number} ksa".encode()) for number in range(3)])


@with_channel
def bodies(made, channel):
    queue = channel.queue_declare("", exclusive=True).method.queue
    got = []
    channel.basic_consume(queue, lambda _c, _m, _p, body: got.append(body), auto_ack=True)
    sizes = (0, 1, 4095, 4096, 131064, 131065, 128 << 10, 1 << 20, 5 << 20, 0, 1)
    pattern = os.urandom(5 << 20)
    for size in sizes:
        channel.basic_publish("", queue, pattern[:size])
    until(made, lambda: len(got) == len(sizes), "all bodies")
    equal([len(body) for body in got], list(sizes))
    equal(all(body == pattern[: len(body)] for body in got), True, "bodies unchanged")


def heartbeat():
    with connection(heartbeat=1) as made:
        channel = made.channel()
        checker = made._impl._heartbeat_checker
        until(made, lambda: checker._heartbeat_frames_received >= 4 and checker._heartbeat_frames_sent >= 4, "4 heartbeats both ways")
        channel.queue_declare("", exclusive=True)


def update_secret():
    with connection() as made:
        made.update_secret(pika.URLParameters(URL).credentials.password, "renewed")
        made.channel().queue_declare("", exclusive=True)


def channels():
    with connection() as made:
        many = [made.channel() for _ in range(100)]
        names = [channel.queue_declare("", exclusive=True).method.queue for channel in many]
        for channel, name in zip(many, reversed(names), strict=True):
            channel.confirm_delivery()
            channel.basic_publish("", name, name.encode(), mandatory=True)
        for channel, name in zip(many, names, strict=True):
            equal(channel.basic_get(name, auto_ack=True)[2], name.encode())
        many[50].close()
        equal(made.channel(51).channel_number, 51)
        # Publishes of two connections at once keep their own order.
        queue = many[0].queue_declare("", auto_delete=True).method.queue
        got = []
        many[0].basic_consume(queue, lambda _c, _m, _p, body: got.append(body.decode().split()), auto_ack=True)

        def publish(who):
            with connection() as own:
                channel = own.channel()
                for number in range(500):
                    channel.basic_publish("", queue, f"{who} {number}".encode())

        threads = [threading.Thread(target=publish, args=(who,)) for who in range(3)]
        for thread in threads:
            thread.start()
        until(made, lambda: len(got) == 1500, "1,500 deliveries of three publishers")
        for thread in threads:
            thread.join()
        for who in range(3):
            equal([int(number) for by, number in got if int(by) == who], list(range(500)), f"order of publisher {who}")


# errors.toml, as far as pika's own functions reach.
RENAMED = {"type": "exchange_type", "no_ack": "auto_ack", "global": "global_qos"}
CALLS = {
    "basic.consume": lambda channel, queue="", **rest: channel.basic_consume(queue, lambda *_: None, **rest),
    "basic.publish": lambda channel, exchange="", routing_key="", properties=None, **rest: channel.basic_publish(exchange, routing_key, b"body", pika.BasicProperties(**(properties or {})), **rest),
    "confirm.select": lambda channel: channel.confirm_delivery(),
}


def plain(value, name):
    value = cases.fill(value, name)
    return int.from_bytes(value[1:], "big") if isinstance(value, bytes) else {key: plain(item, name) for key, item in value.items()} if isinstance(value, dict) else value


def situation(case):
    name = f"pika-{case['name']}-{os.getpid()}"
    outcome = cases.Outcome("none")
    with connection() as made, connection() as second:
        channel, other = made.channel(), second.channel()
        try:
            for step in case["do"]:
                step = {RENAMED.get(key, key): plain(value, name) for key, value in step.items()}
                on = other if step.pop("on", None) else channel
                step.pop("confirmed", None)
                called = step.pop("m")
                call = CALLS.get(called) or functools.partial(getattr(type(on), called.replace(".", "_")))
                call(on, **step)
            if channel.is_open:
                channel.basic_qos()
        except exceptions.ChannelClosedByBroker as closed:
            outcome = cases.Outcome("channel", closed.reply_code, closed.reply_text)
        except exceptions.ConnectionClosedByBroker as closed:
            outcome = cases.Outcome("connection", closed.reply_code, closed.reply_text)
        if second.is_open:
            second.close()
    with connection() as made:
        channel = made.channel()
        channel.queue_delete(name)
        channel.exchange_delete(name)
    case = case | {"expect": {key: value for key, value in case["expect"].items() if key != "ids"}}
    difference = cases.differs(outcome, case, name)
    if difference and BROKER != "rabbitmq" and "harrier" in case:
        difference = cases.differs(outcome, case | {"expect": case["expect"] | case["harrier"]}, name)
    if difference:
        raise AssertionError(difference)


def sayable(case):
    """Whether pika's functions take these steps' fields."""
    for step in case["do"]:
        fields = {RENAMED.get(key, key) for key in step} - {"m", "on", "confirmed", "properties"}
        called = step["m"].replace(".", "_")
        if called == "confirm_select":
            continue
        function = getattr(pika.adapters.blocking_connection.BlockingChannel, called, None)
        if function is None or not fields <= set(inspect.signature(function).parameters):
            return False
    # pika itself refuses these before the broker sees them.
    return case["name"] not in {"consume-tag-twice", "confirm-select-twice", "cancel-unknown-tag", "recover-without-requeue"}


EXPECTATIONS = {
    "connect": connect,
    "exchanges": exchanges,
    "queues": queues,
    "exclusive-queue": exclusive_queue,
    "auto-delete": auto_delete,
    "refusals": refusals,
    "connection-refusal": connection_refusal,
    "bind-unbind": bind_unbind,
    "bind-exchange": bind_exchange,
    "topic": topic,
    "headers": headers,
    "alternate-exchange": alternate_exchange,
    "publish-consume": publish_consume,
    "confirm": confirm,
    "return": returned,
    "immediate": immediate,
    "ack-multiple": ack_multiple,
    "nack-requeue": nack_requeue,
    "reject": reject,
    "recover": recover,
    "close-requeues": close_requeues,
    "qos-consumer": qos_consumer,
    "qos-global": qos_global,
    "get": get,
    "tx": tx,
    "cancel-notify": cancel_notify,
    "consume-exclusive": consume_exclusive,
    "consumer-priority": consumer_priority,
    "direct-reply-to": direct_reply_to,
    "bodies": bodies,
    "heartbeat": heartbeat,
    "update-secret": update_secret,
    "channels": channels,
}


def main():
    for name, body in EXPECTATIONS.items():
        report.check(name, body)
    for case in cases.load():
        if sayable(case):
            report.check(f"error {case['name']}", situation, case)
    report.exit()


main()
