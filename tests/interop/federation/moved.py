"""A load that moves from RabbitMQ to Harrier and back while it runs, by the steps of docs/moving-from-rabbitmq.md.

Enters: the brokers of `joined`.  Leaves: nothing: each expectation removes what it has made.
Owns:   the script.
Never:  sleeps: every wait is for a message or a count, with a deadline.
"""

import json

import pika

from joined import deleted, waited
from report import equal
from scene import unique, until

STEP = 300


class Load:
    """A publisher that waits for its confirms, and a consumer that acknowledges; either may move to another broker."""

    def __init__(self, queue, broker):
        self.queue, self.published, self.got = queue, 0, []
        self.publisher = self.consumer = None
        self.publish_to(broker)
        self.consume_from(broker)

    def publish_to(self, broker):
        if self.publisher:
            self.publisher.close()
        self.publisher = broker.connect()
        self.sent = self.publisher.channel()
        self.sent.confirm_delivery()

    def consume_from(self, broker):
        self.rest()
        self.consumer = broker.connect()
        taken = self.consumer.channel()
        taken.basic_qos(prefetch_count=20)
        taken.basic_consume(self.queue, self.take)

    def rest(self):
        """Nobody consumes."""
        if self.consumer:
            self.consumer.close()
        self.consumer = None

    def take(self, channel, method, _properties, body):
        self.got.append(int(body))
        channel.basic_ack(method.delivery_tag)

    def publish(self, count=STEP):
        stored = pika.BasicProperties(delivery_mode=2)
        for _ in range(count):
            self.sent.basic_publish("", self.queue, b"%d" % self.published, stored, mandatory=True)
            self.published += 1

    def until_all_came(self):
        until(self.consumer, lambda: len(self.got) >= self.published, f"{self.published} messages, not {len(self.got)}")

    def stop(self):
        self.rest()
        self.publisher.close()


def waiting(broker, queue):
    connection = broker.connect()
    try:
        return connection.channel().queue_declare(queue, passive=True).method.message_count
    finally:
        connection.close()


def moved_and_back(scene):
    # RabbitMQ pulls what is called `back…` from Harrier: that is how all goes back.
    old, new = scene.joined.plugged, scene.joined.harrier
    queue = unique("back-moved").removeprefix("pika-")
    for broker in (old, new):
        scene.undo.append(lambda broker=broker: deleted(broker, lambda channel: channel.queue_delete(queue)))
        deleted(broker, lambda channel: channel.queue_declare(queue, durable=True))
    load = Load(queue, old)
    scene.undo.append(load.stop)
    load.publish()
    load.until_all_came()
    # A backlog is moved, too.
    load.rest()
    load.publish()
    new.ctl("set_parameter", "federation-upstream", "old", json.dumps({"uri": old.url, "prefetch-count": 100}))
    scene.undo.append(lambda: new.ctl("clear_parameter", "federation-upstream", "old"))
    policy = json.dumps({"federation-upstream": "old"})
    new.ctl("set_policy", "--apply-to", "queues", "move", f"^{queue}$", policy)
    scene.undo.append(lambda: new.ctl("clear_policy", "move"))
    load.consume_from(new)
    load.publish()
    load.until_all_came()
    load.publish_to(new)
    load.publish()
    load.until_all_came()
    waited(lambda: waiting(old, queue) == 0, lambda: "nothing is left at the old broker")
    # And back, with a backlog.
    load.rest()
    load.publish()
    load.consume_from(old)
    load.publish()
    load.until_all_came()
    load.publish_to(old)
    load.publish()
    load.until_all_came()
    equal(sorted(load.got), list(range(load.published)), "each message came once")
    equal((waiting(old, queue), waiting(new, queue)), (0, 0), "what waits at both")


EXPECTATIONS = {"moved-and-back": moved_and_back}
