"""aio-pika's run of the expectations.

Enters: AMQP_URL.  Leaves: a line for each expectation (see report.py).
Owns:   its connections; queues and exchanges of its own names, deleted in the end.
Never:  sleeps: every wait is for a message or an event, with a deadline.
"""

import asyncio
import functools
import os
import sys
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import unquote, urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import aio_pika
from aio_pika import DeliveryMode, Message

from report import Report, equal

URL = os.environ["AMQP_URL"]
DEADLINE_S = 15
report = Report()
serial = iter(range(1 << 30))


def unique(word):
    return f"aio-{word}-{os.getpid()}-{next(serial)}"


class Inbox:
    """What one consumer got, to be waited for."""

    def __init__(self):
        self.queue = asyncio.Queue()

    async def __call__(self, message):
        await self.queue.put(message)

    async def take(self, count):
        return [await self.queue.get() for _ in range(count)]

    async def texts(self, count):
        return [message.body.decode() + ("r" if message.redelivered else "") for message in await self.take(count)]


async def refused(action, text, error=Exception):
    """The library's errors carry the reply text as their last words."""
    try:
        await action
    except error as said:
        if text not in str(said):
            raise AssertionError(f"got {said!r}, expected {text!r}") from said
        return
    raise AssertionError(f"not refused: {text}")


async def send(channel, key, body, exchange="", **options):
    target = channel.default_exchange if not exchange else await channel.get_exchange(exchange, ensure=False)
    message = options.pop("message", None) or Message(body if isinstance(body, bytes) else str(body).encode())
    return await target.publish(message, key, mandatory=options.pop("mandatory", False), **options)


async def routed(channel, exchange, key, headers=None):
    try:
        await send(channel, key, b"x", exchange, mandatory=True, message=Message(b"x", headers=headers or {}))
    except aio_pika.exceptions.DeliveryError:
        return False
    return True


async def ready(channel, name):
    return (await channel.declare_queue(name, passive=True)).declaration_result.message_count


async def temporary(channel):
    return await channel.declare_queue(exclusive=True)


async def filled(channel, count):
    queue = await temporary(channel)
    for number in range(count):
        await send(channel, queue.name, number)
    return queue


async def connect(made, _channel):
    properties = made.transport.connection.server_properties
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
        equal(properties["capabilities"].get(name), True, name)


async def exchanges(made, channel):
    for kind in ("direct", "fanout", "topic", "headers"):
        name = unique(kind)
        for _ in range(2):
            exchange = await channel.declare_exchange(name, kind, durable=True)
        await channel.declare_exchange(name, kind, passive=True)
        await exchange.delete()
        await refused(
            (await made.channel()).declare_exchange(name, kind, passive=True),
            f"NOT_FOUND - no exchange '{name}' in vhost '/'",
        )


async def queues(_made, channel):
    equal((await temporary(channel)).name.startswith("amq.gen-"), True, "server-named")
    queue = await channel.declare_queue(unique("queue"), durable=True)
    for number in range(3):
        await send(channel, queue.name, number)
    equal(await ready(channel, queue.name), 3)
    equal((await queue.purge()).message_count, 3)
    await send(channel, queue.name, 0)
    equal((await queue.delete(if_unused=False, if_empty=False)).message_count, 1)


async def exclusive_queue(_made, channel):
    queue = await temporary(channel)
    other = await aio_pika.connect(URL)
    async with other:
        await refused(
            (await other.channel()).declare_queue(queue.name, passive=True),
            f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue.name}' in vhost '/'.",
        )


async def auto_delete(_made, channel):
    queue = await channel.declare_queue(unique("auto"), auto_delete=True)
    tag = await queue.consume(Inbox())
    await queue.cancel(tag)
    await refused(channel.declare_queue(queue.name, passive=True), f"NOT_FOUND - no queue '{queue.name}' in vhost '/'")


