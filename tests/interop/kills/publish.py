"""pika publishes numbers with confirms, over as many connections as it takes.

Enters: AMQP_URL; the queue as argument; the end of standard input.  Leaves: each confirmed number on standard output.
Owns:   a connection at a time.
Never:  publishes the next number before the one before is confirmed: after a lost connection it publishes that one again.
"""

import os
import sys
import threading
import time

import pika
from pika import exceptions

told_to_end = threading.Event()


def wait_for_end():
    sys.stdin.read()
    told_to_end.set()


def connected():
    while True:
        try:
            return pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"]))
        # A connection that is lost as soon as it is made is pika's ValueError.
        except (exceptions.AMQPConnectionError, OSError, ValueError):
            time.sleep(0.02)  # between two tries, until the broker is back


def publish(queue, number):
    """Publishes from a number on, until the connection is lost or the end has come. Returns the first that is not confirmed."""
    try:
        with connected() as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            while not told_to_end.is_set():
                properties = pika.BasicProperties(delivery_mode=2)
                channel.basic_publish("", queue, str(number).encode(), properties, mandatory=True)
                print(number, flush=True)
                number += 1
    except (exceptions.AMQPError, OSError):
        pass
    return number


threading.Thread(target=wait_for_end, daemon=True).start()
next_number = 0
while not told_to_end.is_set():
    next_number = publish(sys.argv[1], next_number)
