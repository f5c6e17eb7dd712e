"""What a message costs a Python program: pika, this package in pika's words, its runs of messages, and asyncio.

Usage:  rate.py [COUNT]      with AMQP_URL, pika and a release build of the package in the environment.
Leaves: a table: messages a second and the client's processor time a message, of publishing and of consuming 64 bytes;
        the median of five runs that take turns, and lowest and highest.
"""

import asyncio
import os
import statistics
import sys
import time

import harrier
import harrier.aio

URL = os.environ["AMQP_URL"]
BODY = b"x" * 64
RUNS = 5
ACK_EVERY = 100


class Stretch:
    """Wall and processor time from its making to `end`."""

    def __init__(self, count):
        self.count = count
        self.wall, self.cpu = time.monotonic(), time.process_time()

    def end(self):
        wall, cpu = time.monotonic() - self.wall, time.process_time() - self.cpu
        return self.count / wall, cpu / self.count * 1e6


def in_words(package):
    """The words that both packages have: one call a message, a callback a delivery."""

    def run(count):
        connection = package.BlockingConnection(package.URLParameters(URL))
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        publishing = Stretch(count)
        for _ in range(count):
            channel.basic_publish("", queue, BODY)
        # Answered behind all of them.
        assert channel.queue_declare(queue, passive=True).method.message_count == count
        published = publishing.end()
        seen = 0

        def on_message(channel, method, _properties, _body):
            nonlocal seen
            seen += 1
            if seen % ACK_EVERY == 0:
                channel.basic_ack(method.delivery_tag, multiple=True)
            if seen == count:
                channel.stop_consuming()

        channel.basic_qos(prefetch_count=1000)
        channel.basic_consume(queue, on_message)
        consuming = Stretch(count)
        channel.start_consuming()
        consumed = consuming.end()
        connection.close()
        return published, consumed

    return run


def in_runs(count):
    """`publish_many` and `deliveries`."""
    with harrier.BlockingConnection(harrier.URLParameters(URL)) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).queue
        publishing = Stretch(count)
        for _ in range(count // 1000):
            channel.publish_many("", queue, [BODY] * 1000)
        assert channel.queue_declare(queue, passive=True).message_count == count
        published = publishing.end()
        channel.basic_qos(prefetch_count=1000)
        channel.basic_consume(queue)
        consuming, seen = Stretch(count), 0
        while seen < count:
            found = channel.deliveries(500)
            seen += len([message.body for message in found])
            channel.basic_ack(found[-1].delivery_tag, multiple=True)
        return published, consuming.end()


def in_a_loop(count):
    """`harrier.aio`: one await a message published, runs of deliveries."""

    async def run():
        async with await harrier.aio.connect(URL) as connection:
            channel = await connection.channel()
            queue = (await channel.queue_declare("", exclusive=True)).queue
            publishing = Stretch(count)
            for _ in range(count):
                await channel.basic_publish("", queue, BODY)
            assert (await channel.queue_declare(queue, passive=True)).message_count == count
            published = publishing.end()
            await channel.basic_qos(1000)
            consumer = await channel.basic_consume(queue)
            consuming, seen = Stretch(count), 0
            while seen < count:
                found = await consumer.deliveries(500)
                seen += len(found)
                await channel.basic_ack(found[-1].delivery_tag, multiple=True)
            return published, consuming.end()

    return asyncio.run(run())


def large(count=200, size=1 << 20):
    """Receiving a megabyte: as `bytes`, and in place. Microseconds of the client's processor time a message."""
    took = []
    for zero_copy in (False, True):
        with harrier.BlockingConnection(harrier.URLParameters(URL, zero_copy=zero_copy)) as connection:
            channel = connection.channel()
            queue = channel.queue_declare("", exclusive=True).queue
            channel.publish_many("", queue, [bytes(size)] * count)
            channel.basic_qos(prefetch_count=8)
            channel.basic_consume(queue)
            consuming, seen = Stretch(count), 0
            while seen < count:
                found = channel.deliveries(8)
                seen += len(found)
                channel.basic_ack(found[-1].delivery_tag, multiple=True)
            took.append(consuming.end()[1])
    return took


def cell(values, digits=0):
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:,.{digits}f} ({low:,.{digits}f} to {high:,.{digits}f})"


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    ways = {"harrier, pika's words": in_words(harrier), "harrier, in runs": in_runs, "harrier.aio": in_a_loop}
    try:
        import pika

        ways = {f"pika {pika.__version__}": in_words(pika), **ways}
    except ImportError:
        print("SKIPPED: pika is not installed", file=sys.stderr)
    found = {name: [] for name in ways}
    copies = []
    for _ in range(RUNS):
        for name, run in ways.items():
            found[name].append(run(count))
        copies.append(large())
    print("| | published a second | client CPU, µs | consumed a second | client CPU, µs |\n|---|---|---|---|---|")
    for name, runs in found.items():
        cells = [cell([run[way][what] for run in runs], what) for way in (0, 1) for what in (0, 1)]
        print(f"| {name} | {' | '.join(cells)} |")
    print("\n| 1 MiB received | client CPU, µs |\n|---|---|")
    print(f"| as `bytes` | {cell([run[0] for run in copies])} |")
    print(f"| in place (`zero_copy`) | {cell([run[1] for run in copies])} |")


if __name__ == "__main__":
    main()