async def refusals(made, channel):
    queue = await channel.declare_queue(unique("refused"), auto_delete=True)
    await refused(
        (await made.channel()).declare_queue(queue.name, auto_delete=True, durable=True),
        f"PRECONDITION_FAILED - inequivalent arg 'durable' for queue '{queue.name}' in vhost '/': received 'true' but current is 'false'",
    )
    await refused(
        (await made.channel()).declare_exchange(f"amq.{queue.name}"),
        f"ACCESS_REFUSED - exchange name 'amq.{queue.name}' contains reserved prefix 'amq.*'",
    )
    await refused(
        send(await made.channel(), "k", b"x", queue.name), f"NOT_FOUND - no exchange '{queue.name}' in vhost '/'"
    )
    await queue.delete()


async def connection_refusal(_made, channel):
    await refused(channel.declare_exchange(unique("x"), "nonsense"), "unknown exchange type 'nonsense'")


async def bind_unbind(_made, channel):
    queue = await temporary(channel)
    for _ in range(2):
        await queue.bind("amq.direct", "aio-bind")
    equal(await routed(channel, "amq.direct", "aio-bind"), True, "bound")
    equal(await ready(channel, queue.name), 1, "one copy")
    await queue.unbind("amq.direct", "aio-bind")
    equal(await routed(channel, "amq.direct", "aio-bind"), False, "unbound")


async def bind_exchange(_made, channel):
    queue = await temporary(channel)
    first = await channel.declare_exchange(unique("first"), "fanout")
    second = await channel.declare_exchange(unique("second"), "direct")
    await second.bind(first, "k")
    await queue.bind(second, "k")
    equal(await routed(channel, first.name, "k"), True, "over both")
    await second.unbind(first, "k")
    equal(await routed(channel, first.name, "k"), False, "unbound")
    await first.delete()
    await second.delete()


async def topic(_made, channel):
    exchange = await channel.declare_exchange(unique("topic"), "topic", auto_delete=True)
    await (await temporary(channel)).bind(exchange, "a.*.c.#")
    for key, want in {"a.b.c": True, "a.b.c.d.e": True, "a.c": False, "a.b.b.c": False, "": False}.items():
        equal(await routed(channel, exchange.name, key), want, key)


async def headers(_made, channel):
    for match in ("all", "any"):
        exchange = await channel.declare_exchange(unique("headers"), "headers", auto_delete=True)
        await (await temporary(channel)).bind(exchange, "", arguments={"x-match": match, "a": 1, "b": "two"})
        equal(await routed(channel, exchange.name, "", {"a": 1, "b": "two", "c": 3}), True, f"{match} both")
        equal(await routed(channel, exchange.name, "", {"a": 1}), match == "any", f"{match} one")
        equal(await routed(channel, exchange.name, "", {"c": 1}), False, f"{match} none")


async def alternate_exchange(_made, channel):
    alternate = await channel.declare_exchange(unique("alternate"), "fanout", auto_delete=True)
    main = await channel.declare_exchange(unique("main"), "direct", arguments={"alternate-exchange": alternate.name})
    await (await temporary(channel)).bind(alternate)
    equal(await routed(channel, main.name, "anything"), True, "by the alternate")
    await main.delete()


async def publish_consume(made, _channel):
    channel = await made.channel(publisher_confirms=False)
    queue = await temporary(channel)
    inbox = Inbox()
    await queue.consume(inbox, no_ack=True)
    sent = {
        "headers": {
            "s": "ü",
            "i": 5,
            "l": 1 << 40,
            "t": True,
            "n": None,
            "f": 1.5,
            "list": [1, "two"],
            "table": {"x": {"y": 1}},
            "time": datetime(2023, 11, 14, tzinfo=timezone.utc),
        },
        "content_type": "text/plain",
        "content_encoding": "utf-8",
        "delivery_mode": DeliveryMode.PERSISTENT,
        "priority": 7,
        "correlation_id": "c",
        "reply_to": "r",
        "expiration": 60.0,
        "message_id": "m",
        "timestamp": datetime(2023, 11, 14, tzinfo=timezone.utc),
        "type": "t",
        "app_id": "a",
    }
    for number in range(1000):
        await send(channel, queue.name, number, message=Message(b"0", **sent) if number == 0 else None)
    got = await inbox.take(1000)
    equal([int(message.body) for message in got], list(range(1000)))
    for name, value in sent.items():
        equal(getattr(got[0], name), value, name)


