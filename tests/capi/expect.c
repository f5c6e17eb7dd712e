/* What the C library does, seen from C: every call against a broker, and what goes wrong.
 *
 * Usage:  expect PART     words faults stopped killed; with AMQP_URL, WAY (its transport), AMQP_FOREIGN_TLS_URL (faults),
 *                         BROKER_PID (stopped, killed: that broker is stopped for a while, or killed).
 * Leaves: `ok NAME` or `not ok NAME` a line; status 1 after a failure. Also compiled as C++.
 */
#include <harrier.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    CANCEL_TRIES_MAX = 100,
    CANCEL_LOOK_MS = 100,
    FULL_BODY_BYTES = 1 << 20,
    /* 64 MiB are kept by the library, and the rest is what the kernel takes. */
    FULL_PUBLISHES_MIN = 60,
    FULL_PUBLISHES_MAX = 200,
    HEARTBEAT_WAIT_MS = 20000,
};

static int failed;
static pid_t broker_pid;
static harrier_connection connection;
static harrier_channel channel;
static const char *url, *way;

static void report(const char *name, bool is_ok)
{
    printf("%sok capi-%s-%s\n", is_ok ? "" : "not ", name, way);
    fflush(stdout);
    if (!is_ok) {
        fprintf(stderr, "%s: the last failure was: %s\n", name, harrier_error_text());
        failed = 1;
    }
}

static bool is(harrier_bytes found, const char *text)
{
    return found.len == strlen(text) && memcmp(found.data, text, found.len) == 0;
}

static harrier_bytes bytes(const char *text) { return harrier_text_bytes(text); }

static bool ok(harrier_status status)
{
    if (status != HARRIER_OK)
        fprintf(stderr, "status %d: %s\n", (int)status, harrier_error_text());
    return status == HARRIER_OK;
}

static bool fails(harrier_status status, harrier_status wanted, const char *text)
{
    if (status == wanted && strstr(harrier_error_text(), text))
        return true;
    fprintf(stderr, "status %d, wanted %d with '%s'\n", (int)status, (int)wanted, text);
    return false;
}

static void opened(void)
{
    if (!ok(harrier_connect(url, NULL, &connection)) || !ok(harrier_open_channel(connection, &channel)))
        exit(1);
}

static bool properties_arrive(void)
{
    harrier_queue queue;
    harrier_delivery got;
    harrier_field header;
    harrier_bytes text;
    uint64_t number = 0;
    harrier_field fields[] = {harrier_string_field("s", "text"), harrier_integer_field("i", -5000000000),
                              harrier_bool_field("b", true), harrier_binary_field("x", bytes("\1\2"))};
    harrier_properties properties;
    memset(&properties, 0, sizeof properties);
    properties.content_type = "text/plain";
    properties.headers.at = fields;
    properties.headers.len = 4;
    properties.delivery_mode = 2;
    properties.priority = 3;
    properties.timestamp = 1700000000;
    properties.reply_to = "answers";
    if (!ok(harrier_declare_queue(channel, "", HARRIER_EXCLUSIVE, NULL, &queue)))
        return false;
    if (!ok(harrier_publish(channel, "", queue.name.text, bytes("body"), &properties, false, NULL)))
        return false;
    if (!ok(harrier_get(channel, queue.name.text, false, &got)) || !is(got.body, "body") || got.messages_left != 0)
        return false;
    bool all = is(got.routing_key, queue.name.text) && got.exchange.len == 0 && !got.redelivered;
    all = all && ok(harrier_property_text(&got, HARRIER_CONTENT_TYPE, &text)) && is(text, "text/plain");
    all = all && ok(harrier_property_text(&got, HARRIER_REPLY_TO, &text)) && is(text, "answers");
    all = all && harrier_property_text(&got, HARRIER_APP_ID, &text) == HARRIER_NONE;
    all = all && ok(harrier_property_number(&got, HARRIER_DELIVERY_MODE, &number)) && number == 2;
    all = all && ok(harrier_property_number(&got, HARRIER_PRIORITY, &number)) && number == 3;
    all = all && ok(harrier_property_number(&got, HARRIER_MESSAGE_TIMESTAMP, &number)) && number == 1700000000;
    all = all && ok(harrier_header(&got, "s", &header)) && header.kind == HARRIER_STRING && is(header.bytes, "text");
    all = all && ok(harrier_header(&got, "i", &header)) && header.kind == HARRIER_INTEGER;
    all = all && header.integer == -5000000000;
    all = all && ok(harrier_header(&got, "b", &header)) && header.kind == HARRIER_BOOL && header.integer == 1;
    all = all && ok(harrier_header_at(&got, 3, &header)) && header.kind == HARRIER_BINARY && is(header.bytes, "\1\2");
    all = all && is(header.name, "x") && harrier_header_at(&got, 4, &header) == HARRIER_NONE;
    all = all && harrier_header(&got, "none", &header) == HARRIER_NONE;
    /* A borrowed name may be given to the next call. */
    all = all && ok(harrier_nack(got.channel, got.delivery_tag, false, true));
    all = all && ok(harrier_get(channel, queue.name.text, true, &got)) && got.redelivered;
    return all && harrier_get(channel, queue.name.text, true, &got) == HARRIER_NONE;
}

