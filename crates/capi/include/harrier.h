/* Harrier's client for C: AMQP 0-9-1 over TCP, TLS, Unix sockets and RDMA.
 *
 * This file is made of the sources of `crates/capi` by cbindgen; docs/clients/c.md explains the library.
 *
 * Threads: a connection and its channels belong to the thread that opened them. Calls of another thread get
 *   HARRIER_WRONG_THREAD, those of a fork HARRIER_FORKED, and nothing happens.
 * Memory: what a call puts into a harrier_delivery is borrowed: valid until the next call on its connection, whose arguments may
 *   still point into it. Everything that is given to a call need only live as long as the call.
 * Failures: a call that returns more than HARRIER_PENDING has failed; harrier_error_text() says why, on the same thread.
 * Sending: what is published and acknowledged is written, and sent by harrier_flush, by any call that waits, and whenever 64 KiB
 *   are written.
 */

#ifndef HARRIER_H
#define HARRIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 Only check that it exists.
 */
#define HARRIER_PASSIVE 1

/*
 Survives a restart of the broker.
 */
#define HARRIER_DURABLE 2

/*
 A queue of this connection alone; or the only consumer of a queue.
 */
#define HARRIER_EXCLUSIVE 4

/*
 Goes when its last consumer, or binding, goes.
 */
#define HARRIER_AUTO_DELETE 8

/*
 An exchange that takes messages from other exchanges only.
 */
#define HARRIER_INTERNAL 16

/*
 Deliveries need no acknowledgement.
 */
#define HARRIER_NO_ACK 32

/*
 Delete only if nobody consumes from it, or is bound to it.
 */
#define HARRIER_IF_UNUSED 64

/*
 Delete only if there is no message in it.
 */
#define HARRIER_IF_EMPTY 128

/*
 What a call came to. Above HARRIER_PENDING it has failed.
 */
typedef enum {
  /*
   It is done.
   */
  HARRIER_OK = 0,
  /*
   There is none: no delivery in time, an empty queue, no returned message, no answer yet.
   */
  HARRIER_NONE = 1,
  /*
   Of a polled connection: it was asked, and harrier_take_answer has the answer later.
   */
  HARRIER_PENDING = 2,
  /*
   A pointer that must not be NULL is, a text is no UTF-8 or too long, a number is out of range.
   */
  HARRIER_INVALID_ARGUMENT = 3,
  /*
   The address is not understood, or its certificates cannot be read.
   */
  HARRIER_INVALID_URL = 4,
  /*
   No such connection: closed before, or never opened.
   */
  HARRIER_NO_CONNECTION = 5,
  /*
   The connection belongs to another thread.
   */
  HARRIER_WRONG_THREAD = 6,
  /*
   The connection belongs to the process of which this one is a fork.
   */
  HARRIER_FORKED = 7,
  /*
   Another call on the connection is not over, or was interrupted before its answer came (close it).
   */
  HARRIER_IN_USE = 8,
  /*
   No connection could be made, or it was lost.
   */
  HARRIER_LOST = 9,
  /*
   The server closed the connection: harrier_reply_code.
   */
  HARRIER_CONNECTION_CLOSED = 10,
  /*
   The server closed the channel: harrier_reply_code. The connection goes on.
   */
  HARRIER_CHANNEL_CLOSED = 11,
  /*
   The channel is not open.
   */
  HARRIER_CHANNEL_NOT_OPEN = 12,
  /*
   The server broke the protocol.
   */
  HARRIER_PROTOCOL_ERROR = 13,
  /*
   No answer, no heartbeat or no room to send in time.
   */
  HARRIER_TIMED_OUT = 14,
  /*
   Too much is written and not sent (polled), or too many deliveries came while an answer was awaited.
   */
  HARRIER_FULL = 15,
  /*
   The server does not offer this.
   */
  HARRIER_NOT_OFFERED = 16,
  /*
   is_interrupted wanted the call to end.
   */
  HARRIER_INTERRUPTED = 17,
  /*
   All channels that were agreed on, or all connections of a thread, are in use.
   */
  HARRIER_NONE_LEFT = 18,
  /*
   The server refused messages that were published (basic.nack): harrier_take_refused.
   */
  HARRIER_REFUSED = 19,
  /*
   A fault of this library. The connection is gone.
   */
  HARRIER_INTERNAL_ERROR = 20,
} harrier_status;

