"""The client for asyncio: connections whose descriptor the loop watches. There is no thread.

    connection = await harrier.aio.connect("amqp://guest:guest@localhost/%2F")
    channel = await connection.channel()
    await channel.basic_publish("", "hello", b"Hello World!")
    async for message in await channel.basic_consume("hello"):
        await channel.basic_ack(message.delivery_tag)

`connect` itself blocks the loop until the connection is open; everything after it does not.
"""

from __future__ import annotations

import asyncio
import collections
import itertools
from typing import TYPE_CHECKING, Any, AsyncIterator, Callable, Iterable

from . import exceptions
from .connection import connect as connect_core
from .parameters import Parameters, URLParameters
from .spec import DeclareOk

if TYPE_CHECKING:
    from ._harrier import BasicProperties, ChannelHandle, Delivery

#: Bytes that may be written and not sent before a publish waits for the link.
UNSENT_BYTES_MAX = 1 << 20
#: Bodies that `publish_many` writes before it looks whether they can be sent.
BATCH_BODIES = 256
#: Looks at an idle connection in one interval of heartbeats.
LOOKS_A_HEARTBEAT = 4


async def connect(parameters: Parameters | str) -> Connection:
    """Opens a connection that the running loop looks after."""
    if isinstance(parameters, str):
        parameters = URLParameters(parameters)
    return Connection(connect_core(parameters, is_polled=True), asyncio.get_running_loop())


