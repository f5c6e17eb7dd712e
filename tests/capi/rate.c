/* What a message costs a C program: `rate COUNT` with AMQP_URL, compiled with -DRABBITMQ_C against librabbitmq, else against
 * libharrier. Publishes COUNT messages of 64 bytes with a confirm awaited whenever 1,000 are outstanding, then consumes them,
 * with an acknowledgement for a hundred.
 * Leaves: a line, messages a second and microseconds of this process's processor time a message: of publishing, of consuming.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WINDOW = 1000, ACK_EVERY = 100, PREFETCH = 1000, BODY_BYTES = 64 };

static void must(int is_ok, const char *what)
{
    if (!is_ok) {
        fprintf(stderr, "%s failed\n", what);
        exit(1);
    }
}

static double seconds(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double wall, cpu;

static void begin(void)
{
    wall = seconds(CLOCK_MONOTONIC);
    cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
}

static void end(long count)
{
    double took = seconds(CLOCK_MONOTONIC) - wall, used = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    printf("%.0f %.3f ", (double)count / took, used / (double)count * 1e6);
}

#ifndef RABBITMQ_C

#include <harrier.h>

static void run(const char *url, long count)
{
    static uint8_t body[BODY_BYTES];
    harrier_connection connection;
    harrier_channel channel;
    harrier_queue queue;
    harrier_delivery delivery;
    must(!harrier_connect(url, NULL, &connection), harrier_error_text());
    must(!harrier_open_channel(connection, &channel), "open");
    must(!harrier_declare_queue(channel, "", HARRIER_EXCLUSIVE, NULL, &queue), "declare");
    must(!harrier_confirm_select(channel), "confirm");
    harrier_bytes content = {body, BODY_BYTES};
    begin();
    for (long i = 1; i <= count; i++) {
        must(!harrier_publish(channel, "", queue.name.text, content, NULL, false, NULL), "publish");
        if (i % WINDOW == 0 || i == count)
            must(!harrier_wait_confirms(channel, 0), "confirms");
    }
    end(count);
    must(!harrier_qos(channel, PREFETCH, false), "qos");
    must(!harrier_consume(channel, queue.name.text, NULL, 0, NULL, NULL), "consume");
    begin();
    for (long i = 1; i <= count; i++) {
        must(!harrier_next(connection, 10000, &delivery) && delivery.body.len == BODY_BYTES, "next");
        if (i % ACK_EVERY == 0 || i == count)
            must(!harrier_ack(channel, delivery.delivery_tag, true), "ack");
    }
    end(count);
    must(!harrier_close(connection), "close");
}

#else

#include <amqp.h>
#include <amqp_framing.h>
#include <amqp_tcp_socket.h>

static amqp_connection_state_t connection;

static void done(const char *what) { must(amqp_get_rpc_reply(connection).reply_type == AMQP_RESPONSE_NORMAL, what); }

/* Reads confirms until all up to a number came. */
static void confirmed(uint64_t tag)
{
    for (uint64_t up_to = 0; up_to < tag;) {
        amqp_frame_t frame;
        must(amqp_simple_wait_frame(connection, &frame) == AMQP_STATUS_OK, "frame");
        must(frame.frame_type == AMQP_FRAME_METHOD && frame.payload.method.id == AMQP_BASIC_ACK_METHOD, "a confirm");
        amqp_basic_ack_t *ack = (amqp_basic_ack_t *)frame.payload.method.decoded;
        /* Both brokers confirm a channel's messages of one queue in order. */
        up_to = ack->delivery_tag;
        amqp_maybe_release_buffers(connection);
    }
}

static void run(const char *url, long count)
{
    static char body[BODY_BYTES];
    struct amqp_connection_info place;
    char *copy = strdup(url);
    must(copy && amqp_parse_url(copy, &place) == AMQP_STATUS_OK, "url");
    connection = amqp_new_connection();
    amqp_socket_t *socket = amqp_tcp_socket_new(connection);
    must(socket && amqp_socket_open(socket, place.host, place.port) == 0, "connect");
    amqp_rpc_reply_t login =
        amqp_login(connection, place.vhost, 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, place.user, place.password);
    must(login.reply_type == AMQP_RESPONSE_NORMAL, "login");
    amqp_channel_open(connection, 1);
    done("open");
    amqp_queue_declare_ok_t *declared = amqp_queue_declare(connection, 1, amqp_empty_bytes, 0, 0, 1, 0, amqp_empty_table);
    done("declare");
    amqp_bytes_t queue = amqp_bytes_malloc_dup(declared->queue), content = {BODY_BYTES, body};
    amqp_confirm_select(connection, 1);
    done("confirm");
    begin();
    for (long i = 1; i <= count; i++) {
        must(amqp_basic_publish(connection, 1, amqp_empty_bytes, queue, 0, 0, NULL, content) == 0, "publish");
        if (i % WINDOW == 0 || i == count)
            confirmed((uint64_t)i);
    }
    end(count);
    amqp_basic_qos(connection, 1, 0, PREFETCH, 0);
    done("qos");
    amqp_basic_consume(connection, 1, queue, amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
    done("consume");
    begin();
    for (long i = 1; i <= count; i++) {
        amqp_envelope_t envelope;
        amqp_maybe_release_buffers(connection);
        amqp_rpc_reply_t got = amqp_consume_message(connection, &envelope, NULL, 0);
        must(got.reply_type == AMQP_RESPONSE_NORMAL && envelope.message.body.len == BODY_BYTES, "next");
        if (i % ACK_EVERY == 0 || i == count)
            must(amqp_basic_ack(connection, 1, envelope.delivery_tag, 1) == 0, "ack");
        amqp_destroy_envelope(&envelope);
    }
    end(count);
    amqp_bytes_free(queue);
    amqp_connection_close(connection, AMQP_REPLY_SUCCESS);
    amqp_destroy_connection(connection);
    free(copy);
}

#endif

int main(int argc, char **argv)
{
    const char *url = getenv("AMQP_URL");
    must(argc > 1 && url, "rate COUNT, with AMQP_URL,");
    run(url, atol(argv[1]));
    printf("\n");
    return 0;
}