/* A table in a list in a table, made and taken apart; what came is sent on as it is. */
static bool tables_arrive(void)
{
    harrier_queue queue;
    harrier_delivery got;
    uint8_t memory[3][256];
    harrier_bytes encoded;
    harrier_field list, table, item;
    harrier_field inner[] = {harrier_string_field("reason", "expired"), harrier_integer_field("count", 3)};
    harrier_fields fields = {inner, 2};
    bool all = harrier_encode_table(&fields, memory[0], 5, &encoded) == HARRIER_FULL && encoded.len > 5;
    all = all && ok(harrier_encode_table(&fields, memory[0], encoded.len, &encoded)) && encoded.data == memory[0];
    harrier_field elements[] = {harrier_table_field("", encoded), harrier_bool_field("left out", true)};
    harrier_fields values = {elements, 2};
    all = all && ok(harrier_encode_list(&values, memory[1], sizeof memory[1], &encoded));
    harrier_field headers[] = {harrier_list_field("deaths", encoded)};
    harrier_fields outer = {headers, 1};
    all = all && ok(harrier_encode_table(&outer, memory[2], sizeof memory[2], &encoded));
    harrier_field sent[] = {headers[0], harrier_table_field("nested", encoded), harrier_table_field("empty", bytes(""))};
    harrier_properties properties;
    memset(&properties, 0, sizeof properties);
    properties.headers.at = sent;
    properties.headers.len = 3;
    all = all && ok(harrier_declare_queue(channel, "", HARRIER_EXCLUSIVE, NULL, &queue));
    all = all && ok(harrier_publish(channel, "", queue.name.text, bytes("tables"), &properties, false, NULL));
    for (int times = 0; all && times < 2; times++) {
        all = all && ok(harrier_get(channel, queue.name.text, true, &got));
        all = all && ok(harrier_header(&got, "nested", &table)) && table.kind == HARRIER_TABLE;
        all = all && ok(harrier_item(&table, "deaths", &list)) && list.kind == HARRIER_LIST;
        all = all && ok(harrier_item_at(&list, 0, &table)) && table.kind == HARRIER_TABLE && table.name.len == 0;
        all = all && ok(harrier_item(&table, "reason", &item)) && is(item.bytes, "expired");
        all = all && ok(harrier_item_at(&table, 1, &item)) && item.integer == 3 && is(item.name, "count");
        all = all && harrier_item(&table, "none", &item) == HARRIER_NONE;
        all = all && ok(harrier_item_at(&list, 1, &item)) && item.kind == HARRIER_BOOL && item.integer == 1;
        all = all && harrier_item_at(&list, 2, &item) == HARRIER_NONE;
        all = all && ok(harrier_header(&got, "empty", &table)) && harrier_item_at(&table, 0, &item) == HARRIER_NONE;
        /* Headers that came may be sent again, and so may what is in them. */
        for (size_t at = 0; at < 3; at++)
            all = all && ok(harrier_header_at(&got, at, &sent[at]));
        all = all && ok(harrier_publish(channel, "", queue.name.text, bytes("again"), &properties, false, NULL));
    }
    harrier_field broken[] = {harrier_table_field("t", bytes("\377"))};
    properties.headers.at = broken;
    properties.headers.len = 1;
    all = all && fails(harrier_publish(channel, "", queue.name.text, bytes("x"), &properties, false, NULL),
                       HARRIER_INVALID_ARGUMENT, "a table or list that is none");
    item = harrier_integer_field("i", 1);
    all = all && fails(harrier_item_at(&item, 0, &table), HARRIER_INVALID_ARGUMENT, "has no items");
    return all;
}

