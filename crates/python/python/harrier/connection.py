"""A blocking connection, in pika's words.

A connection belongs to the thread that opened it. `add_callback_threadsafe` is the one call for others.
"""

from __future__ import annotations

import collections
import heapq
import itertools
import time
import warnings
from typing import TYPE_CHECKING, Any, Callable, Sequence

from . import exceptions
from ._harrier import Connection
from .channel import BlockingChannel
from .parameters import Parameters, URLParameters

if TYPE_CHECKING:
    from ._harrier import Delivery

#: Deliveries that are taken at once where the caller does not say how many.
BATCH = 256


def connect(parameters: Parameters | Sequence[Parameters] | None, *, is_polled: bool = False) -> Connection:
    """Tries each address in turn, and all of them as often as the first says. The last failure is raised."""
    if parameters is None:
        parameters = URLParameters("amqp://guest:guest@localhost/%2F")
    addresses = [parameters] if isinstance(parameters, Parameters) else list(parameters)
    if not addresses:
        raise ValueError("no address to connect to")
    first = addresses[0]
    for attempt in itertools.count(1):
        for address in addresses:
            try:
                core = Connection.connect(address.url, is_polled=is_polled, **address.connect_options())
            except exceptions.AMQPConnectionError as error:
                failure = error
                continue
            if why := core.used_fallback():
                warnings.warn(f"connected by TCP: {why}", exceptions.FallbackWarning, stacklevel=3)
            return core
        if attempt >= first.connection_attempts:
            raise failure
        time.sleep(first.retry_delay)  # what the caller asked for between two attempts
    raise AssertionError("the attempts have no end")


