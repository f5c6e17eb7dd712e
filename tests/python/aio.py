"""The client for asyncio.

Enters: AMQP_URL.  Leaves: a line for each expectation.
Owns:   its queues, which are exclusive; a loop for each expectation.
"""

import asyncio
import os
import signal
import threading

import harrier
import harrier.aio
from harrier import exceptions
from report import Report, equal

URL = os.environ["AMQP_URL"]
DEADLINE_S = float(os.environ.get("INTEROP_DEADLINE_S", 30))


async def queue_of(channel, **more):
    return (await channel.queue_declare("", exclusive=True, **more)).queue


async def first_message():
    """The example of the package's own page."""
    connection = await harrier.aio.connect(URL)
    equal(connection.transport, os.environ["WAY"])
    channel = await connection.channel()
    queue = await queue_of(channel)
    await channel.basic_publish("", queue, b"Hello World!")
    async for message in await channel.basic_consume(queue):
        equal((message.body, message.routing_key), (b"Hello World!", queue))
        await channel.basic_ack(message.delivery_tag)
        break
    equal((await channel.queue_declare(queue, passive=True)).message_count, 0)
    await connection.close()
    equal((connection.is_open, channel.is_open), (False, False))
    equal(threading.active_count(), 1, "no thread was started")


async def both_ways():
    """A publisher and a consumer in one loop, and tasks beside them: all in order, and the loop is never held up."""
    count = 50_000
    async with await harrier.aio.connect(URL) as connection:
        channel = await connection.channel()
        await channel.basic_qos(500)
        queue = await queue_of(channel)
        consumer = await channel.basic_consume(queue)
        publisher = await connection.channel()
        await publisher.confirm_delivery()
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.001)

        async def publish():
            for start in range(0, count, 5000):
                await publisher.publish_many("", queue, (b"%d" % number for number in range(start, start + 5000)))

        async def consume():
            got = []
            while len(got) < count:
                found = await consumer.deliveries(100)
                got += [int(message.body) for message in found]
                await channel.basic_ack(found[-1].delivery_tag, multiple=True)
            return got

        beside = asyncio.ensure_future(tick())
        _, got = await asyncio.gather(publish(), consume())
        beside.cancel()
        equal(got == list(range(count)), True, "in order")
        equal(ticks > 10, True, f"{ticks} turns of another task")


async def calls():
    """Calls of several tasks at once; one that is cancelled does not take another's answer."""
    async with await harrier.aio.connect(URL) as connection:
        channels = await asyncio.gather(*(connection.channel() for _ in range(5)))
        queues = await asyncio.gather(*(queue_of(channel) for channel in channels))
        equal(len(set(queues)), 5)
        first = asyncio.ensure_future(queue_of(channels[0]))
        await asyncio.sleep(0)
        first.cancel()
        equal((await channels[1].queue_declare(queues[1], passive=True)).queue, queues[1])
        await channels[0].exchange_declare("python-aio", harrier.ExchangeType.topic)
        await channels[0].queue_bind(queues[0], "python-aio", "a.#")
        await channels[0].basic_publish("python-aio", "a.b", b"x")
        message = await channels[0].basic_get(queues[0], auto_ack=True)
        equal((message.body, message.exchange), (b"x", "python-aio"))
        equal(await channels[0].basic_get(queues[0]), None)
        await channels[0].queue_unbind(queues[0], "python-aio", "a.#")
        await channels[0].exchange_delete("python-aio")
        await channels[0].basic_publish("", queues[0], b"y")
        equal(await channels[0].queue_purge(queues[0]), 1)
        equal(await channels[0].queue_delete(queues[0]), 0)


