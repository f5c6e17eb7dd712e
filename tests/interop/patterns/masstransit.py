"""MassTransit's patterns: a fanout exchange for each type and each endpoint, bound to each other; what becomes of what fails.

Enters: connections of ../pika/scene.py.  Leaves: EXPECTATIONS, by name.
Owns:   endpoints and exchanges of its own names, deleted in the end.
Never:  sleeps: every wait is for a message, with a deadline.
"""

import contextlib
import json
import time
import uuid

import pika

from scene import connection, ready, unique, until  # first: it says where report.py is
from report import equal

CONTENT_TYPE = "application/vnd.masstransit+json"


class Bus:
    """One service's connection: a channel that consumes, and one that publishes with confirms."""

    def __init__(self, made):
        self.made, self.channel, self.publisher = made, made.channel(), made.channel()
        self.publisher.confirm_delivery()
        self.queues, self.exchanges = [], []

    def type(self, name, *bases):
        """The exchange of a message type, bound to those of what it is a kind of."""
        self.exchange(name)
        for base in bases:
            self.exchange(base)
            self.channel.exchange_bind(base, name)
        return name

    def exchange(self, name, **more):
        self.channel.exchange_declare(name, "fanout", durable=True, **more)
        self.exchanges.append(name)

    def endpoint(self, name, types=(), **arguments):
        """A queue and an exchange of one name, and the exchange bound to those of its types."""
        arguments = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        self.exchange(name)
        self.channel.queue_declare(name, durable=True, arguments=arguments)
        self.channel.queue_bind(name, name, "")
        for one in types:
            self.exchange(one)
            self.channel.exchange_bind(name, one)
        self.queues.append(name)
        return name

    def send(self, exchange, kind, message, **more):
        headers = {"Content-Type": CONTENT_TYPE, "publishId": "1", **more.pop("headers", {})}
        envelope = {"messageId": str(uuid.uuid4()), "messageType": [f"urn:message:{kind}"], "message": message, "headers": {}}
        properties = pika.BasicProperties(
            content_type=CONTENT_TYPE, delivery_mode=2, message_id=envelope["messageId"], headers=headers, **more
        )
        self.publisher.basic_publish(exchange, "", json.dumps(envelope).encode(), properties)
        return envelope["messageId"]

    def forward(self, exchange, method, properties, body, **headers):
        """Moves a message: it is acknowledged when its copy is confirmed."""
        properties.headers = {**(properties.headers or {}), **headers}
        self.publisher.basic_publish(exchange, "", body, properties)
        self.channel.basic_ack(method.delivery_tag)

    def consume(self, queue, on_message, prefetch=16):
        self.channel.basic_qos(prefetch_count=prefetch)
        return self.channel.basic_consume(queue, lambda _, method, properties, body: on_message(method, properties, body))

    def take(self, queue):
        found = []

        def got():
            method, properties, body = self.channel.basic_get(queue, auto_ack=True)
            if method:
                found.append((properties, json.loads(body)["message"]))
            return method

        until(self.made, got, f"a message in {queue}")
        return found[0]

    def delete(self):
        for queue in self.queues:
            self.channel.queue_delete(queue)
        for exchange in dict.fromkeys(self.exchanges):
            self.channel.exchange_delete(exchange)


@contextlib.contextmanager
def bus():
    with connection() as made:
        one = Bus(made)
        try:
            yield one
        finally:
            one.delete()


def topology():
    """An event reaches every endpoint once: by its own type, by the type that it is a kind of, and by both."""
    with bus() as one, connection() as other:
        order, event = unique("Shop:OrderSubmitted"), unique("Shop:Event")
        one.type(order, event)
        billing = one.endpoint(unique("billing"), [order])
        audit = one.endpoint(unique("audit"), [event])
        both = one.endpoint(unique("both"), [order, event])
        # Another instance of the services declares all of it again.
        again = Bus(other)
        again.type(order, event)
        again.endpoint(both, [order, event])
        one.send(order, "Shop:OrderSubmitted", {"order": 1})
        for queue in (billing, audit, both):
            equal(one.take(queue)[1], {"order": 1})
            equal(ready(one.channel, queue), 0, f"once: {queue}")
        one.send(billing, "Shop:OrderSubmitted", {"order": 2})
        equal(one.take(billing)[1], {"order": 2}, "sent to its endpoint alone")
        equal([ready(one.channel, queue) for queue in (audit, both)], [0, 0])
        # A consumer is taken out of an endpoint: its type is unbound, the endpoint stays.
        one.channel.exchange_unbind(billing, order)
        one.send(order, "Shop:OrderSubmitted", {"order": 3})
        equal((one.take(audit)[1], ready(one.channel, billing)), ({"order": 3}, 0))


