"""The blocking client: every word of its channel, over TCP and over TLS.

Enters: AMQP_URL.  Leaves: a line for each expectation.
Owns:   its queues, which are exclusive, and its exchanges, which go with them.
"""

import datetime
import decimal
import os
import time
from urllib.parse import parse_qsl, urlsplit

import harrier
from report import Report, equal

URL = os.environ["AMQP_URL"]
DEADLINE_S = float(os.environ.get("INTEROP_DEADLINE_S", 20))


def connect(**more):
    return harrier.BlockingConnection(harrier.URLParameters(URL, **more))


def within(connection, condition, what):
    """Handles what comes until the condition holds."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {DEADLINE_S} s: {what}")
        connection.process_data_events(1.0)


def first_message():
    """The example of the package's own page."""
    with connect() as connection:
        equal(connection.transport, os.environ["WAY"])
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_publish("", queue, b"Hello World!")
        seen = []

        def on_message(channel, method, properties, body):
            seen.append((method.routing_key, method.exchange, method.redelivered, body))
            channel.basic_ack(method.delivery_tag)
            channel.stop_consuming()

        channel.basic_consume(queue, on_message)
        channel.start_consuming()
        equal(seen, [(queue, "", False, b"Hello World!")])
        equal(channel.queue_declare(queue, passive=True).method.message_count, 0, "acknowledged")
    equal((connection.is_open, channel.is_open), (False, False))


def parameters():
    """The parts of an address by name come to the same connection; what a name needs is encoded."""
    parts = urlsplit(URL)
    query = dict(parse_qsl(parts.query))
    tls = harrier.TLSOptions(cacertfile=query["cacertfile"]) if parts.scheme == "amqps" else None
    named = harrier.ConnectionParameters(
        parts.hostname,
        parts.port,
        "/",
        harrier.PlainCredentials("guest", "guest"),
        heartbeat=7,
        channel_max=5,
        ssl_options=tls,
        client_properties={"connection_name": "by parts"},
        rdma=parts.scheme == "amqp+rdma",
        via=query.get("via"),
    )
    with harrier.BlockingConnection(named) as connection:
        equal((connection.transport, connection.heartbeat), (os.environ["WAY"], 7))
        equal(connection.server_properties["product"], "RabbitMQ")
        equal((connection.publisher_confirms_supported, connection.basic_nack_supported), (True, True))
        channels = [connection.channel() for _ in range(5)]
        try:
            connection.channel()
            raise AssertionError("there are only five")
        except harrier.exceptions.NoFreeChannels:
            channels[0].close()
        equal(connection.channel().is_open, True)
    other = harrier.ConnectionParameters(
        "::1", None, "a/b", harrier.PlainCredentials("u@", "p:/"), rdma=True, via="tls", fallback="tcp"
    )
    equal(other.url, "amqp+rdma://u%40:p%3A%2F@[::1]/a%2Fb?via=tls&fallback=tcp")
    equal("p%3A" in repr(other) or "secret" in repr(harrier.PlainCredentials("u", "secret")), False, "no password is shown")


def properties():
    """All properties, and headers of every type, come back as they were sent."""
    headers = {
        "yes": True,
        "no": False,
        "none": None,
        "small": -5,
        "large": 1 << 40,
        "float": 1.5,
        "text": "grüße",
        "bytes": b"\x00\xff",
        "list": [1, "two", [3.0]],
        "table": {"inner": {"deeper": 1}},
        "time": datetime.datetime(2026, 11, 28, 12, 0, tzinfo=datetime.timezone.utc),
        "decimal": decimal.Decimal("12.34"),
    }
    sent = harrier.BasicProperties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers=headers,
        delivery_mode=harrier.DeliveryMode.Persistent,
        priority=3,
        correlation_id=b"\xff\xfe",
        reply_to="there",
        expiration="60000",
        message_id="1",
        timestamp=1_700_000_000,
        type="kind",
        user_id="guest",
        app_id="tests",
        cluster_id="none",
    )
    with connect() as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_publish("", queue, "text", sent)
        channel.basic_publish("", queue, b"bare")
        method, got, body = channel.basic_get(queue, auto_ack=True)
        equal((body, method.message_count), (b"text", 1))
        equal(got.headers, headers)
        equal(got.correlation_id, b"\xff\xfe", "what is no text stays bytes")
        equal(got, sent)
        _, bare, _ = channel.basic_get(queue, auto_ack=True)
        equal((bare, bare.headers, bare.priority), (harrier.BasicProperties(), None, None))
        equal(channel.basic_get(queue), (None, None, None))