async def confirms():
    """Each publish knows its own fate, of many at once."""
    async with await harrier.aio.connect(URL) as connection:
        channel = await connection.channel()
        await channel.confirm_delivery()
        queue = await queue_of(channel, arguments={"x-max-length": 3, "x-overflow": "reject-publish"})
        sent = [channel.basic_publish("", queue, b"%d" % number) for number in range(6)]
        ended = await asyncio.gather(*sent, return_exceptions=True)
        equal([type(end) for end in ended], [type(None)] * 3 + [exceptions.NackError] * 3)
        lost = [channel.basic_publish("", f"nobody's {number}", b"x", mandatory=True) for number in range(3)]
        found = [channel.basic_publish("", queue, b"x")]
        *ended, refused = await asyncio.gather(*lost, *found, return_exceptions=True)
        equal([end.messages[0].routing_key for end in ended], [f"nobody's {number}" for number in range(3)])
        equal(type(refused), exceptions.NackError)


async def faults():
    """A channel that closes tells those who await something of it, and nobody else; so does a connection."""
    async with await harrier.aio.connect(URL) as connection:
        channel, other = await connection.channel(), await connection.channel()
        queue = await queue_of(other)
        consumer = await channel.basic_consume(queue)
        waiting = asyncio.ensure_future(consumer.deliveries(1))
        await asyncio.sleep(0)
        for awaited in (channel.queue_declare("nobody's", passive=True), waiting):
            try:
                await awaited
                raise AssertionError("it should fail")
            except exceptions.ChannelClosedByBroker as error:
                equal(error.reply_code, 404)
        equal((channel.is_open, other.is_open, connection.is_open), (False, True, True))
        try:
            await channel.basic_publish("", queue, b"")
            raise AssertionError("it is closed")
        except exceptions.ChannelWrongStateError:
            pass
        consumer = await other.basic_consume(queue)
        await other.queue_delete(queue)
        try:
            await consumer.deliveries(1)
            raise AssertionError("its queue is gone")
        except exceptions.ConsumerCancelled:
            pass
    try:
        await harrier.aio.connect(URL.replace("guest@", "wrong@"))
        raise AssertionError("the login should be refused")
    except exceptions.ProbableAuthenticationError as error:
        equal(error.reply_code, 403)


async def cancelled_consumer():
    """Iterating ends when the consumer is cancelled, after what it was given before."""
    async with await harrier.aio.connect(URL) as connection:
        channel = await connection.channel()
        queue = await queue_of(channel)
        await channel.publish_many("", queue, [b"1", b"2"])
        consumer = await channel.basic_consume(queue, auto_ack=True)
        got = [message.body for message in await consumer.deliveries(1)]
        await consumer.cancel()
        got += [message.body async for message in consumer]
        equal(got, [b"1", b"2"])


async def slow_broker():
    """A broker that takes nothing holds the publisher, and not the loop; what was written is bounded."""
    pid = int(os.environ["BROKER_PID"])
    async with await harrier.aio.connect(URL) as connection:
        channel = await connection.channel()
        queue = await queue_of(channel)
        body = bytes(100_000)
        os.kill(pid, signal.SIGSTOP)
        try:
            publishing = asyncio.ensure_future(channel.publish_many("", queue, [body] * 300))
            published = asyncio.ensure_future(channel.publish_many("", queue, [body] * 300))
            # Two batches are written by now, and the next ones wait.
            for _ in range(50):
                await asyncio.sleep(0.001)
            equal((publishing.done(), published.done()), (False, False))
            equal(connection._core.unsent_bytes() < 64 << 20, True, "bounded")
        finally:
            os.kill(pid, signal.SIGCONT)
        await asyncio.gather(publishing, published)
        equal((await channel.queue_declare(queue, passive=True)).message_count, 600)


EXPECTATIONS = {
    "first-message": first_message,
    "both-ways": both_ways,
    "calls": calls,
    "confirms": confirms,
    "faults": faults,
    "cancelled-consumer": cancelled_consumer,
    "slow-broker": slow_broker,
}

if __name__ == "__main__":
    report = Report()
    way = os.environ["WAY"]
    for name, body in EXPECTATIONS.items():
        report.check(f"python-aio-{way}-{name}", lambda body=body: asyncio.run(asyncio.wait_for(body(), DEADLINE_S)))
    report.exit()
