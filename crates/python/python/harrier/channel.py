"""A channel of a blocking connection, in pika's words; `publish_many` and `deliveries` are this package's own.

What is published or acknowledged one by one is sent before the call returns.
"""

from __future__ import annotations

import collections
import time
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator

from . import exceptions
from .spec import Answer, DeclareOk, MessageCount

if TYPE_CHECKING:
    from ._harrier import BasicProperties, ChannelHandle, Delivery
    from .connection import BlockingConnection

    OnMessage = Callable[["BlockingChannel", Delivery, BasicProperties, Any], Any]

OK = Answer()


class Consumer:
    """A consumer of this channel: whom its deliveries are for (`None`: for `deliveries`)."""

    __slots__ = ("callback", "auto_ack")

    def __init__(self, callback: OnMessage | None, auto_ack: bool) -> None:
        self.callback = callback
        self.auto_ack = auto_ack


class BlockingChannel:
    """Made by `BlockingConnection.channel`."""

    def __init__(self, connection: BlockingConnection, handle: ChannelHandle) -> None:
        self.connection = connection
        self.channel_number = handle.number
        self._core = connection._core
        self._handle = handle
        self._is_open = True
        self._is_confirming = False
        self._consumers: dict[str, Consumer] = {}
        self._waiting: collections.deque[Delivery] = collections.deque()
        self._returned: list[Delivery] = []
        self._on_return: list[OnMessage] = []
        self._on_cancel: list[Callable[[str], Any]] = []
        self._generator_tag: str | None = None

    def __enter__(self) -> BlockingChannel:
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_open:
            self.close()

    def __int__(self) -> int:
        return self.channel_number

    def __repr__(self) -> str:
        return f"<BlockingChannel {self.channel_number} {'open' if self.is_open else 'closed'}>"

    @property
    def is_open(self) -> bool:
        return self._is_open

    @property
    def is_closed(self) -> bool:
        return not self._is_open

    @property
    def consumer_tags(self) -> list[str]:
        return list(self._consumers)

    def _call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return method(self._handle, *arguments)
        except exceptions.AMQPError as error:
            self.connection._failed(error)
            raise

    def close(self, reply_code: int = 0, reply_text: str = "Normal shutdown") -> None:
        """Closes the channel; what was delivered on it and not acknowledged is requeued."""
        if not self._is_open:
            raise exceptions.ChannelWrongStateError("the channel is closed")
        self._call(self._core.close_channel)
        self._is_open = False
        self._consumers.clear()
        self.connection._channels.pop(self.channel_number, None)

    # Exchanges and queues.

    def exchange_declare(
        self,
        exchange: str,
        exchange_type: str = "direct",
        passive: bool = False,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: dict[str, Any] | None = None,
    ) -> Answer:
        kind = str(getattr(exchange_type, "value", exchange_type))
        self._call(self._core.declare_exchange, exchange, kind, passive, durable, auto_delete, internal, arguments)
        return OK

    def exchange_delete(self, exchange: str, if_unused: bool = False) -> Answer:
        self._call(self._core.delete_exchange, exchange, if_unused)
        return OK

    def exchange_bind(
        self, destination: str, source: str, routing_key: str = "", arguments: dict[str, Any] | None = None
    ) -> Answer:
        self._call(self._core.bind_exchange, True, destination, source, routing_key, arguments)
        return OK

    def exchange_unbind(
        self, destination: str, source: str, routing_key: str = "", arguments: dict[str, Any] | None = None
    ) -> Answer:
        self._call(self._core.bind_exchange, False, destination, source, routing_key, arguments)
        return OK

    def queue_declare(
        self,
        queue: str,
        passive: bool = False,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: dict[str, Any] | None = None,
    ) -> DeclareOk:
        """Declares a queue; the server names one whose name is empty: `queue_declare("").method.queue`."""
        return DeclareOk(
            *self._call(self._core.declare_queue, queue, passive, durable, exclusive, auto_delete, arguments)
        )

    def queue_delete(self, queue: str, if_unused: bool = False, if_empty: bool = False) -> MessageCount:
        return MessageCount(self._call(self._core.delete_queue, queue, if_unused, if_empty))

    def queue_purge(self, queue: str) -> MessageCount:
        return MessageCount(self._call(self._core.purge_queue, queue))

    def queue_bind(
        self, queue: str, exchange: str, routing_key: str | None = None, arguments: dict[str, Any] | None = None
    ) -> Answer:
        """Binds a queue; without a routing key, by the queue's name."""
        key = queue if routing_key is None else routing_key
        self._call(self._core.bind_queue, True, queue, exchange, key, arguments)
        return OK

    def queue_unbind(
        self, queue: str, exchange: str, routing_key: str | None = None, arguments: dict[str, Any] | None = None
    ) -> Answer:
        key = queue if routing_key is None else routing_key
        self._call(self._core.bind_queue, False, queue, exchange, key, arguments)
        return OK

    # Publishing.

    def confirm_delivery(self) -> None:
        """From now on a publish returns once the server has confirmed it, or raises."""
        self._call(self._core.confirm_select)
        self._is_confirming = True

    def basic_publish(
        self,
        exchange: str,
        routing_key: str,
        body: Any,
        properties: BasicProperties | None = None,
        mandatory: bool = False,
    ) -> None:
        """Publishes bytes, text, or any object with a buffer.

        Raises `UnroutableError` and `NackError` if deliveries are confirmed and this one is not.
        """
        try:
            tag = self._core.publish(self._handle, exchange, routing_key, body, properties, mandatory, True)
            if self._is_confirming:
                self._confirmed(tag)
        except exceptions.AMQPError as error:
            self.connection._failed(error)
            raise

    def publish_many(
        self,
        exchange: str,
        routing_key: str,
        bodies: Iterable[Any],
        properties: BasicProperties | None = None,
        mandatory: bool = False,
    ) -> None:
        """Publishes one message for each body, all with the same properties, and waits for confirms once, at the end."""
        try:
            tag = self._core.publish_many(self._handle, exchange, routing_key, bodies, properties, mandatory)
            if self._is_confirming:
                self._confirmed(tag)
        except exceptions.AMQPError as error:
            self.connection._failed(error)
            raise

    def _confirmed(self, tag: int) -> None:
        """Waits until every publish up to this one is confirmed; raises for those that are not, or came back."""
        if self._core.confirmed_up_to(self._handle) < tag:
            self._core.wait_confirms(self._handle, 0)
        self.connection._route_returned()
        refused = self._core.take_refused(self._handle)
        returned, self._returned = self._returned, []
        if refused:
            raise exceptions.NackError(refused)
        if returned:
            raise exceptions.UnroutableError(returned)

    def add_on_return_callback(self, callback: OnMessage) -> None:
        """Calls back for each message that comes back, if deliveries are not confirmed."""
        self._on_return.append(callback)

    def _came_back(self, message: Delivery) -> None:
        if self._is_confirming:
            self._returned.append(message)
            return
        for callback in self._on_return:
            callback(self, message, message.properties, message.body)

    def tx_select(self) -> Answer:
        self._call(self._core.tx_select)
        return OK

    def tx_commit(self) -> Answer:
        self._call(self._core.tx_commit)
        return OK

    def tx_rollback(self) -> Answer:
        self._call(self._core.tx_rollback)
        return OK

    # Consuming.

    def basic_qos(self, prefetch_size: int = 0, prefetch_count: int = 0, global_qos: bool = False) -> None:
        """Limits unacknowledged deliveries. A size is not supported, by no broker."""
        if prefetch_size:
            raise exceptions.MethodNotImplemented("a prefetch size")
        self._call(self._core.qos, prefetch_count, global_qos)

    def basic_consume(
        self,
        queue: str,
        on_message_callback: OnMessage | None = None,
        auto_ack: bool = False,
        exclusive: bool = False,
        consumer_tag: str | None = None,
        arguments: dict[str, Any] | None = None,
    ) -> str:
        """Starts a consumer and says its tag. Without a callback its messages are for `deliveries`."""
        if consumer_tag in self._consumers:
            raise exceptions.DuplicateConsumerTag(consumer_tag)
        tag = self._call(self._core.consume, queue, consumer_tag or "", auto_ack, exclusive, arguments)
        self._consumers[tag] = Consumer(on_message_callback, auto_ack)
        return tag

    def basic_cancel(self, consumer_tag: str) -> list[tuple[Delivery, BasicProperties, Any]]:
        """Ends a consumer. What it was given and nobody has seen is requeued; with `auto_ack` it is the answer."""
        consumer = self._consumers.get(consumer_tag)
        if consumer is None:
            return []
        self._call(self._core.cancel, consumer_tag)
        self._consumers.pop(consumer_tag, None)
        # What was on its way has come before the answer.
        connection = self.connection
        while came := connection._core.take(1024, 0.0):
            connection._pending.extend(came)
        unseen = [waiting for waiting in self._waiting if waiting.consumer_tag == consumer_tag]
        if unseen:
            self._waiting = collections.deque(w for w in self._waiting if w.consumer_tag != consumer_tag)
        unseen += connection._drop_pending(self.channel_number, consumer_tag)
        if consumer.auto_ack:
            return [(message, message.properties, message.body) for message in unseen]
        for message in unseen:
            self._core.reject(self._handle, message.delivery_tag, True, False)
        self._core.flush()
        return []

    def add_on_cancel_callback(self, callback: Callable[[str], Any]) -> None:
        """Calls back with the tag of a consumer that the server ended, because its queue is gone."""
        self._on_cancel.append(callback)

    def _cancelled_by_server(self, consumer_tag: str) -> None:
        self._consumers.pop(consumer_tag, None)
        if consumer_tag == self._generator_tag:
            self._generator_tag = None
        for callback in self._on_cancel:
            callback(consumer_tag)

    def start_consuming(self) -> None:
        """Calls back for what comes, until no consumer is left: see `stop_consuming`."""
        step = self.connection._step
        while self._consumers and self._is_open:
            step(5.0)

    def stop_consuming(self, consumer_tag: str | None = None) -> None:
        """Ends one consumer, or all of the channel."""
        for tag in [consumer_tag] if consumer_tag else self.consumer_tags:
            self.basic_cancel(tag)

    def _deliver(self, delivery: Delivery) -> None:
        consumer = self._consumers.get(delivery.consumer_tag)
        if consumer is None:
            return
        if consumer.callback is None:
            self._waiting.append(delivery)
        else:
            consumer.callback(self, delivery, delivery.properties, delivery.body)

    def deliveries(self, most: int, timeout: float | None = None) -> list[Delivery]:
        """Up to so many messages of this channel's consumers without callbacks, as soon as there is one.

        Waits up to `timeout` seconds for the first (`None`: as long as there are such consumers). The list is empty after
        that. One crossing into Rust a call, whatever the number: acknowledge with `basic_ack(last, multiple=True)`.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        connection, mine = self.connection, self.channel_number
        while True:
            if self._waiting:
                count = min(most, len(self._waiting))
                return [self._waiting.popleft() for _ in range(count)]
            left = 5.0 if deadline is None else max(0.0, deadline - time.monotonic())
            found = connection._take(most, left)
            connection._news()
            if found:
                own = self._own(found, mine)
                if own:
                    return own
            elif (deadline is not None and time.monotonic() >= deadline) or not self._consumers:
                return []

    def _own(self, found: list[Delivery], mine: int) -> list[Delivery]:
        """Of what was taken, this channel's; others get theirs."""
        consumers = self._consumers
        own: list[Delivery] = []
        for delivery in found:
            if delivery.channel_number == mine:
                consumer = consumers.get(delivery.consumer_tag)
                if consumer is not None and consumer.callback is None:
                    own.append(delivery)
                    continue
            channel = self.connection._channels.get(delivery.channel_number)
            if channel is not None:
                channel._deliver(delivery)
        return own

    def consume(
        self,
        queue: str,
        auto_ack: bool = False,
        exclusive: bool = False,
        arguments: dict[str, Any] | None = None,
        inactivity_timeout: float | None = None,
    ) -> Iterator[tuple[Any, Any, Any]]:
        """Yields method, properties and body of each message, and three times `None` after so long without one."""
        if self._generator_tag is None:
            self._generator_tag = self.basic_consume(queue, None, auto_ack, exclusive, None, arguments)
        while self._generator_tag is not None:
            found = self.deliveries(1, inactivity_timeout)
            if found:
                yield found[0], found[0].properties, found[0].body
            elif self._generator_tag is not None:
                yield None, None, None

    def cancel(self) -> int:
        """Ends `consume`. What nobody has seen is requeued."""
        tag, self._generator_tag = self._generator_tag, None
        return len(self.basic_cancel(tag)) if tag is not None else 0

    def basic_get(self, queue: str, auto_ack: bool = False) -> tuple[Any, Any, Any]:
        """Takes one message: method, properties and body, or three times `None`."""
        message = self._call(self._core.get, queue, auto_ack)
        return (None, None, None) if message is None else (message, message.properties, message.body)

    def basic_ack(self, delivery_tag: int = 0, multiple: bool = False) -> None:
        """Acknowledges one delivery, or all up to it."""
        self._call(self._core.ack, delivery_tag, multiple, True)

    def basic_nack(self, delivery_tag: int = 0, multiple: bool = False, requeue: bool = True) -> None:
        """Refuses one delivery, or all up to it."""
        self._call(self._core.nack, delivery_tag, multiple, requeue, True)

    def basic_reject(self, delivery_tag: int = 0, requeue: bool = True) -> None:
        """Refuses one delivery."""
        self._call(self._core.reject, delivery_tag, requeue, True)

    def basic_recover(self, requeue: bool = True) -> None:
        """Has everything unacknowledged delivered again."""
        self._call(self._core.recover, requeue)
