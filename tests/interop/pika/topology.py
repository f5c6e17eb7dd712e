"""pika's expectations of what is declared and bound, and what goes where.

Enters: connections of scene.py.  Leaves: EXPECTATIONS, by name.
Owns:   queues and exchanges of its own names, deleted in the end.
Never:  looks at settlement (see messages.py).
"""

import pika
from pika import exceptions

from scene import connection, ready, refused, unique, until, with_channel  # first: it says where report.py is
from report import equal


def connect():
    with connection() as made:
        properties = made._impl.server_properties
        capabilities = properties["capabilities"]
        for name in (
            "publisher_confirms",
            "exchange_exchange_bindings",
            "basic.nack",
            "consumer_cancel_notify",
            "connection.blocked",
            "consumer_priorities",
            "authentication_failure_close",
            "per_consumer_qos",
            "direct_reply_to",
        ):
            equal(capabilities.get(name), True, f"capability {name}")
        for name in ("product", "version", "platform"):
            equal(isinstance(properties.get(name), (str, bytes)), True, f"property {name}")
        equal(
            made.basic_nack_supported
            and made.consumer_cancel_notify_supported
            and made.exchange_exchange_bindings_supported
            and made.publisher_confirms_supported,
            True,
        )


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
    with refused(
        406,
        f"PRECONDITION_FAILED - inequivalent arg 'durable' for queue '{name}' in vhost '/': received 'true' but current is 'false'",
    ):
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
        (
            {"x-match": "all", "a": 1, "b": "two"},
            ({"a": 1, "b": "two"}, {"a": 1, "b": "two", "c": 3}),
            ({"a": 1}, {"a": 2, "b": "two"}, {}, None),
        ),
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
def alternate_chain(_made, channel):
    channel.confirm_delivery()
    names = [unique("alternate") for _ in range(3)]
    # A circle: the last names the first.
    for name, other in zip(names, names[1:] + names[:1]):
        channel.exchange_declare(name, "direct", arguments={"alternate-exchange": other})
    last = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(last, names[2], "a")
    equal(routed(channel, names[0], "a"), True, "over two alternates")
    equal(routed(channel, names[0], "b"), False, "round once, and back to its publisher")
    equal(routed(channel, names[0], "c", {"CC": ["a"]}), True, "by a further key")
    # An alternate takes what no binding matches, not what a binding leads nowhere.
    nowhere = unique("nowhere")
    channel.exchange_declare(nowhere, "fanout")
    channel.exchange_bind(nowhere, names[0], "a")
    equal(routed(channel, names[0], "a"), False)
    equal(ready(channel, last), 2)
    for name in (*names, nowhere):
        channel.exchange_delete(name)


def exchange_gone(made, name):
    try:
        made.channel().exchange_declare(name, passive=True)
    except exceptions.ChannelClosedByBroker as closed:
        equal((closed.reply_code, closed.reply_text), (404, f"NOT_FOUND - no exchange '{name}' in vhost '/'"))
        return True
    return False


@with_channel
def auto_delete_cascade(made, channel):
    names = [unique("cascade") for _ in range(3)]
    for name in names:
        channel.exchange_declare(name, "fanout", auto_delete=True)
    # From the first to the second to the third, and on to a queue.
    for source, destination in ((0, 1), (1, 2)):
        channel.exchange_bind(names[destination], names[source])
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, names[2])
    equal([exchange_gone(made, name) for name in names], [False] * 3)
    channel.queue_delete(queue)
    equal([exchange_gone(made, name) for name in names], [True] * 3, "each had lost its last binding")
    # One that nothing was ever bound to stays, and so does one that is only bound to others.
    idle, bound = unique("idle"), unique("bound")
    for name in (idle, bound):
        channel.exchange_declare(name, "fanout", auto_delete=True)
    channel.exchange_bind(bound, "amq.fanout")
    channel.exchange_unbind(bound, "amq.fanout")
    equal([exchange_gone(made, name) for name in (idle, bound)], [False] * 2)
    for name in (idle, bound):
        channel.exchange_delete(name)


@with_channel
def headers_edges(_made, channel):
    channel.confirm_delivery()
    for arguments, yes, no in (
        ({"x-match": "any", "a": None, "b": 1}, ({"a": "x"}, {"a": None}, {"b": 1}), ({"b": 2}, {"c": None})),
        ({"x-match": "all", "a": None, "b": None}, ({"a": 1, "b": 2},), ({"a": 1},)),
        ({"x-match": "any"}, (), ({}, None, {"a": 1})),
        ({"x-match": "any-with-x"}, (), ({"x-match": "any-with-x"},)),
        ({"x-match": "any", "x-a": 1}, (), ({"x-a": 1},)),
        ({}, ({}, None, {"a": 1}), ()),
        (None, ({}, None, {"a": 1}), ()),
        ({"a": 1}, ({"a": 1}, {"a": 1, "b": None}), ({"a": "1"}, {"a": True}, {"a": 1 << 40}, {"A": 1})),
        ({"a": 1 << 40}, ({"a": 1 << 40},), ({"a": 1},)),
        ({"a": True}, ({"a": True},), ({"a": 1}, {"a": "true"})),
        ({"a": [1, "b"]}, ({"a": [1, "b"]},), ({"a": [1]}, {"a": ["b", 1]})),
        ({"a": {"b": 1}}, ({"a": {"b": 1}},), ({"a": {"b": 2}}, {"a": {}})),
        ({"a": ""}, ({"a": ""},), ({"a": None}, {"b": ""})),
    ):
        exchange = unique("headers")
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.exchange_declare(exchange, "headers", auto_delete=True)
        channel.queue_bind(queue, exchange, "", arguments=arguments)
        for table in yes:
            equal(routed(channel, exchange, "any key", table), True, f"{arguments} <- {table}")
        for table in no:
            equal(routed(channel, exchange, "any key", table), False, f"{arguments} <- {table}")
        channel.queue_delete(queue)


@with_channel
def internal_exchange(_made, channel):
    channel.confirm_delivery()
    outer, inner = unique("outer"), unique("inner")
    channel.exchange_declare(outer, "direct", arguments={"alternate-exchange": inner})
    channel.exchange_declare(inner, "fanout", internal=True)
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, inner)
    equal(routed(channel, outer, "a"), True, "as an alternate")
    channel.exchange_bind(inner, outer, "a")
    equal(routed(channel, outer, "a"), True, "over a binding")
    equal(ready(channel, queue), 2)
    for name in (outer, inner):
        channel.exchange_delete(name)


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
    "alternate-chain": alternate_chain,
    "auto-delete-cascade": auto_delete_cascade,
    "headers-edges": headers_edges,
    "internal-exchange": internal_exchange,
}
