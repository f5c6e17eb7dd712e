"""What a restart leaves, by RabbitMQ's rules: each expectation declares and publishes, yields for the restart, and looks.

Enters: a broker (see check.py), which gives connections.  Leaves: EXPECTATIONS, by name.
Owns:   exchanges and queues of its own names.
Never:  sleeps: every wait is for a condition, with a deadline.
"""

import time

import pika
from pika import exceptions

from report import equal

DEADLINE_S = 15
PERSISTENT, TRANSIENT = 2, 1


def put(channel, queue, *bodies, exchange="", mode=PERSISTENT, **properties):
    for body in bodies:
        sent = pika.BasicProperties(delivery_mode=mode, **properties)
        channel.basic_publish(exchange, queue, body.encode(), sent, mandatory=True)


def taken(channel, queue):
    """All messages of a queue, acknowledged: (text, redelivered)."""
    got = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if not method:
            return got
        got.append((body.decode(), method.redelivered))


def texts(channel, queue):
    return [text for text, _ in taken(channel, queue)]


def is_gone(broker, declare):
    """Whether a passive declaration is answered by 404."""
    try:
        declare(broker.channel())
    except exceptions.ChannelClosedByBroker as closed:
        equal(closed.reply_code, 404)
        return True
    return False


def queue_gone(broker, name):
    return is_gone(broker, lambda channel: channel.queue_declare(name, passive=True))


def exchange_gone(broker, name):
    return is_gone(broker, lambda channel: channel.exchange_declare(name, passive=True))


def queues(broker):
    """Durable ones survive with their arguments, transient and exclusive ones do not; a deleted one stays deleted."""
    word = broker.prefix
    channel = broker.channel()
    channel.queue_declare(f"{word}.kept", durable=True, arguments={"x-max-length": 3})
    channel.queue_declare(f"{word}.passing")
    channel.queue_declare(f"{word}.own", durable=True, exclusive=True)
    channel.queue_declare(f"{word}.deleted", durable=True)
    channel.queue_delete(f"{word}.deleted")
    yield
    for name in ("passing", "own", "deleted"):
        equal(queue_gone(broker, f"{word}.{name}"), True, name)
    channel = broker.channel(confirms=True)
    channel.queue_declare(f"{word}.kept", durable=True, arguments={"x-max-length": 3})
    put(channel, f"{word}.kept", *"abcde")
    equal(texts(channel, f"{word}.kept"), ["c", "d", "e"], "its arguments are in force")


def auto_delete_queue(broker):
    """One that never had a consumer is there, and goes with its first one."""
    name = f"{broker.prefix}.auto-delete"
    channel = broker.channel()
    channel.queue_declare(name, durable=True, auto_delete=True)
    yield
    equal(queue_gone(broker, name), False)
    channel = broker.channel()
    channel.basic_cancel(channel.basic_consume(name, lambda *_: None))
    equal(queue_gone(broker, name), True)


def exchanges(broker):
    """Durable ones survive with their type and arguments, transient ones do not."""
    word = broker.prefix
    channel = broker.channel()
    channel.exchange_declare(f"{word}.alternate", "fanout", durable=True)
    arguments = {"alternate-exchange": f"{word}.alternate"}
    channel.exchange_declare(f"{word}.kept", "topic", durable=True, arguments=arguments)
    channel.exchange_declare(f"{word}.passing", "topic")
    channel.exchange_declare(f"{word}.auto", "topic", durable=True, auto_delete=True)
    channel.queue_declare(f"{word}.unrouted", durable=True)
    channel.queue_bind(f"{word}.unrouted", f"{word}.alternate")
    yield
    equal(exchange_gone(broker, f"{word}.passing"), True)
    equal(exchange_gone(broker, f"{word}.auto"), False)
    channel = broker.channel(confirms=True)
    channel.exchange_declare(f"{word}.kept", "topic", durable=True, arguments=arguments)
    put(channel, "nowhere", "x", exchange=f"{word}.kept")
    equal(texts(channel, f"{word}.unrouted"), ["x"], "the alternate exchange is in force")


def bindings(broker):
    """Those between durable ones survive, with their arguments; what was unbound stays so."""
    word = broker.prefix
    channel = broker.channel()
    channel.exchange_declare(f"{word}.first", "topic", durable=True)
    channel.exchange_declare(f"{word}.second", "headers", durable=True)
    channel.exchange_bind(f"{word}.second", f"{word}.first", "to.#")
    queue = f"{word}.bound"
    channel.queue_declare(queue, durable=True)
    channel.queue_bind(queue, f"{word}.second", arguments={"x-match": "all", "a": 1})
    channel.queue_bind(queue, f"{word}.first", "direct")
    channel.queue_bind(queue, f"{word}.first", "undone")
    channel.queue_unbind(queue, f"{word}.first", "undone")
    yield
    channel = broker.channel(confirms=True)
    put(channel, "to.second", "both", exchange=f"{word}.first", headers={"a": 1})
    put(channel, "direct", "one", exchange=f"{word}.first")
    for key, headers in (("to.second", {"a": 2}), ("undone", {})):
        try:
            put(channel, key, "lost", exchange=f"{word}.first", headers=headers)
        except exceptions.UnroutableError:
            continue
        raise AssertionError(f"{key} {headers} is routed")
    equal(texts(channel, queue), ["both", "one"])