static bool topology(void)
{
    harrier_queue queue;
    uint32_t count = 9;
    harrier_delivery got;
    harrier_field limit = harrier_integer_field("x-max-length", 2);
    harrier_fields arguments = {&limit, 1};
    bool all = ok(harrier_declare_exchange(channel, "capi-up", "topic", HARRIER_AUTO_DELETE, NULL));
    all = all && ok(harrier_declare_exchange(channel, "capi-down", "fanout", 0, NULL));
    all = all && ok(harrier_declare_queue(channel, "capi-queue", HARRIER_EXCLUSIVE, &arguments, &queue));
    all = all && strcmp(queue.name.text, "capi-queue") == 0 && queue.messages == 0 && queue.consumers == 0;
    all = all && ok(harrier_bind_exchange(channel, "capi-down", "capi-up", "a.*", NULL));
    all = all && ok(harrier_bind_queue(channel, "capi-queue", "capi-down", "", NULL));
    for (int i = 0; i < 3; i++)
        all = all && ok(harrier_publish(channel, "capi-up", "a.b", bytes("x"), NULL, false, NULL));
    all = all && ok(harrier_declare_queue(channel, "capi-queue", HARRIER_PASSIVE, NULL, &queue)) && queue.messages == 2;
    all = all && ok(harrier_purge_queue(channel, "capi-queue", &count)) && count == 2;
    all = all && ok(harrier_unbind_exchange(channel, "capi-down", "capi-up", "a.*", NULL));
    all = all && ok(harrier_unbind_queue(channel, "capi-queue", "capi-down", "", NULL));
    all = all && ok(harrier_publish(channel, "capi-down", "", bytes("x"), NULL, true, NULL));
    all = all && ok(harrier_delete_queue(channel, "capi-queue", HARRIER_IF_EMPTY, &count)) && count == 0;
    all = all && ok(harrier_returned(connection, &got)) && got.reply_code == 312 && is(got.reply_text, "NO_ROUTE");
    all = all && is(got.exchange, "capi-down") && is(got.body, "x");
    all = all && harrier_returned(connection, &got) == HARRIER_NONE;
    return all && ok(harrier_delete_exchange(channel, "capi-down", 0));
}

static bool many_with_confirms(void)
{
    enum { COUNT = 5000 };
    static harrier_bytes bodies[COUNT];
    static char texts[COUNT][12];
    harrier_queue queue;
    harrier_channel own;
    harrier_delivery delivery;
    uint64_t tag = 0;
    size_t refused = 7;
    for (int i = 0; i < COUNT; i++) {
        snprintf(texts[i], sizeof texts[i], "%d", i);
        bodies[i] = bytes(texts[i]);
    }
    bool all = ok(harrier_open_channel(connection, &own)) && ok(harrier_confirm_select(own));
    all = all && ok(harrier_declare_queue(own, "", HARRIER_EXCLUSIVE, NULL, &queue));
    all = all && ok(harrier_publish_many(own, "", queue.name.text, bodies, COUNT, NULL, false, &tag)) && tag == COUNT;
    all = all && ok(harrier_wait_confirms(own, 0)) && harrier_confirmed_up_to(own) == COUNT;
    all = all && ok(harrier_take_refused(own, NULL, 0, &refused)) && refused == 0;
    all = all && ok(harrier_qos(own, 100, false)) && ok(harrier_consume(own, queue.name.text, "me", 0, NULL, NULL));
    for (int i = 0; all && i < COUNT; i++) {
        all = ok(harrier_next(connection, 10000, &delivery)) && is(delivery.body, texts[i]);
        all = all && is(delivery.consumer_tag, "me") && delivery.channel.id == own.id;
        if (i % 50 == 49)
            all = all && ok(harrier_ack(own, delivery.delivery_tag, true));
    }
    all = all && ok(harrier_cancel(own, "me")) && harrier_next(connection, 0, &delivery) == HARRIER_NONE;
    return all && ok(harrier_close_channel(own)) && harrier_qos(own, 1, false) == HARRIER_CHANNEL_NOT_OPEN;
}

