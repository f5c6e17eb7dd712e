"""What every expectation of pika's run stands on: connections, waits, refusals, filled queues.

Enters: AMQP_URL, AMQP_BROKER; AMQP_CA, AMQP_CERTIFICATE and AMQP_KEY over TLS.  Leaves: connections that are closed in the end.
Owns:   its connections.
Never:  sleeps: every wait is for a condition, with a deadline.
"""

import functools
import os
import ssl
import sys
import time
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "raw"))

import pika
from pika import exceptions

from report import equal

URL = os.environ["AMQP_URL"]
BROKER = os.environ.get("AMQP_BROKER", "other")
DEADLINE_S = int(os.environ.get("INTEROP_DEADLINE_S", "15"))
serial = iter(range(1 << 30))


def unique(word):
    return f"pika-{word}-{os.getpid()}-{next(serial)}"


def secured(settings, authority):
    """Verifies the broker by that authority; shows a certificate and logs in by it where there is one."""
    context = ssl.create_default_context(cafile=authority)
    if "AMQP_CERTIFICATE" in os.environ:
        context.load_cert_chain(os.environ["AMQP_CERTIFICATE"], os.environ["AMQP_KEY"])
        settings.credentials = pika.credentials.ExternalCredentials()
    settings.ssl_options = pika.SSLOptions(context, settings.host)


@contextmanager
def connection(heartbeat=0, authority=os.environ.get("AMQP_CA"), **parameters):
    settings = pika.URLParameters(URL)
    if authority:
        secured(settings, authority)
    settings.heartbeat = heartbeat
    settings.blocked_connection_timeout = DEADLINE_S
    for name, value in parameters.items():
        setattr(settings, name, value)
    made = pika.BlockingConnection(settings)
    try:
        yield made
    finally:
        if made.is_open:
            made.close()


def until(made, condition, what):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {DEADLINE_S} s: {what}")
        made.process_data_events(time_limit=0.05)


@contextmanager
def refused(code, text, error=exceptions.ChannelClosedByBroker):
    try:
        yield
    except error as closed:
        equal((closed.reply_code, closed.reply_text), (code, text))
        return
    raise AssertionError(f"expected {code} {text}")


def with_channel(body):
    """Runs an expectation on a connection and channel of its own."""

    @functools.wraps(body)
    def run():
        with connection() as made:
            body(made, made.channel())

    return run


def filled(channel, count, **arguments):
    """A new queue holding messages "0", "1", …, all confirmed."""
    queue = channel.queue_declare("", exclusive=True, **arguments).method.queue
    with connection() as other:
        publisher = other.channel()
        publisher.confirm_delivery()
        for number in range(count):
            publisher.basic_publish("", queue, str(number).encode(), mandatory=True)
    return queue


def ready(channel, queue):
    return channel.queue_declare(queue, passive=True).method.message_count


def collector(channel, queue, **arguments):
    """Consumes into a list of (delivery tag, redelivered, text)."""
    got = []
    tag = channel.basic_consume(
        queue, lambda _c, m, _p, body: got.append((m.delivery_tag, m.redelivered, body.decode())), **arguments
    )
    return got, tag


def texts(got):
    return [item[2] for item in got]
