"""Many messages in one crossing, and bodies that are not copied.

Enters: AMQP_URL.  Leaves: a line for each expectation.
Owns:   its queues, which are exclusive.
"""

import array
import os

import harrier
from report import Report, equal

URL = os.environ["AMQP_URL"]
DEADLINE_S = float(os.environ.get("INTEROP_DEADLINE_S", 20))


def connect(**more):
    return harrier.BlockingConnection(harrier.URLParameters(URL, **more))


def taken(channel, count, most):
    """So many deliveries, in calls of up to `most`; acknowledges each call's with one acknowledgement."""
    got = []
    while len(got) < count:
        found = channel.deliveries(most, timeout=DEADLINE_S)
        equal(0 < len(found) <= most, True, f"{len(found)} deliveries")
        got += found
        channel.basic_ack(found[-1].delivery_tag, multiple=True)
    return got


def many():
    """A hundred thousand messages from a generator, confirmed once; taken in runs, in order, none lost or doubled."""
    count = 100_000
    with connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        queue = channel.queue_declare("", exclusive=True).method.queue
        properties = harrier.BasicProperties(content_type="application/octet-stream")
        channel.publish_many("", queue, (number.to_bytes(8, "big") for number in range(count)), properties)
        equal(channel.queue_declare(queue, passive=True).message_count, count, "all are there once it returns")
        channel.basic_consume(queue)
        got = taken(channel, count, 1000)
        equal([int.from_bytes(message.body, "big") for message in got] == list(range(count)), True, "in order")
        equal({message.properties.content_type for message in got[::1000]}, {"application/octet-stream"})
        equal(channel.deliveries(1, timeout=0.05), [])


def faults_of_many():
    """An iterator that fails, or a body that is none, ends it: what was before is published, nothing after."""
    with connect() as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue

        def failing():
            yield b"1"
            raise KeyError("as it should")

        for bodies, kind in ((failing(), KeyError), ([b"2", 3, b"4"], TypeError), (5, TypeError)):
            try:
                channel.publish_many("", queue, bodies)
                raise AssertionError("it should fail")
            except kind:
                pass
        got = [channel.basic_get(queue, auto_ack=True)[2] for _ in range(3)]
        equal(got, [b"1", b"2", None])
        channel.confirm_delivery()
        try:
            channel.publish_many("", "nobody's", [b"a", b"b"], mandatory=True)
            raise AssertionError("they should come back")
        except harrier.exceptions.UnroutableError as error:
            equal([message.body for message in error.messages], [b"a", b"b"])
        # An iterator that uses the same connection meanwhile.
        channel.publish_many("", queue, (channel.queue_declare(queue, passive=True).queue.encode() for _ in range(3)))
        equal(channel.queue_declare(queue, passive=True).message_count, 3)


def two_channels():
    """Each channel's deliveries are its own, and a callback's are called back for."""
    with connect() as connection:
        first, second, third = (connection.channel() for _ in range(3))
        queues = [channel.queue_declare("", exclusive=True).method.queue for channel in (first, second, third)]
        seen = []
        third.basic_consume(queues[2], lambda _channel, _method, _properties, body: seen.append(body), auto_ack=True)
        first.basic_consume(queues[0], auto_ack=True)
        second.basic_consume(queues[1], auto_ack=True)
        for number in range(50):
            for index, queue in enumerate(queues):
                first.basic_publish("", queue, b"%d %d" % (index, number))
        got = []
        while len(got) < 50:
            got += first.deliveries(7, timeout=DEADLINE_S)
        equal([message.body for message in got], [b"0 %d" % number for number in range(50)])
        got = []
        while len(got) < 50:
            got += second.deliveries(7, timeout=DEADLINE_S)
        equal([message.body for message in got], [b"1 %d" % number for number in range(50)])
        while len(seen) < 50:
            connection.process_data_events(DEADLINE_S)
        equal(seen, [b"2 %d" % number for number in range(50)])


def buffers():
    """Any object with a buffer can be published; a lent body is one, is read only, and goes on without a copy."""
    with connect(zero_copy=True) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        numbers = array.array("d", range(10_000))
        for body in (bytearray(b"array"), memoryview(b"a view")[2:], numbers, memoryview(numbers)):
            channel.basic_publish("", queue, body)
        channel.basic_consume(queue, auto_ack=True)
        got = []
        while len(got) < 4:
            got += channel.deliveries(4, timeout=DEADLINE_S)
        small, view, *large = [message.body for message in got]
        equal((small, view), (b"array", b"view"))
        for body in large:
            equal(type(body), harrier.Body)
            equal(array.array("d", bytes(body)), numbers)
            lent = memoryview(body)
            equal((lent.readonly, len(lent), lent.nbytes, lent.format), (True, 80_000, 80_000, "B"))
            equal(lent.cast("d")[9_999], 9_999.0)
        channel.basic_publish("", queue, large[0])
        (again,) = channel.deliveries(1, timeout=DEADLINE_S)
        equal(again.body == large[0], True)
    # It outlives its connection.
    equal(array.array("d", bytes(large[1])), numbers)
    equal(lent[8:16], b"\x00\x00\x00\x00\x00\x00\xf0?")


def blocks():
    """Memory of the connection's is filled in place and published; it cannot be seen or published after that."""
    with connect() as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        block = connection.allocate(100_000)
        with memoryview(block) as view:
            equal(view.readonly, False)
            view[:] = b"z" * 100_000
            try:
                channel.basic_publish("", queue, block)
                raise AssertionError("it is still viewed")
            except BufferError:
                pass
        channel.basic_publish("", queue, block)
        equal(channel.basic_get(queue, auto_ack=True)[2], b"z" * 100_000)
        for again in (lambda: channel.basic_publish("", queue, block), lambda: memoryview(block)):
            try:
                again()
                raise AssertionError("it was published")
            except ValueError:
                pass
        with open("/dev/zero", "rb") as zeros:
            block = connection.allocate(50_000)
            equal(zeros.readinto(block), 50_000)
        channel.basic_publish("", queue, block)
        equal(channel.basic_get(queue, auto_ack=True)[2], bytes(50_000))


EXPECTATIONS = {
    "many": many,
    "faults-of-many": faults_of_many,
    "two-channels": two_channels,
    "buffers": buffers,
    "blocks": blocks,
}

if __name__ == "__main__":
    report = Report()
    for name, body in EXPECTATIONS.items():
        report.check(f"python-{name}", body)
    report.exit()