static bool bodies_are_lent_and_kept(void)
{
    enum { LONG = 1 << 20 };
    static uint8_t memory[LONG];
    harrier_queue queue;
    harrier_delivery delivery, again;
    for (size_t i = 0; i < LONG; i++)
        memory[i] = (uint8_t)(i * 7 + i / 251);
    harrier_bytes body = {memory, LONG};
    bool all = ok(harrier_declare_queue(channel, "", HARRIER_EXCLUSIVE, NULL, &queue));
    all = all && ok(harrier_consume(channel, queue.name.text, NULL, HARRIER_NO_ACK, NULL, NULL));
    all = all && ok(harrier_publish(channel, "", queue.name.text, body, NULL, false, NULL));
    all = all && ok(harrier_next(connection, 10000, &delivery)) && delivery.body.len == LONG;
    all = all && memcmp(delivery.body.data, memory, LONG) == 0;
    if (!all)
        return false;
    harrier_message *kept = harrier_keep(&delivery);
    /* Kept in place, and sent on from there. */
    all = kept && harrier_message_delivery(kept)->body.data == delivery.body.data;
    all = all && ok(harrier_publish(channel, "", queue.name.text, delivery.body, NULL, false, NULL));
    all = all && ok(harrier_next(connection, 10000, &again)) && again.body.len == LONG;
    all = all && memcmp(again.body.data, memory, LONG) == 0;
    all = all && ok(harrier_publish(channel, "", queue.name.text, bytes("short"), NULL, false, NULL));
    all = all && ok(harrier_next(connection, 10000, &again)) && is(again.body, "short");
    harrier_message *copied = harrier_keep(&again);
    all = all && copied && harrier_next(connection, 0, &again) == HARRIER_NONE;
    all = all && memcmp(harrier_message_delivery(kept)->body.data, memory, LONG) == 0;
    all = all && is(harrier_message_delivery(copied)->body, "short");
    all = all && is(harrier_message_delivery(copied)->routing_key, queue.name.text);
    harrier_message_free(copied);
    harrier_message_free(kept);
    harrier_message_free(NULL);
    return all;
}

static bool wait_readable(int fd)
{
    struct pollfd watched = {fd, POLLIN, 0};
    int timeout_ms = harrier_timeout_ms(connection);
    return poll(&watched, 1, timeout_ms) >= 0;
}

static harrier_status answered(int fd, harrier_answer *answer)
{
    harrier_status status;
    while ((status = harrier_take_answer(connection, answer)) == HARRIER_NONE) {
        status = harrier_process(connection);
        if (status > HARRIER_PENDING || !wait_readable(fd))
            return status;
    }
    return status;
}

static bool polled(void)
{
    enum { COUNT = 20000 };
    harrier_answer answer;
    harrier_delivery delivery;
    harrier_channel own;
    harrier_name queue;
    harrier_status status;
    int fd = harrier_fd(connection), published = 0, seen = 0;
    bool all = fd >= 0 && ok(harrier_set_polled(connection, true));
    all = all && harrier_open_channel(connection, &own) == HARRIER_PENDING;
    all = all && harrier_open_channel(connection, &own) == HARRIER_IN_USE;
    all = all && ok(answered(fd, &answer));
    own = answer.channel;
    all = all && harrier_declare_queue(own, "", HARRIER_EXCLUSIVE, NULL, NULL) == HARRIER_PENDING;
    all = all && ok(answered(fd, &answer)) && answer.name.text[0];
    queue = answer.name;
    all = all && harrier_get(own, queue.text, true, &delivery) == HARRIER_PENDING;
    all = all && ok(answered(fd, &answer)) && !answer.has_message;
    all = all && harrier_confirm_select(own) == HARRIER_PENDING && ok(answered(fd, &answer));
    all = all && harrier_consume(own, queue.text, "p", HARRIER_NO_ACK, NULL, NULL) == HARRIER_PENDING;
    all = all && ok(answered(fd, &answer)) && strcmp(answer.name.text, "p") == 0;
    while (all && (seen < COUNT || harrier_confirmed_up_to(own) < COUNT)) {
        for (int i = 0; i < 500 && published < COUNT; i++, published++)
            all = all && ok(harrier_publish(own, "", queue.text, bytes("polled"), NULL, false, NULL));
        while ((status = harrier_next(connection, 0, &delivery)) == HARRIER_OK)
            seen += is(delivery.body, "polled");
        all = all && status == HARRIER_NONE && (published < COUNT || wait_readable(fd));
    }
    all = all && harrier_wait_confirms(own, 0) == HARRIER_OK;
    all = all && harrier_timeout_ms(connection) > 0;
    return ok(harrier_set_polled(connection, false)) && all && seen == COUNT;
}

