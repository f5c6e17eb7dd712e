/* Sends a message to a queue and takes it out again: `first [URL]`.
 *
 * cc first.c -o first $(pkg-config --cflags --libs harrier)
 */
#include <harrier.h>
#include <stdio.h>
#include <stdlib.h>

static void check(harrier_status status, const char *what)
{
    if (status > HARRIER_PENDING) {
        fprintf(stderr, "%s: %s\n", what, harrier_error_text());
        exit(1);
    }
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "amqp://guest:guest@localhost/%2F";
    harrier_connection connection;
    harrier_channel channel;
    harrier_delivery delivery;

    check(harrier_connect(url, NULL, &connection), "connect");
    check(harrier_open_channel(connection, &channel), "open a channel");
    check(harrier_declare_queue(channel, "hello", HARRIER_DURABLE, NULL, NULL), "declare the queue");

    /* Once the wait is over, the broker is responsible for the message. */
    harrier_properties properties = {.delivery_mode = 2, .content_type = "text/plain"};
    check(harrier_confirm_select(channel), "ask for confirms");
    check(harrier_publish(channel, "", "hello", harrier_text_bytes("Hello World!"), &properties, true, NULL), "publish");
    check(harrier_wait_confirms(channel, 0), "wait for the confirm");

    check(harrier_consume(channel, "hello", NULL, 0, NULL, NULL), "consume");
    harrier_status status = harrier_next(connection, 5000, &delivery);
    check(status, "wait for the message");
    if (status == HARRIER_OK) {
        printf("%.*s\n", (int)delivery.body.len, (const char *)delivery.body.data);
        check(harrier_ack(channel, delivery.delivery_tag, false), "acknowledge");
    }

    check(harrier_close(connection), "close");
    return status == HARRIER_OK ? 0 : 1;
}
