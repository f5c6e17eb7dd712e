"""What goes wrong: each exception with its reply; interrupts, forks, other threads, and what is not AMQP.

Enters: AMQP_URL, AMQP_FOREIGN_TLS_URL.  Leaves: a line for each expectation.
Owns:   the processes it forks, which it waits for.
"""

import ctypes
import gc
import os
import signal
import socket
import threading
import time
import traceback
import warnings
from pathlib import Path

import harrier
from harrier import exceptions
from report import Report, equal

URL = os.environ["AMQP_URL"]
DEADLINE_S = float(os.environ.get("INTEROP_DEADLINE_S", 20))


def connect(url=URL):
    return harrier.BlockingConnection(harrier.URLParameters(url))


def raises(kind, body, *arguments):
    try:
        body(*arguments)
    except kind as error:
        equal(type(error), kind)
        return error
    raise AssertionError(f"it should raise {kind.__name__}")


def channel_closes():
    """The server's close of a channel has its code and text; the connection and other channels go on."""
    with connect() as connection:
        channel, other = connection.channel(), connection.channel()
        error = raises(exceptions.ChannelClosedByBroker, lambda: channel.queue_declare("nobody's", passive=True))
        equal((error.reply_code, error.reply_text.split(" ")[0]), (404, "NOT_FOUND"))
        equal((channel.is_open, other.is_open, connection.is_open), (False, True, True))
        raises(exceptions.ChannelClosedByBroker, channel.basic_ack)
        queue = other.queue_declare(f"python-other-{os.getpid()}", exclusive=True).method.queue
        different = {"x-max-length": 1}
        error = raises(exceptions.ChannelClosedByBroker, lambda: other.queue_declare(queue, exclusive=True, arguments=different))
        equal(error.reply_code, 406)
        # One that closes while nobody asks: the next wait tells of it, once.
        late = connection.channel()
        late.basic_publish("nobody's", "", b"lost")
        equal(raises(exceptions.ChannelClosedByBroker, connection.process_data_events, DEADLINE_S).reply_code, 404)
        equal(late.is_open, False)
        connection.process_data_events(0)
        closed = connection.channel()
        closed.close()
        raises(exceptions.ChannelWrongStateError, closed.close)
        raises(exceptions.ChannelWrongStateError, closed.basic_get, "nobody's")


def no_connection():
    """No listener, a wrong password, a virtual host that is none, a certificate of nobody's, an address that is none."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        raises(exceptions.ConnectError, connect, f"amqp://127.0.0.1:{bound.getsockname()[1]}/%2F")
    error = raises(exceptions.ProbableAuthenticationError, connect, URL.replace("guest@", "wrong@"))
    equal((error.reply_code, "ACCESS_REFUSED" in error.reply_text), (403, True))
    error = raises(exceptions.ProbableAccessDeniedError, connect, URL.replace("%2F", "nobody"))
    equal(error.reply_code, 530)
    raises(exceptions.ConnectError, connect, os.environ["AMQP_FOREIGN_TLS_URL"])
    raises(ValueError, connect, "http://localhost")
    equal(issubclass(exceptions.ConnectError, exceptions.AMQPConnectionError), True)


def several_addresses():
    """The first that answers is taken, after so many attempts in vain."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        dead = harrier.URLParameters(
            f"amqp://127.0.0.1:{bound.getsockname()[1]}/%2F?connection_attempts=2&retry_delay=0.1"
        )
        with harrier.BlockingConnection([dead, harrier.URLParameters(URL)]) as connection:
            equal(connection.is_open, True)
        start = time.monotonic()
        raises(exceptions.ConnectError, harrier.BlockingConnection, dead)
        equal(time.monotonic() - start >= 0.1, True, "a delay between two attempts")