async def confirm(_made, channel):
    queue = await temporary(channel)
    await asyncio.gather(*(send(channel, queue.name if number % 2 else "aio-nowhere", number) for number in range(500)))
    equal(await ready(channel, queue.name), 250)


async def returned(made, _channel):
    channel = await made.channel(on_return_raises=False)
    back = asyncio.get_running_loop().create_future()
    channel.return_callbacks.add(lambda _channel, message: back.set_result(message))
    await send(channel, "aio-nowhere", b"", "amq.direct", mandatory=True, message=Message(b"back", type="t"))
    message = await back
    equal(
        (message.exchange, message.routing_key, message.type, message.body), ("amq.direct", "aio-nowhere", "t", b"back")
    )


async def immediate(_made, channel):
    queue = await temporary(channel)
    await refused(channel.default_exchange.publish(Message(b"x"), queue.name, immediate=True), "immediate=true")


async def ack_multiple(made, channel):
    queue = await filled(channel, 5)
    inbox, side = Inbox(), await made.channel()
    await (await side.get_queue(queue.name, ensure=False)).consume(inbox)
    got = await inbox.take(5)
    await got[2].ack(multiple=True)
    await side.close()
    inbox = Inbox()
    await queue.consume(inbox)
    last = await inbox.take(2)
    equal([message.body for message in last], [b"3", b"4"])
    await last[1].ack(multiple=True)
    equal(await ready(channel, queue.name), 0)


async def nack_requeue(_made, channel):
    queue = await filled(channel, 5)
    got = [await queue.get() for _ in range(4)]
    await got[2].nack()
    await got[0].nack()
    await got[3].nack(multiple=True)
    inbox = Inbox()
    await queue.consume(inbox, no_ack=True)
    equal(await inbox.texts(5), ["0r", "1r", "2r", "3r", "4"])


async def reject(_made, channel):
    queue = await filled(channel, 3)
    inbox = Inbox()
    await queue.consume(inbox)
    got = await inbox.take(3)
    await got[0].reject(requeue=True)
    await got[1].reject(requeue=False)
    equal(await inbox.texts(1), ["0r"])
    equal(await ready(channel, queue.name), 0)


async def recover(_made, channel):
    queue = await filled(channel, 3)
    inbox = Inbox()
    await queue.consume(inbox)
    got = await inbox.take(3)
    await got[1].ack()
    await (await channel.get_underlay_channel()).basic_recover(requeue=True)
    equal(await inbox.texts(2), ["0r", "2r"])


async def close_requeues(made, channel):
    queue = await filled(channel, 3)
    side, inbox = await made.channel(), Inbox()
    await (await side.get_queue(queue.name, ensure=False)).consume(inbox)
    await inbox.take(3)
    await side.close()
    inbox = Inbox()
    await queue.consume(inbox, no_ack=True)
    equal(await inbox.texts(3), ["0r", "1r", "2r"])


async def qos_consumer(_made, channel):
    queue = await filled(channel, 9)
    await channel.set_qos(prefetch_count=2)
    first, second = Inbox(), Inbox()
    await queue.consume(first)
    got = await first.take(2)
    await channel.set_qos(prefetch_count=3)
    await queue.consume(second)
    await second.take(3)
    equal(await ready(channel, queue.name), 4)
    await got[0].ack()
    await first.take(1)
    equal(await ready(channel, queue.name), 3)


async def qos_global(_made, channel):
    queue = await filled(channel, 9)
    await channel.set_qos(prefetch_count=3, global_=True)
    inbox = Inbox()
    await queue.consume(inbox)
    await queue.consume(inbox)
    await inbox.take(3)
    equal((await ready(channel, queue.name), inbox.queue.qsize()), (6, 0))


async def get(_made, channel):
    queue = await filled(channel, 2)
    message = await queue.get()
    equal((message.body, message.message_count, message.redelivered, message.routing_key), (b"0", 1, False, queue.name))
    await queue.get(no_ack=True)
    equal(await queue.get(fail=False), None)