static void *elsewhere(void *out)
{
    *(harrier_status *)out = harrier_flush(connection);
    return NULL;
}

static bool others_are_kept_out(void)
{
    harrier_status status;
    pthread_t thread;
    if (pthread_create(&thread, NULL, elsewhere, &status) || pthread_join(thread, NULL))
        return false;
    if (status != HARRIER_WRONG_THREAD)
        return false;
    pid_t child = fork();
    if (child == 0)
        _exit(harrier_flush(connection) == HARRIER_FORKED && harrier_close(connection) == HARRIER_FORKED ? 0 : 1);
    int ended;
    return child > 0 && waitpid(child, &ended, 0) == child && ended == 0 && ok(harrier_qos(channel, 0, false));
}

static bool arguments(void)
{
    harrier_delivery delivery;
    harrier_channel none, other = channel;
    harrier_bytes nowhere = {NULL, 5};
    static char longer[400];
    memset(&none, 0, sizeof none);
    memset(longer, 'x', sizeof longer - 1);
    other.id += 1;
    bool all = fails(harrier_connect(NULL, NULL, &connection), HARRIER_INVALID_ARGUMENT, "url is NULL");
    all = all && fails(harrier_connect(url, NULL, NULL), HARRIER_INVALID_ARGUMENT, "connection is NULL");
    all = all && fails(harrier_next(connection, 0, NULL), HARRIER_INVALID_ARGUMENT, "delivery is NULL");
    all = all && fails(harrier_declare_queue(channel, NULL, 0, NULL, NULL), HARRIER_INVALID_ARGUMENT, "queue is NULL");
    all = all && fails(harrier_declare_queue(channel, "q", 4096, NULL, NULL), HARRIER_INVALID_ARGUMENT, "0x1000");
    all = all && fails(harrier_declare_queue(channel, longer, 0, NULL, NULL), HARRIER_INVALID_ARGUMENT, "399 bytes");
    all = all && fails(harrier_declare_queue(channel, "\xff", 0, NULL, NULL), HARRIER_INVALID_ARGUMENT, "no UTF-8");
    all = all && fails(harrier_publish(channel, "", "q", nowhere, NULL, false, NULL), HARRIER_INVALID_ARGUMENT, "at NULL");
    all = all && fails(harrier_get(none, "q", true, &delivery), HARRIER_NO_CONNECTION, "has ended");
    all = all && fails(harrier_ack(other, 1, false), HARRIER_CHANNEL_NOT_OPEN, "not open");
    all = all && !harrier_keep(NULL) && !harrier_message_delivery(NULL);
    all = all && strcmp(harrier_transport(connection), way) == 0 && !harrier_transport(none.connection);
    return all && harrier_version()[0] && !harrier_is_blocked(connection);
}

static bool server_refuses(void)
{
    harrier_channel own;
    harrier_delivery delivery;
    bool all = ok(harrier_open_channel(connection, &own));
    all = all && fails(harrier_declare_queue(own, "nowhere", HARRIER_PASSIVE, NULL, NULL), HARRIER_CHANNEL_CLOSED, "404");
    all = all && harrier_reply_code() == 404 && strstr(harrier_reply_text(), "NOT_FOUND");
    all = all && harrier_qos(own, 1, false) == HARRIER_CHANNEL_CLOSED && ok(harrier_qos(channel, 1, false));
    all = all && ok(harrier_open_channel(connection, &own));
    all = all && ok(harrier_publish(own, "no-such-exchange", "", bytes("x"), NULL, false, NULL));
    all = all && fails(harrier_next(connection, 10000, &delivery), HARRIER_CHANNEL_CLOSED, "no-such-exchange");
    return all && harrier_next(connection, 0, &delivery) == HARRIER_NONE;
}