def messages(broker):
    """Persistent ones in durable queues survive in their order, transient ones and acknowledged ones do not."""
    queue = f"{broker.prefix}.messages"
    channel = broker.channel(confirms=True)
    channel.queue_declare(queue, durable=True)
    for number in range(50):
        put(channel, queue, f"{number}", mode=TRANSIENT if number % 5 == 0 else PERSISTENT)
    for _ in range(10):
        channel.basic_ack(channel.basic_get(queue)[0].delivery_tag)
    # Answered, and so is what was sent before.
    channel.queue_declare(queue, passive=True)
    purged = f"{broker.prefix}.purged"
    channel.queue_declare(purged, durable=True)
    put(channel, purged, "a", "b")
    channel.queue_purge(purged)
    # An acknowledgement is durable with the next message at the latest, and a purge once it is answered.
    put(channel, queue, "last")
    yield
    channel = broker.channel()
    equal(taken(channel, queue), [(f"{number}", False) for number in range(10, 50) if number % 5] + [("last", False)])
    equal(texts(channel, purged), [])


def properties(broker):
    """A message survives with all of its properties, and its body."""
    queue = f"{broker.prefix}.properties"
    sent = pika.BasicProperties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers={"text": "ü", "int": 5, "big": 1 << 40, "bool": True, "none": None, "list": [1, "two"], "table": {"a": {"b": 1}}},
        delivery_mode=PERSISTENT,
        priority=7,
        correlation_id="c",
        reply_to="r",
        expiration="3600000",
        message_id="m",
        timestamp=1_700_000_000,
        type="t",
        app_id="a",
        cluster_id="x",
    )
    body = bytes(range(256)) * 4096
    channel = broker.channel(confirms=True)
    channel.queue_declare(queue, durable=True)
    channel.basic_publish("", queue, body, sent)
    yield
    method, found, got = broker.channel().basic_get(queue, auto_ack=True)
    equal(found, sent)
    equal(got == body, True, "its body")
    equal((method.exchange, method.routing_key), ("", queue))


def redelivered(broker):
    """What a consumer had is marked, and only that."""
    queue = f"{broker.prefix}.redelivered"
    channel = broker.channel(confirms=True)
    channel.queue_declare(queue, durable=True)
    put(channel, queue, *"abcd")
    for _ in range(2):
        channel.basic_get(queue)
    # What was delivered is durable with the next message at the latest.
    put(channel, queue, "e")
    yield
    equal(taken(broker.channel(), queue), [("a", True), ("b", True), ("c", False), ("d", False), ("e", False)])


def ttl(broker):
    """Time goes on while the broker is down, for that of the message and that of the queue; no time, no end."""
    word = broker.prefix
    channel = broker.channel(confirms=True)
    channel.queue_declare(f"{word}.ttl", durable=True, arguments={"x-message-ttl": 300})
    channel.queue_declare(f"{word}.own-ttl", durable=True)
    put(channel, f"{word}.ttl", "short")
    put(channel, f"{word}.own-ttl", "short", expiration="300")
    put(channel, f"{word}.own-ttl", "long", expiration="3600000")
    yield
    channel = broker.channel()
    deadline = time.monotonic() + DEADLINE_S
    for queue, left in ((f"{word}.ttl", 0), (f"{word}.own-ttl", 1)):
        while channel.queue_declare(queue, passive=True).method.message_count != left:
            if time.monotonic() > deadline:
                raise AssertionError(f"{queue} has not {left} messages")
            channel.connection.process_data_events(time_limit=0.05)
    equal(texts(channel, f"{word}.own-ttl"), ["long"])


def priorities(broker):
    """Higher ones first, and in their order."""
    queue = f"{broker.prefix}.priorities"
    channel = broker.channel(confirms=True)
    channel.queue_declare(queue, durable=True, arguments={"x-max-priority": 5})
    for number, priority in enumerate((0, 5, 3, 5, None, 9)):
        put(channel, queue, f"{number}", priority=priority)
    yield
    equal(texts(broker.channel(), queue), ["1", "3", "5", "2", "0", "4"])


