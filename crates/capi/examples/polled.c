/* A connection in a program's own loop of poll(2): what is typed is published, what comes is printed: `polled [URL]`.
 *
 * cc polled.c -o polled $(pkg-config --cflags --libs harrier)
 */
#include <harrier.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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
    harrier_queue queue;
    harrier_delivery delivery;
    harrier_status status;
    size_t published = 0, printed = 0;

    check(harrier_connect(url, NULL, &connection), "connect");
    check(harrier_open_channel(connection, &channel), "open a channel");
    check(harrier_declare_queue(channel, "", HARRIER_EXCLUSIVE, NULL, &queue), "declare a queue");
    check(harrier_consume(channel, queue.name.text, NULL, HARRIER_NO_ACK, NULL, NULL), "consume");
    /* From here on no call waits. */
    check(harrier_set_polled(connection, true), "poll");

    struct pollfd watched[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = harrier_fd(connection), .events = POLLIN}};
    while (watched[0].fd >= 0 || printed < published) {
        if (poll(watched, 2, harrier_timeout_ms(connection)) < 0) {
            perror("poll");
            return 1;
        }
        if (watched[0].revents) {
            uint8_t typed[4096];
            ssize_t n = read(STDIN_FILENO, typed, sizeof typed);
            if (n <= 0) {
                watched[0].fd = -1;
            } else {
                harrier_bytes body = {typed, (size_t)n};
                check(harrier_publish(channel, "", queue.name.text, body, NULL, false, NULL), "publish");
                published += (size_t)n;
            }
        }
        /* Sends what is written, and takes what has come. */
        while ((status = harrier_next(connection, 0, &delivery)) == HARRIER_OK) {
            fwrite(delivery.body.data, 1, delivery.body.len, stdout);
            printed += delivery.body.len;
        }
        check(status, "take deliveries");
    }
    check(harrier_set_polled(connection, false), "wait again");
    check(harrier_close(connection), "close");
    return 0;
}
