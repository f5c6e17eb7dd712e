"""pika's expectations of messages: publishing, delivery, settlement, transactions, and the connection around them.

Enters: connections of scene.py.  Leaves: EXPECTATIONS, by name.
Owns:   queues of its own names, deleted in the end.
Never:  looks at routing (see topology.py).
"""

import os
import threading

import pika
from pika import exceptions, spec

from scene import (
    URL,
    collector,
    connection,
    filled,
    ready,
    refused,
    texts,
    unique,
    until,
    with_channel,
)  # first: it says where report.py is
from report import equal


@with_channel
def publish_consume(made, channel):
    queue = channel.queue_declare("", exclusive=True).method.queue
    sent = pika.BasicProperties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers={
            "text": "ü",
            "int": 5,
            "big": 1 << 40,
            "bool": True,
            "none": None,
            "list": [1, "two"],
            "table": {"a": {"b": 1}},
            "bytes": b"\x00\xff",
        },
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
    equal(
        (method.exchange, method.routing_key, method.consumer_tag, method.redelivered, method.delivery_tag),
        ("", queue, tag, False, 1),
    )
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
    channel.add_on_return_callback(
        lambda _c, method, properties, body: events.append(
            (method.reply_code, method.reply_text, method.exchange, method.routing_key, properties.type, body)
        )
    )
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
            channel._impl._send_method(
                spec.Basic.Publish(routing_key="x", immediate=True), (pika.BasicProperties(), b"x")
            )
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
    equal(
        (body, method.message_count, method.redelivered, method.exchange, method.routing_key, method.delivery_tag),
        (b"0", 1, False, "", queue, 1),
    )
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
    # RabbitMQ answers this before messages that its queue has yet to look at.
    until(made, lambda: ready(channel, queue) == 2, "the last two wait")


@with_channel
def direct_reply_to(made, channel):
    server = made.channel()
    requests = server.queue_declare("", exclusive=True).method.queue

    def answer(on, _method, properties, body):
        equal(properties.reply_to.startswith("amq.rabbitmq.reply-to."), True, properties.reply_to)
        on.queue_declare(properties.reply_to, passive=True)
        on.basic_publish(
            "", properties.reply_to, body[::-1], pika.BasicProperties(correlation_id=properties.correlation_id)
        )

    server.basic_consume(requests, answer, auto_ack=True)
    replies = []
    channel.basic_consume(
        "amq.rabbitmq.reply-to",
        lambda _c, m, p, body: replies.append((m.exchange, p.correlation_id, body)),
        auto_ack=True,
    )
    for number in range(3):
        channel.basic_publish(
            "",
            requests,
            f"ask {number}".encode(),
            pika.BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id=str(number)),
        )
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
        until(
            made,
            lambda: checker._heartbeat_frames_received >= 4 and checker._heartbeat_frames_sent >= 4,
            "4 heartbeats both ways",
        )
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


EXPECTATIONS = {
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