def lengths(broker):
    """What was stored counts against a queue's length, by messages and by bytes, and what it had dropped stays away."""
    word = broker.prefix
    channel = broker.channel(confirms=True)
    limits = {f"{word}.length": {"x-max-length": 2}, f"{word}.bytes": {"x-max-length-bytes": 2}}
    for queue, arguments in limits.items():
        channel.queue_declare(queue, durable=True, arguments=arguments)
        put(channel, queue, *"abc")
    full = f"{word}.full"
    channel.queue_declare(full, durable=True, arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    put(channel, full, *"ab")
    yield
    channel = broker.channel(confirms=True)
    for queue in limits:
        equal(channel.queue_declare(queue, passive=True).method.message_count, 2)
        put(channel, queue, "d")
        equal(texts(channel, queue), ["c", "d"])
    try:
        put(channel, full, "c")
        raise AssertionError("a full queue takes a message")
    except exceptions.NackError:
        equal(texts(channel, full), ["a", "b"])


def quorum(broker):
    """Quorum queues remember how often a message came back, and give it up at their limit."""
    queue = f"{broker.prefix}.quorum"
    channel = broker.channel(confirms=True)
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum", "x-delivery-limit": 3})
    put(channel, queue, "a")
    for count in (0, 1):
        equal(returned(channel, queue), ("a", count))
    # How often it came back is durable with the next message at the latest.
    put(channel, queue, "b")
    yield
    channel = broker.channel()
    left = []
    while (count_of := returned(channel, queue)) and count_of[0] == "a":
        left.append(count_of[1])
    equal(left, [2, 3])
    equal(count_of, ("b", 0))


def returned(channel, queue):
    """Takes the first message of a quorum queue and gives it back. Its text, and how often it had come back before."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        method, properties, body = channel.basic_get(queue)
        if method:
            channel.basic_nack(method.delivery_tag, requeue=True)
            return body.decode(), int((properties.headers or {}).get("x-delivery-count", 0))
        # RabbitMQ gives it back a moment later.
        if time.monotonic() > deadline:
            raise AssertionError(f"{queue} is empty")
        channel.connection.process_data_events(time_limit=0.05)


def transactions(broker):
    """What was committed is there; what was not is not, and what it had settled is there again."""
    queue = f"{broker.prefix}.transactions"
    settled = f"{broker.prefix}.settled"
    channel = broker.channel(confirms=True)
    channel.queue_declare(queue, durable=True)
    channel.queue_declare(settled, durable=True)
    put(channel, settled, "a", "b")
    channel = broker.channel()
    channel.tx_select()
    put(channel, queue, "a", "b")
    channel.basic_ack(channel.basic_get(settled)[0].delivery_tag)
    channel.tx_commit()
    put(channel, queue, "c")
    channel.basic_ack(channel.basic_get(settled)[0].delivery_tag)
    yield
    channel = broker.channel()
    equal(texts(channel, queue), ["a", "b"])
    equal(texts(channel, settled), ["b"])


def dead_letters(broker):
    """They survive in a durable queue, with what they tell of their death; and the queue goes on to bury."""
    word = broker.prefix
    channel = broker.channel(confirms=True)
    channel.queue_declare(f"{word}.dead", durable=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{word}.dead"}
    channel.queue_declare(f"{word}.dying", durable=True, arguments=arguments)
    put(channel, f"{word}.dying", "before", "after")
    channel.basic_reject(channel.basic_get(f"{word}.dying")[0].delivery_tag, requeue=False)
    deadline = time.monotonic() + DEADLINE_S
    while channel.queue_declare(f"{word}.dead", passive=True).method.message_count != 1:
        if time.monotonic() > deadline:
            raise AssertionError("there is no dead letter")
    # The dead letter is durable with the next message at the latest.
    put(channel, f"{word}.dead", "marker")
    yield
    channel = broker.channel()
    method, found, body = channel.basic_get(f"{word}.dead", auto_ack=True)
    death = found.headers["x-death"][0]
    equal((body, death["reason"], death["queue"], death["count"]), (b"before", "rejected", f"{word}.dying", 1))
    equal(channel.basic_get(f"{word}.dead", auto_ack=True)[2], b"marker")
    channel.basic_reject(channel.basic_get(f"{word}.dying")[0].delivery_tag, requeue=False)
    deadline = time.monotonic() + DEADLINE_S
    while channel.queue_declare(f"{word}.dead", passive=True).method.message_count != 1:
        if time.monotonic() > deadline:
            raise AssertionError("there is no second dead letter")
    equal(texts(channel, f"{word}.dead"), ["after"])


EXPECTATIONS = {
    "queues": queues,
    "auto-delete-queue": auto_delete_queue,
    "exchanges": exchanges,
    "bindings": bindings,
    "messages": messages,
    "properties": properties,
    "redelivered": redelivered,
    "ttl": ttl,
    "priorities": priorities,
    "lengths": lengths,
    "quorum": quorum,
    "transactions": transactions,
    "dead-letters": dead_letters,
}