class BlockingConnection:
    """A connection to a broker: `BlockingConnection(URLParameters("amqp+rdma://host/%2F"))`."""

    def __init__(self, parameters: Parameters | Sequence[Parameters] | None = None) -> None:
        self._core = connect(parameters)
        self._is_open = True
        self._channels: dict[int, BlockingChannel] = {}
        self._pending: collections.deque[Delivery] = collections.deque()
        self._calls: collections.deque[Callable[[], Any]] = collections.deque()
        self._timers: list[tuple[float, int, Callable[[], Any]]] = []
        self._cancelled_timers: set[int] = set()
        self._serial = itertools.count(1)

    def __enter__(self) -> BlockingConnection:
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_open:
            self.close()

    def __repr__(self) -> str:
        return f"<BlockingConnection {'open' if self.is_open else 'closed'} channels={len(self._channels)}>"

    @property
    def is_open(self) -> bool:
        return self._is_open

    @property
    def is_closed(self) -> bool:
        return not self._is_open

    @property
    def transport(self) -> str:
        """`tcp`, `tls`, `unix` or `rdma`."""
        return self._core.transport()

    @property
    def blocked(self) -> str | None:
        """Why the server does not read from publishers now, if so."""
        return self._core.blocked()

    @property
    def server_properties(self) -> dict[str, Any]:
        return self._core.server_properties()

    @property
    def heartbeat(self) -> int:
        """Seconds between heartbeats, as agreed."""
        return self._core.tuning()[2]

    @property
    def publisher_confirms_supported(self) -> bool:
        return bool(self.server_properties.get("capabilities", {}).get("publisher_confirms"))

    @property
    def basic_nack_supported(self) -> bool:
        return bool(self.server_properties.get("capabilities", {}).get("basic.nack"))

    def fileno(self) -> int:
        """A descriptor that is readable when `process_data_events` has something to do."""
        return self._core.fileno()

    def channel(self) -> BlockingChannel:
        """Opens a channel."""
        with self._guard():
            channel = BlockingChannel(self, self._core.open_channel())
        self._channels[channel.channel_number] = channel
        return channel

    def allocate(self, size: int):
        """Memory to be filled and published without a copy: a writable buffer with whatever was in it before."""
        return self._core.allocate(size)

    def close(self, reply_code: int = 200, reply_text: str = "Normal shutdown") -> None:
        """Ends the connection in order: what was published before is sent, what is unacknowledged is requeued."""
        if not self._is_open:
            raise exceptions.ConnectionWrongStateError("the connection is closed")
        with self._guard():
            self._core.close()
        self._ended()

    def process_data_events(self, time_limit: float | None = 0) -> None:
        """Hands what comes to its callbacks. Returns once something was done, or after `time_limit` seconds (`None`: never)."""
        deadline = None if time_limit is None else time.monotonic() + time_limit
        while True:
            left = 5.0 if deadline is None else max(0.0, deadline - time.monotonic())
            if self._step(left) or (deadline is not None and time.monotonic() >= deadline):
                return

    def sleep(self, duration: float) -> None:
        """As `time.sleep`, and handles what comes meanwhile."""
        deadline = time.monotonic() + duration
        while (left := deadline - time.monotonic()) > 0:
            self.process_data_events(left)

    def call_later(self, delay: float, callback: Callable[[], Any]) -> int:
        """Calls back from `process_data_events` or `start_consuming` after so many seconds."""
        number = next(self._serial)
        heapq.heappush(self._timers, (time.monotonic() + delay, number, callback))
        return number

    def remove_timeout(self, timeout_id: int) -> None:
        self._cancelled_timers.add(timeout_id)

    def add_callback_threadsafe(self, callback: Callable[[], Any]) -> None:
        """Has this connection's thread call back, from `process_data_events` or `start_consuming`. For any thread."""
        if not self._is_open:
            raise exceptions.ConnectionWrongStateError("the connection is closed")
        self._calls.append(callback)
        self._core.wake()

    # What follows is for channels.

    def _guard(self):
        return _Guard(self)

    def _failed(self, error: exceptions.AMQPError) -> None:
        """Notes what has ended with this error: a channel, the connection, or nothing."""
        if isinstance(error, exceptions.ChannelClosedByBroker):
            channel = self._channels.pop(error.channel_number, None)
            if channel is not None:
                channel._is_open = False
        elif isinstance(error, exceptions.AMQPConnectionError):
            if not isinstance(error, (exceptions.ConnectionWrongStateError, exceptions.NoFreeChannels)):
                self._ended()

    def _ended(self) -> None:
        self._is_open = False
        for channel in self._channels.values():
            channel._is_open = False
        self._channels.clear()

    def _step(self, wait_s: float) -> bool:
        """Takes what has come, or waits for it up to so long, and calls back. Says whether it called anybody."""
        if not self._pending:
            if self._calls:
                wait_s = 0.0
            elif self._timers:
                wait_s = min(wait_s, max(0.0, self._timers[0][0] - time.monotonic()))
            with self._guard():
                self._pending.extend(self._core.take(BATCH, wait_s))
        is_busy = self._news()
        while self._calls:
            is_busy = True
            self._calls.popleft()()
        is_busy |= self._run_timers()
        while self._pending:
            is_busy = True
            delivery = self._pending.popleft()
            channel = self._channels.get(delivery.channel_number)
            if channel is not None:
                channel._deliver(delivery)
        return is_busy

    def _take(self, most: int, wait_s: float) -> list[Delivery]:
        """Deliveries without callbacks: the caller sorts them out."""
        if self._pending:
            return [self._pending.popleft() for _ in range(min(most, len(self._pending)))]
        with self._guard():
            return self._core.take(most, wait_s)

    def _news(self) -> bool:
        """Tells channels what came back and which consumers the server ended."""
        is_busy = self._route_returned()
        for number, consumer_tag in self._core.take_cancelled():
            is_busy = True
            channel = self._channels.get(number)
            if channel is not None:
                channel._cancelled_by_server(consumer_tag)
        return is_busy

    def _route_returned(self) -> bool:
        returned = self._core.take_returned()
        for message in returned:
            channel = self._channels.get(message.channel_number)
            if channel is not None:
                channel._came_back(message)
        return bool(returned)

    def _run_timers(self) -> bool:
        is_busy = False
        while self._timers and self._timers[0][0] <= time.monotonic():
            _, number, callback = heapq.heappop(self._timers)
            if number in self._cancelled_timers:
                self._cancelled_timers.discard(number)
                continue
            is_busy = True
            callback()
        return is_busy

    def _drop_pending(self, channel_number: int, consumer_tag: str) -> list[Delivery]:
        """Takes the deliveries of one consumer out of what waits."""
        dropped: list[Delivery] = []
        for _ in range(len(self._pending)):
            waiting = self._pending.popleft()
            is_its = waiting.channel_number == channel_number and waiting.consumer_tag == consumer_tag
            (dropped if is_its else self._pending).append(waiting)
        return dropped


class _Guard:
    """Notes what has ended if a call says so."""

    __slots__ = ("connection",)

    def __init__(self, connection: BlockingConnection) -> None:
        self.connection = connection

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, exceptions.AMQPError):
            self.connection._failed(error)