static bool addresses_fail(void)
{
    harrier_connection none;
    char other[1024];
    const char *place = strchr(url, '@');
    bool all = fails(harrier_connect("http://host", NULL, &none), HARRIER_INVALID_URL, "amqp://");
    snprintf(other, sizeof other, "amqp://guest:wrong%s", place);
    all = all && fails(harrier_connect(other, NULL, &none), HARRIER_CONNECTION_CLOSED, "403");
    all = all && harrier_reply_code() == 403;
    all = all && fails(harrier_connect("amqp://guest:guest@127.0.0.1:1/%2F", NULL, &none), HARRIER_LOST, "");
    all = all && harrier_reply_code() == 0;
    return all && harrier_connect(getenv("AMQP_FOREIGN_TLS_URL"), NULL, &none) == HARRIER_LOST;
}

static volatile sig_atomic_t alarmed;
static void on_alarm(int number) { alarmed = number; }
static bool is_alarmed(void) { return alarmed != 0; }

static bool signals_end_waits(void)
{
    harrier_options options;
    harrier_connection own;
    harrier_delivery delivery;
    memset(&options, 0, sizeof options);
    options.name = "alarmed";
    options.heartbeat_s = 7;
    options.is_interrupted = is_alarmed;
    signal(SIGALRM, on_alarm);
    if (!ok(harrier_connect(url, &options, &own)))
        return false;
    alarm(1);
    bool all = fails(harrier_next(own, -1, &delivery), HARRIER_INTERRUPTED, "interrupted");
    alarmed = 0;
    return all && ok(harrier_close_with(own, 320, "enough")) && harrier_flush(own) == HARRIER_NO_CONNECTION;
}

static bool publishes_are_refused(void)
{
    harrier_channel own;
    harrier_queue queue;
    harrier_field fields[] = {harrier_integer_field("x-max-length", 1), harrier_string_field("x-overflow", "reject-publish")};
    harrier_fields arguments = {fields, 2};
    uint64_t tags[4] = {0, 0, 0, 0};
    size_t count = 9;
    bool all = ok(harrier_open_channel(connection, &own)) && ok(harrier_confirm_select(own));
    all = all && ok(harrier_declare_queue(own, "", HARRIER_EXCLUSIVE, &arguments, &queue));
    for (int i = 0; i < 3; i++)
        all = all && ok(harrier_publish(own, "", queue.name.text, bytes("x"), NULL, false, NULL));
    all = all && fails(harrier_wait_confirms(own, 0), HARRIER_REFUSED, "");
    all = all && harrier_confirmed_up_to(own) == 3;
    all = all && ok(harrier_take_refused(own, tags, 4, &count)) && count == 2 && tags[0] == 2 && tags[1] == 3;
    /* They are told once, and later publishes are confirmed. */
    all = all && ok(harrier_wait_confirms(own, 0)) && ok(harrier_take_refused(own, tags, 4, &count)) && count == 0;
    all = all && ok(harrier_purge_queue(own, queue.name.text, NULL));
    all = all && ok(harrier_publish(own, "", queue.name.text, bytes("x"), NULL, false, NULL));
    return all && ok(harrier_wait_confirms(own, 0)) && ok(harrier_close_channel(own));
}

/* The queue goes by another connection, of which the consumer's own hears by basic.cancel alone. */
static bool consumers_are_cancelled(void)
{
    harrier_connection other;
    harrier_channel deleting, of;
    harrier_delivery delivery;
    harrier_name tag;
    bool all = ok(harrier_declare_queue(channel, "capi-cancelled", 0, NULL, NULL));
    all = all && ok(harrier_consume(channel, "capi-cancelled", "ended", 0, NULL, NULL));
    all = all && harrier_cancelled(connection, &of, &tag) == HARRIER_NONE;
    all = all && ok(harrier_connect(url, NULL, &other)) && ok(harrier_open_channel(other, &deleting));
    all = all && ok(harrier_delete_queue(deleting, "capi-cancelled", 0, NULL)) && ok(harrier_close(other));
    harrier_status status = HARRIER_NONE;
    for (int tries = 0; all && status == HARRIER_NONE && tries < CANCEL_TRIES_MAX; tries++) {
        all = harrier_next(connection, CANCEL_LOOK_MS, &delivery) == HARRIER_NONE;
        status = harrier_cancelled(connection, &of, &tag);
    }
    all = all && ok(status) && of.id == channel.id && strcmp(tag.text, "ended") == 0;
    return all && harrier_cancelled(connection, &of, &tag) == HARRIER_NONE && ok(harrier_qos(channel, 0, false));
}

