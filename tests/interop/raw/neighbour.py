"""A well-behaved pika client beside the tests: confirmed publish, delivery, acknowledgement, over and over.

Enters: a line on standard input.  Leaves: `ROUNDS SLOWEST_MS` since the last line, on standard output.
Owns:   one connection for its whole life: should it ever be lost, this program ends with its error.
Never:  reconnects, skips a number, forgives one out of order.
"""

import os
import select
import sys
import time

import pika


def main():
    parameters = pika.URLParameters(os.environ["AMQP_URL"])
    parameters.heartbeat = 5
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.confirm_delivery()
    queue = channel.queue_declare("", exclusive=True).method.queue
    arrived = []

    def on_message(channel, method, _properties, body):
        arrived.append(int(body))
        channel.basic_ack(method.delivery_tag)

    channel.basic_consume(queue, on_message)
    number = rounds = 0
    slowest = 0.0
    print("ready", flush=True)
    while True:
        start = time.monotonic()
        channel.basic_publish("", queue, str(number).encode(), mandatory=True)
        while not arrived:
            connection.process_data_events(time_limit=1)
        assert arrived == [number], f"round {number} brought {arrived}"
        arrived.clear()
        number += 1
        rounds += 1
        slowest = max(slowest, time.monotonic() - start)
        # A pace that leaves the machine to the tests; a question is answered at once.
        if select.select([sys.stdin], [], [], 0.005)[0]:
            if not sys.stdin.readline():
                break
            print(rounds, round(slowest * 1000), flush=True)
            rounds, slowest = 0, 0.0
    connection.close()


main()