def faults():
    """What fails goes to _error with its reason and is published as a fault; what nobody handles goes to _skipped; back from there it works."""
    with bus() as one:
        name, fault = unique("worker"), unique("MassTransit:Fault")
        one.endpoint(name)
        errors, skipped = f"{name}_error", f"{name}_skipped"
        watcher = one.endpoint(unique("watcher"), [one.type(fault)])
        attempts, done, healed = [], [], []

        def on_message(method, properties, body):
            envelope = json.loads(body)
            if envelope["messageType"] != ["urn:message:Shop:Ship"]:
                one.endpoint(skipped)  # made when it is first needed
                one.forward(skipped, method, properties, body, **{"MT-Reason": "skipped"})
                return
            for _ in range(3):
                attempts.append(envelope["message"])
                if healed or envelope["message"] != "bad":
                    done.append(envelope["message"])
                    one.channel.basic_ack(method.delivery_tag)
                    return
            one.endpoint(errors)
            one.send(fault, "MassTransit:Fault", {"of": envelope["messageId"]})
            one.forward(errors, method, properties, body, **{"MT-Reason": "fault", "MT-Fault-Message": "it is bad", "MT-Fault-RetryCount": 2})

        one.consume(name, on_message)
        for word in ("good", "bad", "good"):
            one.send(name, "Shop:Ship", word)
        one.send(name, "Shop:Unknown", "what is this")
        until(one.made, lambda: len(done) == 2 and skipped in one.queues and errors in one.queues, "all are dealt with")
        equal(attempts, ["good", "bad", "bad", "bad", "good"])
        properties, message = one.take(skipped)
        equal((message, properties.headers["MT-Reason"]), ("what is this", "skipped"))
        equal("of" in one.take(watcher)[1], True, "the fault")
        healed.append(True)
        method, properties, body = one.channel.basic_get(errors)
        equal((json.loads(body)["message"], properties.headers["MT-Fault-RetryCount"], properties.delivery_mode), ("bad", 2, 2))
        one.forward(name, method, properties, body)
        until(one.made, lambda: len(done) == 3, "done in the end")
        equal((done[-1], ready(one.channel, name), ready(one.channel, errors)), ("bad", 0, 0))


def delayed_redelivery():
    """What fails waits in a queue of its delay, and comes back to its endpoint when it has; the shorter delay comes back first."""
    with bus() as one:
        name = one.endpoint(unique("later"))
        start, came = time.monotonic(), []
        delays = {}
        for delay_ms in (300, 3000):
            delays[delay_ms] = one.endpoint(
                f"{name}_delay_{delay_ms}", message_ttl=delay_ms, dead_letter_exchange=name, dead_letter_routing_key="", expires=60_000
            )

        def on_message(method, properties, body):
            count = (properties.headers or {}).get("MT-Redelivery-Count", 0)
            death = (properties.headers or {}).get("x-death", [])
            came.append((json.loads(body)["message"], count, time.monotonic() - start, [(entry["reason"], entry["queue"], entry["count"]) for entry in death]))
            if count == 2 or (count == 1 and came[-1][0] == "long"):
                one.channel.basic_ack(method.delivery_tag)
            else:
                delay = delays[3000 if came[-1][0] == "long" else 300]
                one.forward(delay, method, properties, body, **{"MT-Redelivery-Count": count + 1})

        one.consume(name, on_message)
        one.send(name, "Shop:Ship", "long")
        one.send(name, "Shop:Ship", "short")
        until(one.made, lambda: len(came) == 5, "all came back")
        equal([(message, count) for message, count, *_ in came], [("long", 0), ("short", 0), ("short", 1), ("short", 2), ("long", 1)])
        at = {(message, count): (after, death) for message, count, after, death in came}
        equal(at["short", 1][0] >= 0.3 and at["short", 2][0] >= 0.6 and at["long", 1][0] >= 3, True, f"not too early: {at}")
        equal(at["short", 2][1], [("expired", delays[300], 2)], "one entry of its history, counted up")
        equal(at["long", 1][1], [("expired", delays[3000], 1)])


def request_client():
    """A request with the address of a temporary endpoint: its exchange and queue go with their owner."""
    with bus() as service:
        name = service.endpoint(unique("price"))

        def answer(method, properties, body):
            asked = json.loads(body)["message"]
            service.send(properties.headers["ResponseAddress"], "Shop:Price", {"of": asked, "is": 7}, correlation_id=properties.correlation_id)
            service.channel.basic_ack(method.delivery_tag)

        service.consume(name, answer)
        with connection() as made:
            client = Bus(made)
            temporary = unique("HOST_client_bus")
            client.channel.exchange_declare(temporary, "fanout", durable=False, auto_delete=True)
            client.channel.queue_declare(temporary, durable=False, auto_delete=True, arguments={"x-expires": 60_000})
            client.channel.queue_bind(temporary, temporary, "")
            answers = {}

            def on_answer(_method, properties, body):
                answers[properties.correlation_id] = json.loads(body)["message"]

            client.consume(temporary, lambda method, properties, body: (on_answer(method, properties, body), client.channel.basic_ack(method.delivery_tag)))
            for number in range(20):
                client.send(name, "Shop:Ask", number, correlation_id=str(number), headers={"ResponseAddress": temporary}, expiration="30000")
            until(service.made, lambda: made.process_data_events(time_limit=0) or len(answers) == 20, "all answers")
            equal(answers, {str(number): {"of": number, "is": 7} for number in range(20)})
        with connection() as made:

            def gone(look):
                try:
                    look(made.channel())
                    return False
                except pika.exceptions.ChannelClosedByBroker as closed:
                    return closed.reply_code == 404

            until(made, lambda: gone(lambda channel: channel.queue_declare(temporary, passive=True)), "its queue went")
            until(made, lambda: gone(lambda channel: channel.exchange_declare(temporary, passive=True)), "its exchange went")


EXPECTATIONS = {
    "masstransit-topology": topology,
    "masstransit-faults": faults,
    "masstransit-delayed-redelivery": delayed_redelivery,
    "masstransit-request": request_client,
}
