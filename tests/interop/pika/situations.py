"""errors.toml, as far as pika's own functions reach.

Enters: a situation.  Leaves: an AssertionError where the broker answers otherwise.
Owns:   queues and exchanges of the situation's name, deleted in the end.
Never:  runs what pika itself refuses to send (see `sayable`).
"""

import functools
import inspect
import os

import pika
from pika import exceptions

from scene import BROKER, connection  # first: it says where cases.py is
import cases

RENAMED = {"type": "exchange_type", "no_ack": "auto_ack", "global": "global_qos"}
CALLS = {
    "basic.consume": lambda channel, queue="", **rest: channel.basic_consume(queue, lambda *_: None, **rest),
    "basic.publish": lambda channel, exchange="", routing_key="", properties=None, **rest: channel.basic_publish(
        exchange, routing_key, b"body", pika.BasicProperties(**(properties or {})), **rest
    ),
    "confirm.select": lambda channel: channel.confirm_delivery(),
}


def plain(value, name):
    """A value as pika takes it: its types follow from Python's."""
    match value:
        case {"void": True}:
            return None
        case {"binary": text}:
            return text.encode()
        case {"long": number}:
            return number
        case dict():
            return {key: plain(item, name) for key, item in value.items()}
        case list():
            return [plain(item, name) for item in value]
    return cases.fill(value, name)


def situation(case):
    name = f"pika-{case['name']}-{os.getpid()}"
    outcome = cases.Outcome("none")
    with connection() as made, connection() as second:
        channel, other = made.channel(), second.channel()
        try:
            for step in case["do"]:
                step = {RENAMED.get(key, key): plain(value, name) for key, value in step.items()}
                on = other if step.pop("on", None) else channel
                step.pop("confirmed", None)
                called = step.pop("m")
                call = CALLS.get(called) or functools.partial(getattr(type(on), called.replace(".", "_")))
                call(on, **step)
            if channel.is_open:
                channel.basic_qos()
        except exceptions.ChannelClosedByBroker as closed:
            outcome = cases.Outcome("channel", closed.reply_code, closed.reply_text)
        except exceptions.ConnectionClosedByBroker as closed:
            outcome = cases.Outcome("connection", closed.reply_code, closed.reply_text)
        if second.is_open:
            second.close()
    with connection() as made:
        channel = made.channel()
        channel.queue_delete(name)
        channel.exchange_delete(name)
    # pika does not tell the ids.
    for word in case.keys() & {"expect", "harrier"}:
        case = case | {word: {key: value for key, value in case[word].items() if key != "ids"}}
    difference = cases.judged(outcome, case, name, BROKER)
    if difference:
        raise AssertionError(difference)


def sayable(case):
    """Whether pika's functions take these steps' fields."""
    for step in case["do"]:
        fields = {RENAMED.get(key, key) for key in step} - {"m", "on", "confirmed", "properties"}
        called = step["m"].replace(".", "_")
        if "channel" in step:
            return False
        if called == "confirm_select":
            continue
        function = getattr(pika.adapters.blocking_connection.BlockingChannel, called, None)
        if function is None or not fields <= set(inspect.signature(function).parameters):
            return False
    # pika itself refuses these before the broker sees them, or waits for an answer with the name as it said it.
    return case["name"] not in {
        "queue-name-with-line-ends-is-the-name-without",
        "consume-tag-twice",
        "consume-tag-twice-on-a-missing-queue",
        "reply-to-consume-tag-of-another",
        "confirm-select-twice",
        "cancel-unknown-tag",
        "recover-without-requeue",
    }