def lost_connection():
    """A connection that the broker ends, or that breaks, says so once, and is closed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        forwarder = Forwarder(listener)
        connection = connect(URL.replace(f":{port_of(URL)}/", f":{listener.getsockname()[1]}/"))
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_consume(queue, lambda *_: None)
        forwarder.cut()
        raises(exceptions.StreamLostError, channel.start_consuming)
        equal((connection.is_open, channel.is_open), (False, False))
        raises(exceptions.ConnectionWrongStateError, connection.channel)
        raises(exceptions.ConnectionWrongStateError, connection.close)
    with connect() as connection:
        connection.close()
        raises(exceptions.ConnectionWrongStateError, connection.channel)


def port_of(url):
    return int(url.split("@")[1].split("/")[0].split(":")[1])


class Forwarder:
    """Carries one connection to the broker, until it is cut."""

    def __init__(self, listener):
        self.ends = []
        self.threads = []
        self.spawn(self.serve, listener)

    def spawn(self, body, *arguments):
        thread = threading.Thread(target=body, args=arguments, daemon=True)
        self.threads.append(thread)
        thread.start()

    def serve(self, listener):
        near, _ = listener.accept()
        far = socket.create_connection(("127.0.0.1", port_of(URL)))
        self.ends = [near, far]
        for source, sink in ((near, far), (far, near)):
            self.spawn(self.copy, source, sink)

    def copy(self, source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            return  # it was cut

    def cut(self):
        for end in self.ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # its peer was first
        for thread in self.threads:
            thread.join(DEADLINE_S)
        for end in self.ends:
            end.close()


def interrupts():
    """Ctrl-C ends a wait at once: for deliveries, and for an answer; the connection can be closed after it."""
    for wait in (
        lambda connection, channel: channel.start_consuming(),
        lambda connection, channel: channel.deliveries(1),
        lambda connection, channel: connection.process_data_events(None),
    ):
        with connect() as connection:
            channel = connection.channel()
            queue = channel.queue_declare("", exclusive=True).method.queue
            channel.basic_consume(queue, None)
            took = interrupted(lambda: wait(connection, channel))
            equal(took < 1.0, True, f"it took {took:.2f} s")
            # Nothing was asked, so nothing is amiss.
            equal(channel.queue_declare(queue, passive=True).consumer_count, 1)


def interrupted_answer():
    """An answer that does not come is waited for until Ctrl-C; then the connection wants to be closed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        took = interrupted(lambda: connect(f"amqp://127.0.0.1:{listener.getsockname()[1]}/%2F"))
        equal(took < 1.5, True, f"it took {took:.2f} s")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        forwarder = Forwarder(listener)
        connection = connect(URL.replace(f":{port_of(URL)}/", f":{listener.getsockname()[1]}/"))
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        stopped = stop_broker()
        try:
            took = interrupted(lambda: channel.queue_declare(queue, passive=True))
        finally:
            stopped()
        equal(took < 1.5, True, f"it took {took:.2f} s")
        raises(exceptions.ConnectionWrongStateError, channel.queue_declare, queue)
        connection.close()
        forwarder.cut()


def stop_broker():
    """Has the broker stand still; what is returned lets it go on."""
    pid = int(os.environ["BROKER_PID"])
    os.kill(pid, signal.SIGSTOP)
    return lambda: os.kill(pid, signal.SIGCONT)


def interrupted(body):
    """Sends this process SIGINT while it waits in the body; says how long the body went on after that."""
    sent = []
    main = threading.main_thread()

    def send():
        # It waits: its thread sleeps in the kernel, in poll.
        deadline = time.monotonic() + DEADLINE_S
        while not sleeps(main.native_id):
            if time.monotonic() > deadline:
                return
            time.sleep(0.01)  # between two looks at the condition, which has a deadline
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        body()
    except KeyboardInterrupt:
        return time.monotonic() - sent[0]
    finally:
        thread.join()
    raise AssertionError("it should be interrupted")


def sleeps(thread):
    """Whether the thread is in one of the calls that wait, as the kernel has it."""
    calls = {"7", "271", "232", "281", "441"}  # poll, ppoll, epoll_wait, epoll_pwait, epoll_pwait2
    return Path(f"/proc/self/task/{thread}/syscall").read_text().split()[0] in calls


