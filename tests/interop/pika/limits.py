"""pika's expectations of the edges of queue features: which time counts, what is use, what fills a queue, who is served.

Enters: connections of scene.py.  Leaves: EXPECTATIONS, by name.
Owns:   queues of its own names, deleted in the end.
Never:  looks into dead letters (see deaths.py).
"""

import time

from pika import exceptions

from scene import collector, connection, ready, refused, texts, unique, until  # first: it says where report.py is
from features import dead_lettering, emptied, put, queue_with, taken, with_channel
from report import equal


def passed(made, start, seconds):
    until(made, lambda: time.monotonic() > start + seconds, f"{seconds} s have passed")


def there(made, name):
    """Whether a queue is there, seen without using it: asking for the deletion of one that is not empty is refused."""
    channel = made.channel()
    try:
        channel.queue_delete(name, if_empty=True)
    except exceptions.ChannelClosedByBroker as closed:
        equal(closed.reply_code, 406)
        return True
    return False


@with_channel
def ttl_shorter_counts(made, channel):
    long = queue_with(channel, message_ttl=60_000)
    put(channel, long, "short", expiration="50")
    emptied(made, channel, long)
    short = queue_with(channel, message_ttl=50)
    put(channel, short, "long", expiration="60000")
    emptied(made, channel, short)
    plain = queue_with(channel)
    put(channel, plain, "x", expiration="60000")
    equal(taken(channel, plain)[1].expiration, "60000", "who takes it sees its time")


@with_channel
def ttl_of_the_queue_zero(made, channel):
    queue, dead = dead_lettering(channel, message_ttl=0)
    put(channel, queue, "nobody takes it", expiration="60000")
    equal(taken(channel, dead)[2], "nobody takes it")
    got, _ = collector(channel, queue, auto_ack=True)
    put(channel, queue, "somebody does")
    until(made, lambda: got, "a delivery")
    equal(texts(got), ["somebody does"])


@with_channel
def ttl_of_what_comes_back(made, channel):
    queue, dead = dead_lettering(channel, message_ttl=1000)
    put(channel, queue, "a")
    start = time.monotonic()
    tag = channel.basic_get(queue)[0].delivery_tag
    passed(made, start, 1.3)
    equal(ready(channel, dead), 0, "a consumer may keep it for longer")
    channel.basic_nack(tag, requeue=True)
    equal(taken(channel, dead)[2], "a")
    equal(ready(channel, queue), 0)


@with_channel
def expiry_renewed_by_use(made, channel):
    name = unique("used")
    arguments = {"x-expires": 2000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": unique("nowhere")}
    channel.queue_declare(name, arguments=arguments)
    for use in (lambda: channel.basic_get(name), lambda: channel.queue_declare(name, arguments=arguments)):
        for _ in range(3):
            start = time.monotonic()
            passed(made, start, 0.7)
            use()
    start = time.monotonic()
    put(channel, name, "a")
    passed(made, start, 0.7)
    put(channel, name, "b")
    equal(there(made, name), True)
    until(made, lambda: not there(made, name), "it goes, with its messages: to publish is no use")
    equal(time.monotonic() - start < 10, True, "and not long after")


@with_channel
def length_of_what_waits(made, channel):
    queue, dead = dead_lettering(channel, max_length=2)
    put(channel, queue, "a", "b")
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(2)]
    put(channel, queue, "c", "d")
    equal((ready(channel, queue), ready(channel, dead)), (2, 0), "what is out does not count")
    channel.basic_nack(tags[1], multiple=True, requeue=True)
    until(made, lambda: ready(channel, dead) == 2, "what comes back is the oldest again")
    equal([taken(channel, dead)[2] for _ in range(2)], ["a", "b"])
    equal([taken(channel, queue)[2] for _ in range(2)], ["c", "d"])
    both = queue_with(channel, max_length=3, max_length_bytes=10)
    put(channel, both, "1", "2", "3", "4")
    equal(ready(channel, both), 3)
    put(channel, both, "123456789")
    equal([taken(channel, both)[2] for _ in range(2)], ["4", "123456789"])


