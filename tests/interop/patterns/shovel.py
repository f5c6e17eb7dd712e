"""Shovel's pattern: messages of one broker's queue republished to another, each acknowledged as late as it must be.

Enters: connections of ../pika/scene.py, the second broker (see ../second.py).  Leaves: EXPECTATIONS, by name.
Owns:   queues of its own names on both, deleted in the end.
Never:  sleeps: every wait is for a message, a confirm or an end, with a deadline.
"""

import contextlib

import pika

from scene import DEADLINE_S, URL, connection, ready, unique  # first: it says where report.py is
import second
from report import equal

PREFETCH = 50


def settled(url):
    settings = pika.URLParameters(url)
    settings.heartbeat = 0
    settings.blocked_connection_timeout = DEADLINE_S
    return pika.BlockingConnection(settings)


class End:
    """A connection and its channel on a loop that both ends share."""

    def __init__(self, loop, url, ready):
        self.loop, self.ready, self.channel, self.lost = loop, ready, None, None
        settings = pika.URLParameters(url)
        settings.heartbeat = 0
        self.connection = pika.SelectConnection(
            settings,
            on_open_callback=lambda made: made.channel(on_open_callback=self.on_channel),
            on_open_error_callback=self.on_lost,
            on_close_callback=self.on_lost,
            custom_ioloop=loop,
        )

    def on_channel(self, channel):
        self.channel = channel
        self.ready(channel)

    def on_lost(self, _connection, why):
        self.lost = why
        self.loop.stop()


class Shovel:
    """Moves messages, publishing without waiting; in its usual mode a confirm acknowledges on the other side."""

    def __init__(self, source, queue, url, target, mode="on-confirm"):
        self.queue, self.target, self.mode = queue, target, mode
        self.loop = pika.adapters.select_connection.IOLoop()
        self.moved, self.sent, self.under_way, self.most_under_way = 0, 0, {}, 0
        self.condition = None
        self.near = None
        # Nothing is taken before there is somewhere to put it.
        self.far = End(self.loop, url, self.on_target)
        self.source = source

    def on_target(self, channel):
        self.out = channel
        channel.confirm_delivery(self.on_confirm, callback=lambda _: self.take())

    def take(self):
        self.near = End(self.loop, self.source, self.on_source)

    def on_source(self, channel):
        channel.basic_qos(prefetch_count=PREFETCH)
        channel.basic_consume(self.queue, self.on_message, auto_ack=self.mode == "no-ack")

    def on_message(self, channel, method, properties, body):
        properties.headers = {**(properties.headers or {}), "x-shovelled": [{"src-queue": self.queue, "shovel-type": "dynamic"}]}
        self.out.basic_publish("", self.target, body, properties)
        self.sent += 1
        self.under_way[self.sent] = method.delivery_tag
        self.most_under_way = max(self.most_under_way, len(self.under_way))
        if self.mode == "on-publish":
            channel.basic_ack(method.delivery_tag)

    def on_confirm(self, frame):
        last, multiple = frame.method.delivery_tag, frame.method.multiple
        for number in [number for number in self.under_way if number == last or (multiple and number < last)]:
            tag = self.under_way.pop(number)
            if self.mode == "on-confirm":
                self.near.channel.basic_ack(tag)
            self.moved += 1
        if self.condition and self.condition():
            self.loop.stop()

    def run(self, condition, what):
        """Until the condition holds, looked at after each confirm. Returns what an end was lost of, or None."""
        self.condition = condition
        late = self.loop.call_later(DEADLINE_S, self.loop.stop)
        if not condition():
            self.loop.start()
        self.loop.remove_timeout(late)
        lost = self.far.lost or (self.near and self.near.lost)
        if not condition() and not lost:
            raise AssertionError(f"not within {DEADLINE_S} s: {what}; moved {self.moved}")
        return lost

    def close(self):
        """Both ends in order; what is not acknowledged goes back."""
        ends = [end for end in (self.near, self.far) if end and not end.lost]
        for end in ends:
            end.connection.close()
            while not end.lost:
                self.loop.start()
        self.loop.close()


@contextlib.contextmanager
def scene(count):
    """A source with messages in it, an empty target on the second broker, and its address."""
    url = second.started()
    source, target = unique("shovel-from"), unique("shovel-to")
    with connection() as near:
        channel = near.channel()
        channel.queue_declare(source, durable=True)
        channel.confirm_delivery()
        for number in range(count):
            channel.basic_publish("", source, str(number).encode(), pika.BasicProperties(delivery_mode=2, message_id=str(number)))
        far = settled(url)
        far.channel().queue_declare(target, arguments={"x-expires": 120_000})
        far.close()
        try:
            yield channel, source, url, target
        finally:
            channel.queue_delete(source)


def arrived(url, target):
    """What the target holds, in order; with the header that tells where it came from."""
    far = settled(url)
    channel, found = far.channel(), []
    while True:
        method, properties, body = channel.basic_get(target, auto_ack=True)
        if not method:
            break
        equal("x-shovelled" in properties.headers and properties.message_id == body.decode(), True, "its properties")
        found.append(int(body))
    channel.queue_delete(target)
    far.close()
    return found


def each_mode(mode):
    def run():
        count = 500
        with scene(count) as (channel, source, url, target):
            shovel = Shovel(URL, source, url, target, mode)
            equal(shovel.run(lambda: shovel.moved == count, "all are moved"), None)
            if mode == "on-confirm":
                equal(shovel.most_under_way <= PREFETCH, True, "no more than its prefetch count")
            shovel.close()
            equal(ready(channel, source), 0, "nothing is left or comes back")
            equal(arrived(url, target), list(range(count)), "once each, in order")

    return run


def target_restarts():
    """The other broker stops in the middle: nothing is acknowledged that it did not confirm, and the rest goes to it when it is back."""
    count = 400
    with scene(count) as (channel, source, url, target):
        shovel = Shovel(URL, source, url, target)
        equal(shovel.run(lambda: shovel.moved >= 100, "some are moved"), None)
        second.stopped()
        # Nobody read while it stopped: its words may be lost with the connection.
        shovel.run(lambda: False, "the end of the other broker is noticed")
        moved = shovel.moved
        shovel.close()
        equal((100 <= moved < count, ready(channel, source)), (True, count - moved), "what is not confirmed is still here")
        equal(second.started(), url, "it comes back to its address")
        far = settled(url)
        far.channel().queue_declare(target, arguments={"x-expires": 120_000})
        far.close()
        again = Shovel(URL, source, url, target)
        equal(again.run(lambda: again.moved == count - moved, "the rest is moved"), None)
        again.close()
        equal(ready(channel, source), 0, "nothing is left")
        equal(arrived(url, target), list(range(moved, count)), "the rest, once each, in order")


EXPECTATIONS = {
    "shovel-on-confirm": each_mode("on-confirm"),
    "shovel-on-publish": each_mode("on-publish"),
    "shovel-no-ack": each_mode("no-ack"),
    "shovel-target-restarts": target_restarts,
}