def forked():
    """A fork of the process can do nothing with its connection but be told so, and takes nothing of it along."""
    with connect() as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_publish("", queue, b"before")

        def child():
            text = str(raises(exceptions.ConnectionForkedError, channel.basic_publish, "", queue, b"of the fork"))
            equal(str(os.getppid()) in text, True, text)
            raises(exceptions.ConnectionForkedError, channel.basic_get, queue)
            raises(exceptions.ConnectionForkedError, connection.close)
            own_url = URL
            if os.environ["WAY"] == "rdma":
                # The libraries of RDMA do not come along; TCP may take its place.
                text = str(raises(exceptions.ConnectError, connect))
                equal("a fork of a process that has used RDMA" in text, True, text)
                own_url = f"{URL}&fallback=tcp"
                warnings.simplefilter("ignore", exceptions.FallbackWarning)
            # One of its own is a connection like any.
            with connect(own_url) as own:
                equal(own.channel().queue_declare("", exclusive=True).message_count, 0)
                equal(own.transport, "tcp")

        in_fork(child)
        # The way out of a fork that runs what an interpreter runs at its end.
        in_fork(lambda: None, ends_whole=True)
        channel.basic_publish("", queue, b"after")
        got = [channel.basic_get(queue, auto_ack=True)[2] for _ in range(3)]
        equal(got, [b"before", b"after", None])


def in_fork(body, ends_whole=False):
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            body()
            status = 0
        except BaseException:
            traceback.print_exc()
        if ends_whole:
            # As `exit` of C: destructors of threads and of the process run.
            ctypes.CDLL(None).exit(status)
        os._exit(status)
    equal(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0, "the fork's status")


def threads():
    """A connection belongs to its thread; another may have it call back, promptly."""
    with connect() as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        found, times = [], []

        def elsewhere():
            try:
                channel.basic_publish("", queue, b"")
            except exceptions.WrongThreadError as error:
                found.append(error)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        equal(len(found), 1)
        channel.basic_consume(queue, lambda channel, *_: channel.stop_consuming(), auto_ack=True)

        def later():
            times.append(time.monotonic())
            connection.add_callback_threadsafe(lambda: channel.basic_publish("", queue, b"x"))

        thread = threading.Timer(0.2, later)
        thread.start()
        channel.start_consuming()
        equal(time.monotonic() - times[0] < 2.0, True, "it was woken")
        thread.join()
    # Dropped by a thread that is not its owner's, it is the owner's to close.
    held = [connect()]
    queue = held[0].channel().queue_declare(f"python-dropped-{os.getpid()}", exclusive=True).queue
    thread = threading.Thread(target=lambda: (held.clear(), gc.collect()))
    thread.start()
    thread.join()
    deadline = time.monotonic() + DEADLINE_S
    with connect() as connection:
        while True:
            try:
                equal(connection.channel().queue_declare(queue, exclusive=True).queue, queue)
                return
            except exceptions.ChannelClosedByBroker as error:
                equal(error.reply_code, 405, "locked")
                equal(time.monotonic() < deadline, True, "the broker learns of it")


def other_threads_run():
    """While one thread waits for a delivery, others run: Python's lock is released."""
    with connect() as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_consume(queue, auto_ack=True)
        ran = threading.Event()
        thread = threading.Timer(0.1, ran.set)
        thread.start()
        equal(channel.deliveries(1, timeout=0.5), [])
        equal(ran.is_set(), True)
        thread.join()


def wrong_values():
    """What has no form in AMQP is refused before anything is sent."""
    with connect() as connection:
        channel = connection.channel()
        raises(exceptions.ShortStringTooLong, channel.queue_declare, "x" * 256)
        raises(exceptions.UnsupportedAMQPFieldException, lambda: channel.queue_declare("", arguments={"x": object()}))
        raises(OverflowError, lambda: channel.queue_declare("", arguments={"x": 1 << 64}))
        raises(TypeError, lambda: channel.queue_declare("", arguments={1: 1}))
        raises(TypeError, channel.basic_publish, "", "", 17)
        raises(TypeError, channel.basic_publish, "", "", None)
        raises(TypeError, lambda: harrier.BasicProperties(correlation_id=5))
        raises(OverflowError, lambda: harrier.BasicProperties(priority=256))
        equal(channel.queue_declare("", exclusive=True).message_count, 0, "the channel is as it was")


EXPECTATIONS = {
    "channel-closes": channel_closes,
    "no-connection": no_connection,
    "several-addresses": several_addresses,
    "lost-connection": lost_connection,
    "interrupts": interrupts,
    "interrupted-answer": interrupted_answer,
    "forked": forked,
    "threads": threads,
    "other-threads-run": other_threads_run,
    "wrong-values": wrong_values,
}

if __name__ == "__main__":
    # Who was started in the background of a shell without job control ignores it, and so would Python.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    report = Report()
    for name, body in EXPECTATIONS.items():
        report.check(f"python-{name}", body)
    report.exit()