@with_channel
def length_zero(made, channel):
    queue, dead = dead_lettering(channel, max_length=0)
    put(channel, queue, "nobody takes it")
    equal(taken(channel, dead)[2], "nobody takes it")
    got, _ = collector(channel, queue, auto_ack=True)
    put(channel, queue, "somebody does")
    until(made, lambda: got, "a delivery")
    equal(texts(got), ["somebody does"])
    empty = queue_with(channel, max_length_bytes=0)
    put(channel, empty, "", "x", "")
    equal(ready(channel, empty), 1, "an empty body has no bytes")


@with_channel
def overflow_by_bytes(made, channel):
    queue, dead = dead_lettering(channel, max_length_bytes=10, overflow="reject-publish-dlx")
    put(channel, queue, "12345678")
    try:
        put(channel, queue, "12345")
        raise AssertionError("taken beyond its limit")
    except exceptions.NackError:
        equal(taken(channel, dead)[2], "12345")
    put(channel, queue, "12")
    equal([taken(channel, queue)[2] for _ in range(2)], ["12345678", "12"])


@with_channel
def length_of_a_priority_queue(made, channel):
    queue = queue_with(channel, max_length=2, max_priority=5)
    put(channel, queue, "low")
    put(channel, queue, "high", priority=5)
    put(channel, queue, "new")
    equal([taken(channel, queue)[2] for _ in range(2)], ["low", "new"], "the head goes, which is the highest")


@with_channel
def ttl_of_a_priority_queue(made, channel):
    queue = queue_with(channel, max_priority=5)
    put(channel, queue, "above", priority=5)
    put(channel, queue, "below", priority=1, expiration="50")
    start = time.monotonic()
    passed(made, start, 0.3)
    equal(ready(channel, queue), 2, "it stands behind one that stays")
    equal(taken(channel, queue)[2], "above")
    emptied(made, channel, queue)


@with_channel
def consumers_in_turn(made, channel):
    queue = queue_with(channel)
    channel.basic_qos(prefetch_count=10)
    first, _ = collector(channel, queue)
    second, _ = collector(channel, queue)
    below, _ = collector(channel, queue, arguments={"x-priority": -1})
    put(channel, queue, *(str(number) for number in range(8)))
    until(made, lambda: len(first) + len(second) == 8, "8 deliveries")
    equal((len(first), len(second), len(below)), (4, 4, 0))


@with_channel
def single_active_consumer_is_lost(made, channel):
    queue = unique("single")
    channel.queue_declare(queue, auto_delete=False, arguments={"x-single-active-consumer": True})
    with connection() as other:
        lost, _ = collector(other.channel(), queue)
        put(channel, queue, "a", "b")
        until(other, lambda: len(lost) == 2, "the first has all")
        next_, _ = collector(channel, queue)
        put(channel, queue, "c")
        until(other, lambda: len(lost) == 3, "and goes on to")
    until(made, lambda: len(next_) == 3, "the second follows")
    equal([item[1:] for item in next_], [(True, "a"), (True, "b"), (True, "c")])
    channel.queue_delete(queue)


@with_channel
def single_active_consumer_and_prefetch(made, channel):
    queue = queue_with(channel, single_active_consumer=True)
    channel.basic_qos(prefetch_count=1)
    first, _ = collector(channel, queue)
    second, _ = collector(channel, queue)
    put(channel, queue, "a", "b")
    until(made, lambda: len(first) == 1, "one delivery")
    equal((ready(channel, queue), len(second)), (1, 0), "nobody helps one that is full")
    channel.basic_ack(first[0][0])
    until(made, lambda: len(first) == 2, "the next")
    with refused(403, f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"):
        made.channel().basic_consume(queue, lambda *_: None, exclusive=True)


EXPECTATIONS = {
    "ttl-shorter-counts": ttl_shorter_counts,
    "ttl-of-the-queue-zero": ttl_of_the_queue_zero,
    "ttl-of-what-comes-back": ttl_of_what_comes_back,
    "expiry-renewed-by-use": expiry_renewed_by_use,
    "length-of-what-waits": length_of_what_waits,
    "length-zero": length_zero,
    "overflow-by-bytes": overflow_by_bytes,
    "length-of-a-priority-queue": length_of_a_priority_queue,
    "ttl-of-a-priority-queue": ttl_of_a_priority_queue,
    "consumers-in-turn": consumers_in_turn,
    "single-active-consumer-is-lost": single_active_consumer_is_lost,
    "single-active-consumer-and-prefetch": single_active_consumer_and_prefetch,
}