async def tx(made, _channel):
    channel = await made.channel(publisher_confirms=False)
    queue = await temporary(channel)
    transaction = channel.transaction()
    await transaction.select()
    await send(channel, queue.name, "rolled back")
    await transaction.rollback()
    await send(channel, queue.name, "committed")
    equal(await ready(channel, queue.name), 0, "before the commit")
    await transaction.commit()
    equal(await ready(channel, queue.name), 1, "after the commit")


async def cancel_notify(made, channel):
    queue = await channel.declare_queue(unique("cancel"))
    tag = await queue.consume(Inbox())
    known = (await channel.get_underlay_channel()).consumers
    await (await made.channel()).queue_delete(queue.name)
    # The library forgets a consumer that the broker cancels; it tells nobody else.
    while tag in known:
        await temporary(channel)


async def consume_exclusive(made, channel):
    queue = await temporary(channel)
    await queue.consume(Inbox(), exclusive=True)
    side = await (await made.channel()).get_queue(queue.name, ensure=False)
    await refused(side.consume(Inbox()), f"ACCESS_REFUSED - queue '{queue.name}' in vhost '/' in exclusive use")


async def consumer_priority(_made, channel):
    queue = await temporary(channel)
    await channel.set_qos(prefetch_count=2)
    low, high = Inbox(), Inbox()
    await queue.consume(low)
    await queue.consume(high, arguments={"x-priority": 10})
    for number in range(4):
        await send(channel, queue.name, number)
    equal(await high.texts(2), ["0", "1"])
    equal(await low.texts(2), ["2", "3"])


async def direct_reply_to(made, channel):
    requests = await temporary(channel)

    async def answer(message):
        await send(channel, message.reply_to, b"answer to " + message.body)

    await requests.consume(answer, no_ack=True)
    side, inbox = await made.channel(), Inbox()
    await (await side.get_queue("amq.rabbitmq.reply-to", ensure=False)).consume(inbox, no_ack=True)
    await send(side, requests.name, b"", message=Message(b"ask", reply_to="amq.rabbitmq.reply-to"))
    equal(await inbox.texts(1), ["answer to ask"])


async def bodies(_made, channel):
    queue = await temporary(channel)
    inbox = Inbox()
    await queue.consume(inbox, no_ack=True)
    pattern = os.urandom(5 << 20)
    for size in (0, 1, 4095, 128 << 10, 1 << 20, 5 << 20, 0):
        await send(channel, queue.name, pattern[:size])
        equal((await inbox.take(1))[0].body == pattern[:size], True, f"{size} bytes unchanged")


async def heartbeat(_made, _channel):
    made = await aio_pika.connect(URL, heartbeat=1)
    async with made:
        closed = asyncio.ensure_future(made.transport.connection.closing)
        # Idle for more than two intervals: only a lost connection may end this wait.
        done, _ = await asyncio.wait({closed}, timeout=4)
        equal(done, set(), "closed while idle")
        closed.cancel()
        await temporary(await made.channel())


async def update_secret(made, channel):
    await made.update_secret(unquote(urlsplit(URL).password), reason="renewed")
    await temporary(channel)


async def channels(made, channel):
    queue = await temporary(channel)
    inbox = Inbox()
    await queue.consume(inbox, no_ack=True)
    many = [await made.channel() for _ in range(100)]
    await asyncio.gather(*(send(one, queue.name, number) for number, one in enumerate(many)))
    await inbox.take(100)
    for one in many:
        await one.close()
    await temporary(await made.channel())


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


async def stage(body):
    """A connection and a channel for one expectation, and a deadline for all of it."""
    async with asyncio.timeout(DEADLINE_S):
        made = await aio_pika.connect(URL)
        try:
            await body(made, await made.channel(on_return_raises=True))
        finally:
            if not made.is_closed:
                await made.close()


def main():
    for name, body in EXPECTATIONS.items():
        report.check(
            name, functools.partial(asyncio.run, stage(body)) if not report.only or name in report.only else body
        )
    report.exit()


main()