/*
 Which property of a message: for harrier_property_text those with a text, for harrier_property_number those with a number.
 */
typedef enum {
  HARRIER_CONTENT_TYPE = 0,
  HARRIER_CONTENT_ENCODING = 1,
  HARRIER_DELIVERY_MODE = 2,
  HARRIER_PRIORITY = 3,
  HARRIER_CORRELATION_ID = 4,
  HARRIER_REPLY_TO = 5,
  HARRIER_EXPIRATION = 6,
  HARRIER_MESSAGE_ID = 7,
  HARRIER_MESSAGE_TIMESTAMP = 8,
  HARRIER_MESSAGE_TYPE = 9,
  HARRIER_USER_ID = 10,
  HARRIER_APP_ID = 11,
  HARRIER_CLUSTER_ID = 12,
} harrier_property;

/*
 The type of a field.
 */
typedef enum {
  /*
   Nothing.
   */
  HARRIER_VOID = 0,
  /*
   `integer` is 0 or 1.
   */
  HARRIER_BOOL = 1,
  /*
   `integer`.
   */
  HARRIER_INTEGER = 2,
  /*
   `real`.
   */
  HARRIER_REAL = 3,
  /*
   `bytes`: text.
   */
  HARRIER_STRING = 4,
  /*
   `bytes`.
   */
  HARRIER_BINARY = 5,
  /*
   `integer`: seconds since 1970.
   */
  HARRIER_TIMESTAMP = 6,
  /*
   `real`, and in `integer` its digits. Not to be sent.
   */
  HARRIER_DECIMAL = 7,
  /*
   `bytes`: a table as it is on the wire, for harrier_item and harrier_item_at.
   */
  HARRIER_TABLE = 8,
  /*
   `bytes`: a list as it is on the wire, for harrier_item_at.
   */
  HARRIER_LIST = 9,
} harrier_kind;

/*
 A message that C keeps, beyond its connection if need be.
 */
typedef struct harrier_message harrier_message;

/*
 A text of C: UTF-8, ended by a NUL.
 */
typedef const char *harrier_text;

/*
 Options of a connection. All zero is as usual.
 */
typedef struct {
  /*
   The name that the broker's tools show.
   */
  harrier_text name;
  /*
   Longest wait for a connection, an answer, or room to send. 0: 30,000.
   */
  uint32_t timeout_ms;
  /*
   0: as the server wishes.
   */
  uint16_t heartbeat_s;
  /*
   0: as many as possible.
   */
  uint16_t channel_max;
  /*
   0: as usual.
   */
  uint32_t frame_bytes_max;
  /*
   Asked while a call waits, after each signal and every 250 ms, whether it shall end. It may not call this library.
   */
  bool (*is_interrupted)(void);
} harrier_options;

/*
 A connection. All zero is none.
 */
typedef struct {
  uint64_t id;
} harrier_connection;

/*
 A channel of a connection. All zero is none.
 */
typedef struct {
  harrier_connection connection;
  uint64_t id;
} harrier_channel;

/*
 Bytes in memory of somebody else's. No bytes may be at NULL.
 */
typedef struct {
  const uint8_t *data;
  size_t len;
} harrier_bytes;

/*
 A field of a table: a header of a message, or an argument of a declaration.
 */
typedef struct {
  harrier_bytes name;
  /*
   A harrier_kind.
   */
  int32_t kind;
  int64_t integer;
  double real;
  harrier_bytes bytes;
} harrier_field;

/*
 Fields in a row.
 */
typedef struct {
  const harrier_field *at;
  size_t len;
} harrier_fields;