class Connection:
    """Made by `connect`. It belongs to its loop."""

    def __init__(self, core: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._core = core
        self._loop = loop
        self._channels: dict[int, Channel] = {}
        self._answer: asyncio.Future[Any] | None = None
        self._room: list[asyncio.Future[None]] = []
        self._failure: exceptions.AMQPError | None = None
        self._is_closing = False
        #: The channel whose call awaits its answer.
        self._asked_of: Channel | None = None
        self._timer: asyncio.TimerHandle | None = None
        heartbeat = core.tuning()[2]
        self._look_s = heartbeat / LOOKS_A_HEARTBEAT if heartbeat else None
        self._fd = core.fileno()
        loop.add_reader(self._fd, self._look)
        self._look()

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.is_open:
            await self.close()

    @property
    def is_open(self) -> bool:
        return self._failure is None

    @property
    def transport(self) -> str:
        """`tcp`, `tls`, `unix` or `rdma`."""
        return self._core.transport()

    async def channel(self) -> Channel:
        """Opens a channel."""
        channel = Channel(self, await self._ask(self._core.open_channel))
        self._channels[channel.channel_number] = channel
        return channel

    async def close(self) -> None:
        """Ends the connection in order: what was published before is sent, what is unacknowledged is requeued."""

        def call() -> None:
            self._is_closing = True
            self._core.close()

        await self._ask(call)
        self._ended(exceptions.ConnectionClosedByClient(200, "Normal shutdown"))

    # What follows is for channels.

    async def _ask(self, method: Callable[..., Any], *arguments: Any, of: Channel | None = None) -> Any:
        """Makes a call and awaits its answer. The connection has one at a time; what is cancelled is answered all the same."""
        while self._answer is not None:
            await asyncio.wait([self._answer])
        self._check()
        self._asked_of = of
        method(*arguments)
        answer = self._answer = self._loop.create_future()
        # Nobody may be there to see how it ends.
        answer.add_done_callback(lambda answer: answer.cancelled() or answer.exception())
        self._send()
        return await asyncio.shield(answer)

    def _check(self) -> None:
        if self._failure is not None:
            raise exceptions.ConnectionWrongStateError(f"the connection is closed: {self._failure}")

    def _send(self) -> None:
        try:
            self._core.flush()
        except exceptions.AMQPError as error:
            self._failed(error)
            raise

    async def _await_room(self) -> None:
        """Waits until the link has taken enough of what is written."""
        while self._core.unsent_bytes() > UNSENT_BYTES_MAX:
            room = self._loop.create_future()
            self._room.append(room)
            await room
            self._check()

    def _look(self) -> None:
        """Takes what has come and sends what can be sent; tells those who wait for it."""
        if self._failure is not None:
            return
        try:
            deliveries, is_drained = self._core.drain()
            for delivery in deliveries:
                channel = self._channels.get(delivery.channel_number)
                if channel is not None:
                    channel._deliver(delivery)
            self._tell()
        except exceptions.AMQPError as error:
            self._failed(error)
            is_drained = False
        if self._failure is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not is_drained:
            self._loop.call_soon(self._look)
        elif self._look_s is not None:
            self._timer = self._loop.call_later(self._look_s, self._look)

    def _tell(self) -> None:
        for message in self._core.take_returned():
            channel = self._channels.get(message.channel_number)
            if channel is not None:
                channel._returned.append(message)
        for number, consumer_tag in self._core.take_cancelled():
            channel = self._channels.get(number)
            if channel is not None:
                channel._cancelled(consumer_tag)
        for channel in self._channels.values():
            channel._tell_confirmed()
        if self._answer is not None:
            is_answered, value = self._core.take_answer()
            if is_answered:
                answer, self._answer = self._answer, None
                if not answer.done():
                    answer.set_result(value)
        if self._room and self._core.unsent_bytes() <= UNSENT_BYTES_MAX:
            self._wake_room()

    def _wake_room(self) -> None:
        waiting, self._room = self._room, []
        for room in waiting:
            if not room.done():
                room.set_result(None)

    def _failed(self, error: exceptions.AMQPError) -> None:
        """Ends what has ended with this error: a channel, or the connection. Whoever awaits something of it is told."""
        if isinstance(error, exceptions.ChannelClosedByBroker):
            channel = self._channels.pop(error.channel_number, None)
            if self._answer is not None and channel is self._asked_of:
                self._fail_answer(error)
                try:
                    # The client awaits an answer that does not come; asked, it says so, and awaits none.
                    self._core.take_answer()
                except exceptions.ChannelClosedByBroker:
                    pass
            if channel is not None:
                channel._ended(error)
        elif self._is_closing and isinstance(error, exceptions.StreamLostError):
            # The server has answered, and ended the link with it.
            answer, self._answer = self._answer, None
            if answer is not None and not answer.done():
                answer.set_result(None)
        elif isinstance(error, exceptions.AMQPConnectionError):
            self._ended(error)
        else:
            self._fail_answer(error)

    def _fail_answer(self, error: BaseException) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(error)

    def _ended(self, error: exceptions.AMQPError) -> None:
        if self._failure is not None:
            return
        self._failure = error
        self._loop.remove_reader(self._fd)
        if self._timer is not None:
            self._timer.cancel()
        self._fail_answer(error)
        channels, self._channels = list(self._channels.values()), {}
        for channel in channels:
            channel._ended(error)
        self._wake_room()
        self._core.drop_client()


class Channel:
    """Made by `Connection.channel`; its calls are those of `harrier.BlockingChannel`, awaited."""

    def __init__(self, connection: Connection, handle: ChannelHandle) -> None:
        self.connection = connection
        self.channel_number = handle.number
        self._core = connection._core
        self._handle = handle
        self._failure: exceptions.AMQPError | None = None
        self._is_confirming = False
        self._unconfirmed: collections.deque[tuple[int, asyncio.Future[None]]] = collections.deque()
        self._returned: list[Delivery] = []
        self._mandatory = asyncio.Lock()
        self._consumers: dict[str, Consumer] = {}
        #: Deliveries that came before their consumer's tag did.
        self._early: list[Delivery] = []

    async def __aenter__(self) -> Channel:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.is_open:
            await self.close()

    @property
    def is_open(self) -> bool:
        return self._failure is None

    async def _ask(self, method: Callable[..., Any], *arguments: Any) -> Any:
        def call() -> None:
            self._check()
            method(self._handle, *arguments)

        return await self.connection._ask(call, of=self)

    def _check(self) -> None:
        self.connection._check()
        if self._failure is not None:
            raise exceptions.ChannelWrongStateError(f"the channel is closed: {self._failure}")

    async def close(self) -> None:
        """Closes the channel; what was delivered on it and not acknowledged is requeued."""
        await self._ask(self._core.close_channel)
        self.connection._channels.pop(self.channel_number, None)
        self._ended(exceptions.ChannelClosedByClient(0, "Normal shutdown"))

    async def exchange_declare(
        self,
        exchange: str,
        exchange_type: str = "direct",
        passive: bool = False,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: dict[str, Any] | None = None,
    ) -> None:
        kind = str(getattr(exchange_type, "value", exchange_type))
        await self._ask(self._core.declare_exchange, exchange, kind, passive, durable, auto_delete, internal, arguments)

    async def exchange_delete(self, exchange: str, if_unused: bool = False) -> None:
        await self._ask(self._core.delete_exchange, exchange, if_unused)

    async def queue_declare(
        self,
        queue: str,
        passive: bool = False,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: dict[str, Any] | None = None,
    ) -> DeclareOk:
        return DeclareOk(
            *await self._ask(self._core.declare_queue, queue, passive, durable, exclusive, auto_delete, arguments)
        )

    async def queue_bind(
        self, queue: str, exchange: str, routing_key: str | None = None, arguments: dict[str, Any] | None = None
    ) -> None:
        key = queue if routing_key is None else routing_key
        await self._ask(self._core.bind_queue, True, queue, exchange, key, arguments)

    async def queue_unbind(
        self, queue: str, exchange: str, routing_key: str | None = None, arguments: dict[str, Any] | None = None
    ) -> None:
        key = queue if routing_key is None else routing_key
        await self._ask(self._core.bind_queue, False, queue, exchange, key, arguments)

    async def queue_delete(self, queue: str, if_unused: bool = False, if_empty: bool = False) -> int:
        return await self._ask(self._core.delete_queue, queue, if_unused, if_empty)

    async def queue_purge(self, queue: str) -> int:
        return await self._ask(self._core.purge_queue, queue)

    async def basic_qos(self, prefetch_count: int = 0, global_qos: bool = False) -> None:
        await self._ask(self._core.qos, prefetch_count, global_qos)

    async def basic_get(self, queue: str, auto_ack: bool = False) -> Delivery | None:
        return await self._ask(self._core.get, queue, auto_ack)

    async def confirm_delivery(self) -> None:
        """From now on a publish is over once the server has confirmed it, or raises."""
        await self._ask(self._core.confirm_select)
        self._is_confirming = True

    async def tx_select(self) -> None:
        await self._ask(self._core.tx_select)

    async def tx_commit(self) -> None:
        await self._ask(self._core.tx_commit)

    async def tx_rollback(self) -> None:
        await self._ask(self._core.tx_rollback)

    async def basic_publish(
        self,
        exchange: str,
        routing_key: str,
        body: Any,
        properties: BasicProperties | None = None,
        mandatory: bool = False,
    ) -> None:
        """Publishes; waits for room, and for the confirm if deliveries are confirmed."""
        await self.publish_many(exchange, routing_key, (body,), properties, mandatory)

    async def publish_many(
        self,
        exchange: str,
        routing_key: str,
        bodies: Iterable[Any],
        properties: BasicProperties | None = None,
        mandatory: bool = False,
    ) -> None:
        """Publishes one message for each body, and waits for confirms once, at the end."""
        if mandatory and self._is_confirming:
            # One at a time: what comes back does not say which publish it was.
            async with self._mandatory:
                self._returned.clear()
                await self._publish(exchange, routing_key, bodies, properties, True)
                if self._returned:
                    returned, self._returned = self._returned, []
                    raise exceptions.UnroutableError(returned)
        else:
            await self._publish(exchange, routing_key, bodies, properties, mandatory)

    async def _publish(
        self, exchange: str, routing_key: str, bodies: Iterable[Any], properties: Any, mandatory: bool
    ) -> None:
        bodies, tag = iter(bodies), 0
        while batch := list(itertools.islice(bodies, BATCH_BODIES)):
            await self.connection._await_room()
            self._check()
            try:
                tag = self._core.publish_many(self._handle, exchange, routing_key, batch, properties, mandatory)
            except exceptions.AMQPError as error:
                self.connection._failed(error)
                raise
        if tag:
            confirmed = self.connection._loop.create_future()
            self._unconfirmed.append((tag, confirmed))
            await confirmed

    def returned(self) -> list[Delivery]:
        """The messages that came back since this was asked last, where deliveries are not confirmed."""
        returned, self._returned = self._returned, []
        return returned

    def _tell_confirmed(self) -> None:
        if not self._unconfirmed:
            return
        confirmed_up_to = self._core.confirmed_up_to(self._handle)
        refused = self._core.take_refused(self._handle)
        first = 0
        while self._unconfirmed and self._unconfirmed[0][0] <= confirmed_up_to:
            tag, confirmed = self._unconfirmed.popleft()
            mine = [number for number in refused + self._refused_early if first < number <= tag]
            first = tag
            if confirmed.done():
                continue
            if mine:
                confirmed.set_exception(exceptions.NackError(mine))
            else:
                confirmed.set_result(None)
        # Refused, but what was published before it is not settled yet.
        self._refused_early = [number for number in self._refused_early + refused if number > confirmed_up_to]

    #: Refused tags above the lowest that is not confirmed.
    _refused_early: list[int] = []

    async def basic_consume(
        self, queue: str, auto_ack: bool = False, exclusive: bool = False, arguments: dict[str, Any] | None = None
    ) -> Consumer:
        """Starts a consumer, which is iterated over; without a prefetch count (`basic_qos`) it keeps all that comes."""
        tag = await self._ask(self._core.consume, queue, "", auto_ack, exclusive, arguments)
        consumer = self._consumers[tag] = Consumer(self, tag)
        early, self._early = self._early, []
        for delivery in early:
            self._deliver(delivery)
        return consumer

    async def basic_ack(self, delivery_tag: int = 0, multiple: bool = False) -> None:
        await self._settle(self._core.ack, delivery_tag, multiple)

    async def basic_nack(self, delivery_tag: int = 0, multiple: bool = False, requeue: bool = True) -> None:
        await self._settle(self._core.nack, delivery_tag, multiple, requeue)

    async def basic_reject(self, delivery_tag: int = 0, requeue: bool = True) -> None:
        await self._settle(self._core.reject, delivery_tag, requeue)

    async def _settle(self, method: Callable[..., Any], *arguments: Any) -> None:
        self._check()
        try:
            method(self._handle, *arguments, True)
        except exceptions.AMQPError as error:
            self.connection._failed(error)
            raise
        await self.connection._await_room()

    def _deliver(self, delivery: Delivery) -> None:
        consumer = self._consumers.get(delivery.consumer_tag)
        if consumer is None:
            self._early.append(delivery)
        else:
            consumer._put(delivery)

    def _cancelled(self, consumer_tag: str) -> None:
        consumer = self._consumers.pop(consumer_tag, None)
        if consumer is not None:
            consumer._end(exceptions.ConsumerCancelled(consumer_tag))

    def _ended(self, error: exceptions.AMQPError) -> None:
        self._failure = error
        consumers, self._consumers = list(self._consumers.values()), {}
        for consumer in consumers:
            consumer._end(error)
        while self._unconfirmed:
            _, confirmed = self._unconfirmed.popleft()
            if not confirmed.done():
                confirmed.set_exception(error)
                confirmed.exception()  # whoever awaited it may be gone


class Consumer:
    """The messages of one consumer: `async for`, or some at a time by `deliveries`."""

    def __init__(self, channel: Channel, consumer_tag: str) -> None:
        self.channel = channel
        self.consumer_tag = consumer_tag
        self._waiting: collections.deque[Delivery] = collections.deque()
        self._wake: asyncio.Future[None] | None = None
        self._failure: exceptions.AMQPError | None = None
        self._is_over = False

    def __aiter__(self) -> AsyncIterator[Delivery]:
        return self

    async def __anext__(self) -> Delivery:
        found = await self.deliveries(1)
        if not found:
            raise StopAsyncIteration
        return found[0]

    async def deliveries(self, most: int) -> list[Delivery]:
        """Up to so many messages, as soon as there is one; none once the consumer was cancelled."""
        while not self._waiting:
            if self._failure is not None:
                raise self._failure
            if self._is_over:
                return []
            if self._wake is None or self._wake.done():
                self._wake = self.channel.connection._loop.create_future()
            await asyncio.shield(self._wake)
        return [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]

    async def cancel(self) -> None:
        """Ends the consumer. What it was given and nobody has seen stays to be iterated over."""
        await self.channel._ask(self.channel._core.cancel, self.consumer_tag)
        self.channel._consumers.pop(self.consumer_tag, None)
        self._end(None)

    def _put(self, delivery: Delivery) -> None:
        self._waiting.append(delivery)
        self._wake_up()

    def _end(self, error: exceptions.AMQPError | None) -> None:
        self._is_over = True
        self._failure = error
        self._wake_up()

    def _wake_up(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)