/* Of a broker that stands still: it takes nothing more, and sends no heartbeats. */
static bool nothing_more_is_taken(void)
{
    static uint8_t memory[FULL_BODY_BYTES];
    harrier_bytes body = {memory, sizeof memory};
    harrier_connection own;
    harrier_channel publishing;
    harrier_status status = HARRIER_OK;
    int published = 0;
    if (!ok(harrier_connect(url, NULL, &own)) || !ok(harrier_open_channel(own, &publishing)) || !ok(harrier_set_polled(own, true)))
        return false;
    kill(broker_pid, SIGSTOP);
    for (; status == HARRIER_OK && published < FULL_PUBLISHES_MAX; published++)
        status = harrier_publish(publishing, "", "nowhere", body, NULL, false, NULL);
    bool all = fails(status, HARRIER_FULL, "") && published > FULL_PUBLISHES_MIN;
    kill(broker_pid, SIGCONT);
    /* It goes on once there is room. */
    return all && ok(harrier_set_polled(own, false)) && ok(harrier_flush(own)) && ok(harrier_close(own));
}

static bool heartbeats_are_missed(void)
{
    harrier_options options;
    harrier_connection own;
    harrier_delivery delivery;
    memset(&options, 0, sizeof options);
    options.heartbeat_s = 1;
    if (!ok(harrier_connect(url, &options, &own)))
        return false;
    /* For longer than an interval it is alive without a message. */
    bool all = harrier_next(own, 2500, &delivery) == HARRIER_NONE;
    kill(broker_pid, SIGSTOP);
    all = all && fails(harrier_next(own, HEARTBEAT_WAIT_MS, &delivery), HARRIER_TIMED_OUT, "");
    kill(broker_pid, SIGCONT);
    return all && harrier_flush(own) == HARRIER_NO_CONNECTION;
}

static int usage(void)
{
    fputs("usage: expect words|faults|stopped|killed, with AMQP_URL, WAY and BROKER_PID in its environment\n", stderr);
    return 2;
}

int main(int argc, char **argv)
{
    const char *part = argc > 1 ? argv[1] : "";
    url = getenv("AMQP_URL");
    way = getenv("WAY");
    const char *broker = getenv("BROKER_PID");
    if (!url || !way || !broker)
        return usage();
    broker_pid = (pid_t)atoi(broker);
    /* 0 and less would be a group of processes. */
    if (broker_pid <= 1)
        return usage();
    opened();
    if (strcmp(part, "words") == 0) {
        report("properties-arrive", properties_arrive());
        report("tables-arrive", tables_arrive());
        report("topology", topology());
        report("many-with-confirms", many_with_confirms());
        report("bodies-are-lent-and-kept", bodies_are_lent_and_kept());
        report("polled", polled());
    } else if (strcmp(part, "faults") == 0) {
        report("others-are-kept-out", others_are_kept_out());
        report("arguments-are-checked", arguments());
        report("server-refuses", server_refuses());
        report("addresses-fail", addresses_fail());
        report("signals-end-waits", signals_end_waits());
        report("publishes-are-refused", publishes_are_refused());
        report("consumers-are-cancelled", consumers_are_cancelled());
    } else if (strcmp(part, "stopped") == 0) {
        report("nothing-more-is-taken", nothing_more_is_taken());
        report("heartbeats-are-missed", heartbeats_are_missed());
    } else if (strcmp(part, "killed") == 0) {
        harrier_delivery delivery;
        kill(broker_pid, SIGKILL);
        bool is_lost = harrier_next(connection, 10000, &delivery) == HARRIER_LOST;
        is_lost = is_lost && harrier_publish(channel, "", "q", bytes("x"), NULL, false, NULL) == HARRIER_NO_CONNECTION;
        report("broker-killed", is_lost);
    } else {
        return usage();
    }
    report("closes", ok(harrier_close(connection)) && harrier_close(connection) == HARRIER_NO_CONNECTION);
    return failed;
}