/*
 A name of AMQP, which has 255 bytes at most, ended by a NUL.
 */
typedef struct {
  char text[256];
} harrier_name;

/*
 What a declared queue is called, and has.
 */
typedef struct {
  harrier_name name;
  uint32_t messages;
  uint32_t consumers;
} harrier_queue;

/*
 Properties of a message that is published. All zero is none; what is NULL or 0 is absent.
 */
typedef struct {
  harrier_text content_type;
  harrier_text content_encoding;
  harrier_fields headers;
  /*
   2: persistent.
   */
  uint8_t delivery_mode;
  uint8_t priority;
  harrier_text correlation_id;
  harrier_text reply_to;
  /*
   Milliseconds, as a text.
   */
  harrier_text expiration;
  harrier_text message_id;
  /*
   Seconds since 1970.
   */
  uint64_t timestamp;
  harrier_text message_type;
  harrier_text user_id;
  harrier_text app_id;
  harrier_text cluster_id;
} harrier_properties;

/*
 A message: delivered, got, or returned. What it points to is borrowed until the next call on its connection.
 */
typedef struct {
  /*
   The channel it came on: acknowledge it there.
   */
  harrier_channel channel;
  /*
   What to acknowledge.
   */
  uint64_t delivery_tag;
  /*
   Whether it was delivered before.
   */
  bool redelivered;
  /*
   Of a returned message: why (312: no queue took it).
   */
  uint16_t reply_code;
  /*
   Of a message that was got: how many are left in the queue.
   */
  uint32_t messages_left;
  harrier_bytes consumer_tag;
  harrier_bytes exchange;
  harrier_bytes routing_key;
  /*
   As on the wire: harrier_property_text, harrier_property_number, harrier_header.
   */
  harrier_bytes properties;
  harrier_bytes body;
  /*
   Of a returned message.
   */
  harrier_bytes reply_text;
} harrier_delivery;

/*
 The answer to a call of a polled connection.
 */
typedef struct {
  /*
   Of harrier_open_channel.
   */
  harrier_channel channel;
  /*
   Of harrier_declare_queue the queue's, of harrier_consume the consumer's tag.
   */
  harrier_name name;
  /*
   In a declared queue, or purged, or deleted with it.
   */
  uint32_t messages;
  uint32_t consumers;
  /*
   Of harrier_get, whether there was one.
   */
  bool has_message;
  harrier_delivery message;
} harrier_answer;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 This library's version.
 */
const char *harrier_version(void);

/*
 Why the last call of this thread that failed did so: a text until the next failure. Never NULL.
 */
const char *harrier_error_text(void);

/*
 The server's reply code (404: not found, 403: access refused), if it was a HARRIER_CONNECTION_CLOSED or
 HARRIER_CHANNEL_CLOSED; else 0.
 */
uint16_t harrier_reply_code(void);

/*
 The server's own text with harrier_reply_code.
 */
const char *harrier_reply_text(void);

/*
 Connects: amqp://, amqps://, amqp+rdma:// or amqp+unix:, with the parameters of an address behind its `?`. `options` may be
 NULL.
 */
harrier_status harrier_connect(harrier_text url,
                               const harrier_options *options,
                               harrier_connection *connection);

/*
 Ends a connection in order: what is written is sent first. The handle is gone, whatever this returns.
 */
harrier_status harrier_close(harrier_connection connection);

/*
 As harrier_close, and tells the server why.
 */
harrier_status harrier_close_with(harrier_connection connection, uint16_t code, harrier_text text);

/*
 What carries the connection: "tcp", "tls", "unix", "rdma"; NULL if there is none.
 */
const char *harrier_transport(harrier_connection connection);

/*
 Whether the server has asked publishers to wait (connection.blocked).
 */
bool harrier_is_blocked(harrier_connection connection);

/*
 Sends what is written. Of a polled connection: what is taken now.
 */
harrier_status harrier_flush(harrier_connection connection);

