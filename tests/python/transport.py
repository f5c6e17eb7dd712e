"""kombu's transport where the suite of Celery does not look: its three schemes, threads, forks, failover.

Enters: AMQP_URL, AMQP_TLS_URL.  Leaves: a line for each expectation.
Owns:   its queues, which expire.
"""

import os
import threading

import harrier.kombu
import kombu
from faults import in_fork
from report import Report, equal

URL = os.environ["AMQP_URL"].replace("amqp:", "harrier:")
TLS_URL = os.environ["AMQP_TLS_URL"].replace("amqps:", "harrier+tls:")
DEADLINE_S = float(os.environ.get("INTEROP_DEADLINE_S", 20))


def target(word):
    return kombu.Queue(f"python-kombu-{word}-{os.getpid()}", durable=False, expires=60)


def addresses():
    """An address that kombu takes apart, and one that it leaves; the virtual host in its three forms; no password shown."""
    for address, way in (
        (URL, "tcp"),
        (URL.replace("%2F", "/"), "tcp"),
        (URL.replace("/%2F", ""), "tcp"),
        (TLS_URL, "tls"),
        (TLS_URL.replace("%2F", "/"), "tls"),
        (TLS_URL.replace("/%2F", ""), "tls"),
    ):
        with kombu.Connection(address) as connection:
            equal(connection.connection._core.transport(), way, address)
            equal("guest:guest" in connection.as_uri(), False, connection.as_uri())
            equal(connection.default_channel.queue_declare("", exclusive=True).message_count, 0)
    plain = TLS_URL.partition("?")
    options = {"cacertfile": plain[2].partition("=")[2]}
    with kombu.Connection(plain[0], transport_options=options) as connection:
        equal(connection.connection._core.transport(), "tls")
    equal(kombu.transport.resolve_transport("harrier+rdma") is harrier.kombu.RDMATransport, True)


def several_threads():
    """A connection that another thread takes from a pool connects anew there, and what it publishes arrives."""
    queue = target("threads")
    pool = kombu.Connection(URL).Pool(limit=2)
    failed = []

    def publish(number):
        try:
            with pool.acquire(block=True, timeout=DEADLINE_S) as connection:
                connection.Producer().publish(number, routing_key=queue.name, declare=[queue], retry=True)
        except Exception as error:  # told in the end
            failed.append(error)

    publish(0)
    for number in range(1, 9):
        thread = threading.Thread(target=publish, args=(number,))
        thread.start()
        thread.join()
    equal(failed, [])
    with pool.acquire(block=True) as connection:
        bound = queue(connection.channel())
        equal(sorted(bound.get(no_ack=True).payload for _ in range(9)), list(range(9)))
        bound.delete()
    pool.force_close_all()


def forks():
    """A fork that goes on with its parent's kombu connection has one of its own; the parent's is as it was."""
    queue = target("forks")
    with kombu.Connection(URL) as connection:
        bound = queue(connection.default_channel)
        bound.declare()
        in_fork(lambda: connection.Producer().publish("of the fork", routing_key=queue.name))
        connection.Producer().publish("of the parent", routing_key=queue.name)
        equal([bound.get(no_ack=True).payload for _ in range(2)], ["of the fork", "of the parent"])
        bound.delete()


def failover():
    """The next address is tried where the first is none."""
    dead = "harrier://guest:guest@127.0.0.1:1/%2F"
    with kombu.Connection([dead, URL]) as connection:
        connection.ensure_connection(max_retries=2, interval_start=0)
        equal(connection.connection._core.transport(), "tcp")


EXPECTATIONS = {"addresses": addresses, "several-threads": several_threads, "forks": forks, "failover": failover}

if __name__ == "__main__":
    report = Report()
    for name, body in EXPECTATIONS.items():
        report.check(f"python-kombu-{name}", body)
    report.exit()