def exchanges():
    """Exchanges of every type, bindings between them and away again."""
    with connect() as connection:
        channel = connection.channel()
        names = {kind: f"python-{kind.value}-{os.getpid()}" for kind in harrier.ExchangeType}
        for kind, name in names.items():
            channel.exchange_declare(name, kind)
        queue = channel.queue_declare("", exclusive=True).method.queue
        topic, fanout = names[harrier.ExchangeType.topic], names[harrier.ExchangeType.fanout]
        channel.queue_bind(queue, topic, "a.*")
        channel.queue_bind(queue, names[harrier.ExchangeType.headers], "", {"x-match": "all", "colour": "red"})
        channel.exchange_bind(topic, fanout)
        red = harrier.BasicProperties(headers={"colour": "red"})
        channel.basic_publish(names[harrier.ExchangeType.headers], "", b"red", red)
        channel.basic_publish(topic, "a.b", b"topic")
        channel.basic_publish(topic, "b.a", b"nowhere")
        channel.basic_publish(fanout, "a.c", b"both")
        got = [channel.basic_get(queue, auto_ack=True)[2] for _ in range(4)]
        equal(got, [b"red", b"topic", b"both", None])
        channel.exchange_unbind(topic, fanout)
        channel.queue_unbind(queue, topic, "a.*")
        channel.basic_publish(topic, "a.b", b"unbound")
        equal(channel.basic_get(queue)[2], None)
        for name in names.values():
            channel.exchange_delete(name)


def queues():
    """Counts of messages and consumers; purge, delete, and what a queue's arguments do."""
    with connect() as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True, arguments={"x-max-length": 2}).method.queue
        channel.publish_many("", queue, [b"1", b"2", b"3"])
        channel.basic_consume(queue, lambda *_: None)
        state = channel.queue_declare(queue, passive=True)
        equal((state.message_count + 2, state.consumer_count), (2, 1), "two delivered, one consumer")
        channel.stop_consuming()
        equal(channel.queue_purge(queue).method.message_count, 2)
        channel.basic_publish("", queue, b"4")
        equal(channel.queue_delete(queue).method.message_count, 1)


def settlement():
    """Acknowledged, refused, several at once, delivered again."""
    with connect() as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.publish_many("", queue, [b"%d" % number for number in range(6)])
        taken = [channel.basic_get(queue)[0] for _ in range(6)]
        channel.basic_ack(taken[1].delivery_tag, multiple=True)
        channel.basic_reject(taken[2].delivery_tag, requeue=False)
        channel.basic_nack(taken[4].delivery_tag, multiple=True, requeue=True)
        channel.basic_recover()
        again = [channel.basic_get(queue)[0] for _ in range(3)]
        equal([(message.body, message.redelivered) for message in again], [(b"3", True), (b"4", True), (b"5", True)])
        equal(channel.basic_get(queue)[0], None)


def prefetch():
    """No more than the prefetch count is unacknowledged, and each acknowledgement brings one more."""
    with connect() as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_qos(prefetch_count=2)
        channel.publish_many("", queue, [b"x"] * 5)
        seen = []
        channel.basic_consume(queue, lambda _channel, method, _properties, _body: seen.append(method.delivery_tag))
        within(connection, lambda: len(seen) == 2, "two")
        # An answer that comes behind whatever else would have been delivered.
        equal((channel.queue_declare(queue, passive=True).message_count, len(seen)), (3, 2))
        channel.basic_ack(seen[0])
        within(connection, lambda: len(seen) == 3, "one more")
        connection.process_data_events(0)
        equal(len(seen), 3)


def confirms():
    """A confirmed publish returns once it is safe; what no queue takes and what is refused raises, with the messages."""
    with connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        queue = channel.queue_declare(
            "", exclusive=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"}
        ).method.queue
        channel.basic_publish("", queue, b"fits", mandatory=True)
        try:
            channel.basic_publish("", queue, b"too many")
            raise AssertionError("it should be refused")
        except harrier.exceptions.NackError as error:
            equal(len(error.messages), 1)
        try:
            channel.basic_publish("", "nobody's", b"lost", mandatory=True)
            raise AssertionError("it should come back")
        except harrier.exceptions.UnroutableError as error:
            (returned,) = error.messages
            equal((returned.body, returned.routing_key, returned.reply_code), (b"lost", "nobody's", 312))
        channel.basic_publish("", "nobody's", b"not mandatory")
        equal(channel.is_open, True)