/*
 Has no call on the connection wait from now on: calls that the server answers return HARRIER_PENDING, one at a time, and
 harrier_take_answer has their answer; what is not taken at once is sent by harrier_process and harrier_next.
 */
harrier_status harrier_set_polled(harrier_connection connection,
                                  bool is_polled);

/*
 A descriptor to poll for POLLIN: it is readable when something came, or more can be sent. Before a wait, call harrier_next
 (with 0) until it returns HARRIER_NONE, or harrier_process, and wait no longer than harrier_timeout_ms. It is closed with the
 connection; -1 after a failure.
 */
int32_t harrier_fd(harrier_connection connection);

/*
 How long to wait for the descriptor at most, in milliseconds: 0 if there may be more already; else so that no heartbeat is
 late.
 */
int32_t harrier_timeout_ms(harrier_connection connection);

/*
 Takes in what has come (confirms, answers, heartbeats), sends what is taken now and a heartbeat if one is due, and never
 waits. Deliveries are set aside with a copy of small bodies: harrier_next without a wait does the same without one. A program
 that is busy for long calls it at least twice in an interval of heartbeats.
 */
harrier_status harrier_process(harrier_connection connection);

/*
 Opens a channel.
 */
harrier_status harrier_open_channel(harrier_connection connection, harrier_channel *channel);

/*
 Closes a channel; what was delivered on it and not acknowledged is requeued.
 */
harrier_status harrier_close_channel(harrier_channel channel);

/*
 Declares an exchange of a kind: "direct", "fanout", "topic", "headers". Flags: PASSIVE, DURABLE, AUTO_DELETE, INTERNAL.
 */
harrier_status harrier_declare_exchange(harrier_channel channel,
                                        harrier_text exchange,
                                        harrier_text kind,
                                        uint32_t flags,
                                        const harrier_fields *arguments);

/*
 Deletes an exchange. Flags: IF_UNUSED.
 */
harrier_status harrier_delete_exchange(harrier_channel channel, harrier_text exchange, uint32_t flags);

/*
 Declares a queue; an empty name lets the server choose one. `state` has its name, and may be NULL. Flags: PASSIVE, DURABLE,
 EXCLUSIVE, AUTO_DELETE.
 */
harrier_status harrier_declare_queue(harrier_channel channel,
                                     harrier_text queue,
                                     uint32_t flags,
                                     const harrier_fields *arguments,
                                     harrier_queue *state);

/*
 Deletes a queue; `messages` gets how many went with it, and may be NULL. Flags: IF_UNUSED, IF_EMPTY.
 */
harrier_status harrier_delete_queue(harrier_channel channel,
                                    harrier_text queue,
                                    uint32_t flags,
                                    uint32_t *messages);

/*
 Drops the ready messages of a queue; `messages` gets how many, and may be NULL.
 */
harrier_status harrier_purge_queue(harrier_channel channel, harrier_text queue, uint32_t *messages);

/*
 Binds a queue to an exchange.
 */
harrier_status harrier_bind_queue(harrier_channel channel,
                                  harrier_text queue,
                                  harrier_text exchange,
                                  harrier_text routing_key,
                                  const harrier_fields *arguments);

/*
 Undoes harrier_bind_queue.
 */
harrier_status harrier_unbind_queue(harrier_channel channel,
                                    harrier_text queue,
                                    harrier_text exchange,
                                    harrier_text routing_key,
                                    const harrier_fields *arguments);

/*
 Binds an exchange to another one, the source (an extension of RabbitMQ's).
 */
harrier_status harrier_bind_exchange(harrier_channel channel,
                                     harrier_text destination,
                                     harrier_text source,
                                     harrier_text routing_key,
                                     const harrier_fields *arguments);

/*
 Undoes harrier_bind_exchange.
 */
harrier_status harrier_unbind_exchange(harrier_channel channel,
                                       harrier_text destination,
                                       harrier_text source,
                                       harrier_text routing_key,
                                       const harrier_fields *arguments);

/*
 How many deliveries may be unacknowledged: of each consumer, or (`global`) of the channel. 0: any number.
 */
