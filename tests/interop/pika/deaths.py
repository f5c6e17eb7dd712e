"""pika's expectations of what dead letters carry: each field of each death, keys, cycles, and what is none.

Enters: connections of scene.py.  Leaves: EXPECTATIONS, by name.
Owns:   queues and exchanges of its own names, deleted in the end.
Never:  looks at when messages die (see features.py, limits.py).
"""

import datetime
import time

import pika

from scene import BROKER, ready, unique, until  # first: it says where report.py is
from features import dead_lettering, emptied, put, queue_with, taken, with_channel
from report import equal


def deaths(properties):
    """The deaths of a message, the last one first, their times checked and taken off."""
    events = [dict(event) for event in properties.headers["x-death"]]
    for event in events:
        at = event.pop("time")
        equal(isinstance(at, datetime.datetime), True, f"a time stamp: {at!r}")
        age_s = time.time() - at.replace(tzinfo=datetime.timezone.utc).timestamp()
        equal(-2 < age_s < 60, True, f"the time is now: {age_s} s ago")
        event["count"] = int(event["count"])
    return events


@with_channel
def death_of_each_reason(made, channel):
    last = channel.queue_declare("", exclusive=True).method.queue
    full = queue_with(channel, dead_letter_exchange="", dead_letter_routing_key=last, max_length=0)
    slow = queue_with(channel, dead_letter_exchange="", dead_letter_routing_key=full, message_ttl=20)
    first = queue_with(channel, dead_letter_exchange="", dead_letter_routing_key=slow)
    exchange = unique("source")
    channel.exchange_declare(exchange, "fanout", auto_delete=True)
    channel.queue_bind(first, exchange)
    sent = pika.BasicProperties(expiration="60000", headers={"mine": "kept"})
    channel.basic_publish(exchange, "key", b"x", sent)
    channel.basic_reject(channel.basic_get(first)[0].delivery_tag, requeue=False)
    method, properties, _ = taken(channel, last)
    equal((method.exchange, method.routing_key), ("", last))
    found = deaths(properties)
    if BROKER == "rabbitmq":
        # The earlier ones are turned round with every further death.
        found[1:] = reversed(found[1:])
    equal(
        found,
        [
            {"count": 1, "reason": "maxlen", "queue": full, "exchange": "", "routing-keys": [full]},
            {"count": 1, "reason": "expired", "queue": slow, "exchange": "", "routing-keys": [slow]},
            {
                "count": 1,
                "reason": "rejected",
                "queue": first,
                "exchange": exchange,
                "routing-keys": ["key"],
                "original-expiration": "60000",
            },
        ],
    )
    found = {name: item for name, item in properties.headers.items() if name.startswith("x-first-death")}
    equal(
        found, {"x-first-death-reason": "rejected", "x-first-death-queue": first, "x-first-death-exchange": exchange}
    )
    equal((properties.headers["mine"], properties.expiration), ("kept", None))


@with_channel
def death_and_keys(made, channel):
    exchange = unique("keys")
    channel.exchange_declare(exchange, "topic", auto_delete=True)
    dead = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(dead, exchange, "#")
    keeps = queue_with(channel, dead_letter_exchange=exchange, max_length=0)
    renames = queue_with(channel, dead_letter_exchange=exchange, dead_letter_routing_key="other", max_length=0)
    for queue, key, copies in ((keeps, keeps, ["copy"]), (renames, "other", None)):
        put(channel, queue, "x", headers={"CC": ["copy"], "BCC": ["blind"]})
        method, properties, _ = taken(channel, dead)
        equal((method.exchange, method.routing_key), (exchange, key))
        equal(deaths(properties)[0]["routing-keys"], [queue, "copy"])
        equal((properties.headers.get("CC"), "BCC" in properties.headers), (copies, False))
        equal(ready(channel, dead), 0, "one copy")


@with_channel
def death_at_home(made, channel):
    """A queue that is its own grave: what a consumer rejects returns, what ends by itself is gone."""
    for arguments, ends_by_itself in (({}, False), ({"x-message-ttl": 20}, True), ({"x-max-length": 0}, True)):
        name = unique("home")
        own = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": name}
        channel.queue_declare(name, exclusive=True, arguments=arguments | own)
        put(channel, name, "x")
        if ends_by_itself:
            emptied(made, channel, name)
            continue
        for round_ in range(1, 4):
            channel.basic_reject(channel.basic_get(name)[0].delivery_tag, requeue=False)
            until(made, lambda: ready(channel, name) == 1, "it is back")
            method, properties, _ = channel.basic_get(name)
            equal((deaths(properties)[0]["count"], method.redelivered), (round_, False))
            channel.basic_nack(method.delivery_tag, requeue=True)


@with_channel
def death_of_many(made, channel):
    queue, dead = dead_lettering(channel)
    put(channel, queue, *"abcde")
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(4)]
    channel.basic_nack(tags[2], multiple=True, requeue=False)
    until(made, lambda: ready(channel, dead) == 3, "3 dead letters")
    equal([taken(channel, dead)[2] for _ in range(3)], ["a", "b", "c"], "in their order")
    transaction = made.channel()
    transaction.tx_select()
    transaction.basic_reject(transaction.basic_get(queue)[0].delivery_tag, requeue=False)
    equal(ready(channel, dead), 0, "not before the commit")
    transaction.tx_commit()
    equal(taken(channel, dead)[2], "e")


@with_channel
def no_death(made, channel):
    """Purged, or gone with its queue: no dead letter."""
    dead = channel.queue_declare("", exclusive=True).method.queue
    for end in (channel.queue_purge, channel.queue_delete):
        queue = queue_with(channel, dead_letter_exchange="", dead_letter_routing_key=dead)
        put(channel, queue, "a", "b")
        end(queue)
    plain = queue_with(channel, dead_letter_exchange="", dead_letter_routing_key=dead)
    put(channel, plain, "acknowledged", "dead")
    channel.basic_ack(channel.basic_get(plain)[0].delivery_tag)
    channel.basic_reject(channel.basic_get(plain)[0].delivery_tag, requeue=False)
    equal(taken(channel, dead)[2], "dead")
    equal(ready(channel, dead), 0)


@with_channel
def death_of_old_brokers(made, channel):
    # They wrote an entry for each death, without a count.
    last = channel.queue_declare("", exclusive=True).method.queue
    queue = queue_with(channel, dead_letter_exchange="", dead_letter_routing_key=last, max_length=0)
    events = [{"queue": name, "reason": reason} for name, reason in (("a", "expired"), ("b", "rejected"), ("a", "expired"))]
    put(channel, queue, "x", headers={"x-death": events})
    _, properties, _ = taken(channel, last)
    found = [(event["queue"], event["reason"], int(event["count"])) for event in properties.headers["x-death"]]
    equal(found[0], (queue, "maxlen", 1))
    equal(sorted(found[1:]), [("a", "expired", 2), ("b", "rejected", 1)])


EXPECTATIONS = {
    "death-of-old-brokers": death_of_old_brokers,
    "death-of-each-reason": death_of_each_reason,
    "death-and-keys": death_and_keys,
    "death-at-home": death_at_home,
    "death-of-many": death_of_many,
    "no-death": no_death,
}