def returns():
    """Without confirms what comes back is called back for."""
    with connect() as connection:
        channel = connection.channel()
        returned = []
        channel.add_on_return_callback(lambda channel, method, properties, body: returned.append((method.reply_code, body)))
        channel.basic_publish("", "nobody's", b"back", mandatory=True)
        within(connection, lambda: returned, "it comes back")
        equal(returned, [(312, b"back")])


def transactions():
    with connect() as connection:
        channel, other = connection.channel(), connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.tx_select()
        channel.basic_publish("", queue, b"dropped")
        channel.tx_rollback()
        channel.basic_publish("", queue, b"kept")
        equal(other.basic_get(queue)[2], None, "before the commit")
        channel.tx_commit()
        equal(other.basic_get(queue, auto_ack=True)[2], b"kept")
        equal(other.basic_get(queue)[2], None)


def generator():
    """`consume` yields what comes, and nothing when nothing does; `cancel` requeues what nobody has seen."""
    with connect() as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.publish_many("", queue, [b"1", b"2", b"3"])
        seen = []
        for method, _, body in channel.consume(queue, inactivity_timeout=0.05):
            if method is None:
                break
            seen.append(body)
            if body == b"2":
                channel.basic_ack(method.delivery_tag, multiple=True)
                channel.cancel()
        equal(seen, [b"1", b"2"])
        equal(channel.basic_get(queue)[2], b"3", "requeued")


def cancelled_by_server():
    """Whose queue is deleted is told, and consumes no longer."""
    with connect() as connection, connect() as other:
        channel = connection.channel()
        queue = channel.queue_declare(f"python-cancel-{os.getpid()}").method.queue
        told = []
        channel.add_on_cancel_callback(told.append)
        tag = channel.basic_consume(queue, lambda *_: None)
        other.channel().queue_delete(queue)
        channel.start_consuming()
        equal((told, channel.consumer_tags), ([tag], []))


def timers():
    """`call_later` calls back in order of time; a removed one never; `sleep` handles what comes."""
    with connect() as connection:
        called = []
        connection.call_later(0.2, lambda: called.append("second"))
        connection.call_later(0.05, lambda: called.append("first"))
        removed = connection.call_later(0.1, lambda: called.append("removed"))
        connection.remove_timeout(removed)
        start = time.monotonic()
        connection.sleep(0.5)
        equal((called, time.monotonic() - start >= 0.5), (["first", "second"], True))


def large_bodies():
    """Bodies of every size arrive whole: of one frame, of many, by callbacks and as lent memory."""
    sizes = [0, 1, 16 << 10, 32 << 10, (128 << 10) + 1, 5 << 20]
    bodies = [bytes((index * 7 + place) % 251 for place in range(min(size, 997))) * (size // 997 + 1) for index, size in enumerate(sizes)]
    bodies = [body[:size] for body, size in zip(bodies, sizes)]
    for zero_copy in (False, True):
        with connect(zero_copy=zero_copy) as connection:
            channel = connection.channel()
            queue = channel.queue_declare("", exclusive=True).method.queue
            channel.publish_many("", queue, bodies)
            channel.basic_consume(queue, auto_ack=True)
            got = []
            while len(got) < len(bodies):
                got += channel.deliveries(10, timeout=DEADLINE_S)
            equal([len(message.body) for message in got], sizes)
            equal(all(bytes(message.body) == body for message, body in zip(got, bodies)), True, "the bytes")
            kinds = {type(message.body) for message in got}
            equal(kinds, {bytes, harrier.Body} if zero_copy else {bytes})


EXPECTATIONS = {
    "first-message": first_message,
    "parameters": parameters,
    "properties": properties,
    "exchanges": exchanges,
    "queues": queues,
    "settlement": settlement,
    "prefetch": prefetch,
    "confirms": confirms,
    "returns": returns,
    "transactions": transactions,
    "generator": generator,
    "cancelled-by-server": cancelled_by_server,
    "timers": timers,
    "large-bodies": large_bodies,
}

if __name__ == "__main__":
    report = Report()
    way = os.environ["WAY"]
    for name, body in EXPECTATIONS.items():
        report.check(f"python-{way}-{name}", body)
    report.exit()