harrier_status harrier_qos(harrier_channel channel, uint16_t prefetch, bool global);

/*
 Starts a consumer; harrier_next has its deliveries. `wanted_tag` may be NULL: the server chooses. `tag` gets it, and may be
 NULL. Flags: NO_ACK, EXCLUSIVE.
 */
harrier_status harrier_consume(harrier_channel channel,
                               harrier_text queue,
                               harrier_text wanted_tag,
                               uint32_t flags,
                               const harrier_fields *arguments,
                               harrier_name *tag);

/*
 Ends a consumer. Deliveries that are on their way still come.
 */
harrier_status harrier_cancel(harrier_channel channel, harrier_text tag);

/*
 The next consumer that the server ended (its queue is gone) and that was not asked for yet; HARRIER_NONE if there is none.
 */
harrier_status harrier_cancelled(harrier_connection connection,
                                 harrier_channel *channel,
                                 harrier_name *tag);

/*
 Has the server confirm what is published on the channel from now on.
 */
harrier_status harrier_confirm_select(harrier_channel channel);

/*
 Publishes a message: written, and sent as the head of this file says. `exchange` is "" for the default exchange, whose routing
 keys are the names of queues. With `mandatory` a message that no queue takes comes back (harrier_returned). `properties` may be
 NULL. `tag` gets its number for confirms, or 0, and may be NULL. A body that was delivered in memory of its own (32 KiB and
 more) is not copied while it is borrowed.
 */
harrier_status harrier_publish(harrier_channel channel,
                               harrier_text exchange,
                               harrier_text routing_key,
                               harrier_bytes body,
                               const harrier_properties *properties,
                               bool mandatory,
                               uint64_t *tag);

/*
 Publishes `count` messages that differ in their bodies. `tag` gets the number of the last one.
 */
harrier_status harrier_publish_many(harrier_channel channel,
                                    harrier_text exchange,
                                    harrier_text routing_key,
                                    const harrier_bytes *bodies,
                                    size_t count,
                                    const harrier_properties *properties,
                                    bool mandatory,
                                    uint64_t *tag);

/*
 Waits until at most `outstanding_max` publishes of the channel are unconfirmed. HARRIER_REFUSED if the server refused some
 since they were asked for last. A polled connection gets HARRIER_PENDING instead of a wait.
 */
harrier_status harrier_wait_confirms(harrier_channel channel,
                                     uint64_t outstanding_max);

/*
 The number up to which all publishes of the channel are confirmed or refused; 0 if the channel is not open.
 */
uint64_t harrier_confirmed_up_to(harrier_channel channel);

/*
 The numbers of publishes that the server refused since this was asked last: up to `len` of them into `tags`, and how many
 there were into `count`. Those that find no room are not told again.
 */
harrier_status harrier_take_refused(harrier_channel channel,
                                    uint64_t *tags,
                                    size_t len,
                                    size_t *count);

/*
 The next delivery: waits for it up to `timeout_ms`, for ever with a negative one, and only looks with 0. HARRIER_NONE if none
 came. A polled connection only looks.
 */
harrier_status harrier_next(harrier_connection connection,
                            int64_t timeout_ms,
                            harrier_delivery *delivery);

/*
 Takes a message out of a queue; HARRIER_NONE if there is none. Flags: NO_ACK, as a truth.
 */
harrier_status harrier_get(harrier_channel channel,
                           harrier_text queue,
                           bool no_ack,
                           harrier_delivery *delivery);

/*
 The oldest message that came back and was not asked for yet; HARRIER_NONE if there is none.
 */
harrier_status harrier_returned(harrier_connection connection, harrier_delivery *delivery);

/*
 Acknowledges one delivery, or with `multiple` all of the channel up to it. Sent like a publish.
 */
harrier_status harrier_ack(harrier_channel channel, uint64_t delivery_tag, bool multiple);

/*
 Refuses one delivery, or with `multiple` all of the channel up to it; what is not requeued is dropped or dead-lettered.
 */
harrier_status harrier_nack(harrier_channel channel,
                            uint64_t delivery_tag,
                            bool multiple,
                            bool requeue);

/*
 Refuses one delivery.
 */
harrier_status harrier_reject(harrier_channel channel, uint64_t delivery_tag, bool requeue);

/*
 The answer to what a polled connection asked, once it has come; HARRIER_NONE before. Ask after harrier_process or
 harrier_next.
 */
harrier_status harrier_take_answer(harrier_connection connection,
                                   harrier_answer *answer);

/*
 Keeps a borrowed message until harrier_message_free, on any thread: a body in memory of its own (32 KiB and more) is kept
 without a copy, and the rest is copied. NULL after a failure.
 */
harrier_message *harrier_keep(const harrier_delivery *delivery);

/*
 What is kept. NULL for NULL.
 */
const harrier_delivery *harrier_message_delivery(const harrier_message *message);

/*
 Frees a message that was kept, on any thread. NULL is nothing.
 */
void harrier_message_free(harrier_message *message);

/*
 The bytes of a text, without its NUL; it must live on.
 */
harrier_bytes harrier_text_bytes(harrier_text text);

/*
 A field with a text. Name and text must live as long as it is used.
 */
harrier_field harrier_string_field(harrier_text name, harrier_text value);

/*
 A field with a number.
 */
harrier_field harrier_integer_field(harrier_text name, int64_t value);

/*
 A field with a truth.
 */
harrier_field harrier_bool_field(harrier_text name, bool value);

/*
 A field with bytes, which must live as long as it is used.
 */
harrier_field harrier_binary_field(harrier_text name, harrier_bytes value);

/*
 A field with a table, as harrier_encode_table makes it or as it came. Its bytes must live as long as it is used.
 */
harrier_field harrier_table_field(harrier_text name,
                                  harrier_bytes encoded);

/*
 A field with a list, as harrier_encode_list makes it or as it came. Its bytes must live as long as it is used.
 */
harrier_field harrier_list_field(harrier_text name,
                                 harrier_bytes encoded);

/*
 Puts fields together to a table, in memory of yours, of which `encoded` is then the part that it takes. HARRIER_FULL if it has
 too few bytes; `encoded.len` is then how many it needs.
 */
harrier_status harrier_encode_table(const harrier_fields *fields,
                                    uint8_t *memory,
                                    size_t memory_len,
                                    harrier_bytes *encoded);

/*
 The same with a list of values: their names are left out.
 */
harrier_status harrier_encode_list(const harrier_fields *fields,
                                   uint8_t *memory,
                                   size_t memory_len,
                                   harrier_bytes *encoded);

/*
 The field of this name in a table, which is a field itself; it points into that. HARRIER_NONE if there is none.
 */
harrier_status harrier_item(const harrier_field *of,
                            harrier_text name,
                            harrier_field *item);

/*
 The field at a place in a table, or the value at a place in a list, counted from 0: for a walk until HARRIER_NONE. The
 values of a list have no names.
 */
harrier_status harrier_item_at(const harrier_field *of,
                               size_t place,
                               harrier_field *item);

/*
 A property with a text; it points into the message. HARRIER_NONE if the message has none. `property` is a harrier_property.
 */
harrier_status harrier_property_text(const harrier_delivery *delivery,
                                     int32_t property,
                                     harrier_bytes *text);

/*
 A property with a number. HARRIER_NONE if the message has none.
 */
harrier_status harrier_property_number(const harrier_delivery *delivery, int32_t property, uint64_t *number);

/*
 The header of this name; it points into the message. HARRIER_NONE if there is none.
 */
harrier_status harrier_header(const harrier_delivery *delivery, harrier_text name, harrier_field *header);

/*
 The header at a place, counted from 0: for a walk until HARRIER_NONE.
 */
harrier_status harrier_header_at(const harrier_delivery *delivery, size_t place, harrier_field *header);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HARRIER_H */
