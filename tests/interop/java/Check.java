import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.AlreadyClosedException;
import com.rabbitmq.client.CancelCallback;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.LongString;
import com.rabbitmq.client.MessageProperties;
import com.rabbitmq.client.Return;
import com.rabbitmq.client.ShutdownSignalException;
import com.rabbitmq.client.impl.CredentialsProvider;
import com.rabbitmq.client.impl.CredentialsRefreshService;
import com.rabbitmq.client.impl.LongStringHelper;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Date;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * The Java client's run of the expectations.
 *
 * <p>Enters: AMQP_URL, over TLS also AMQP_CA. Leaves: a line for each expectation on standard output, as ../report.py has them.
 * Owns: its connections; queues and exchanges of its own names, deleted in the end.
 * Never: sleeps: every wait is for a message or an event, with a deadline.
 */
public final class Check {
    private static final long DEADLINE_S = Long.parseLong(System.getenv().getOrDefault("INTEROP_DEADLINE_S", "15"));
    private static int serial;

    private interface Expectation {
        void run(Connection connection, Channel channel) throws Exception;
    }

    private interface Action {
        void run() throws Exception;
    }

    private static final Map<String, Expectation> EXPECTATIONS = new LinkedHashMap<>();

    private static String unique(String word) {
        return "java-" + word + "-" + ProcessHandle.current().pid() + "-" + ++serial;
    }

    private static void equal(Object got, Object want, String what) {
        if (!Objects.equals(got, want)) {
            throw new AssertionError(what + ": got " + got + ", expected " + want);
        }
    }

    private static <T> T next(BlockingQueue<T> from, String what) throws InterruptedException {
        T value = from.poll(DEADLINE_S, TimeUnit.SECONDS);
        if (value == null) {
            throw new AssertionError("not in time: " + what);
        }
        return value;
    }

    private static Connection connect(int heartbeatS) throws Exception {
        ConnectionFactory factory = Secure.factory(System.getenv("AMQP_CA"));
        factory.setAutomaticRecoveryEnabled(false);
        factory.setRequestedHeartbeat(heartbeatS);
        return factory.newConnection();
    }

    /** Code and text of the close that an action brings about. */
    private static void refused(int code, String text, Action action) throws Exception {
        ShutdownSignalException signal;
        try {
            action.run();
            throw new AssertionError("not refused: " + text);
        } catch (IOException failure) {
            signal = (ShutdownSignalException) failure.getCause();
        } catch (AlreadyClosedException closed) {
            signal = closed;
        }
        refused(code, text, signal);
    }

    private static void refused(int code, String text, ShutdownSignalException signal) {
        if (signal.getReason() instanceof AMQP.Channel.Close) {
            AMQP.Channel.Close close = (AMQP.Channel.Close) signal.getReason();
            equal(close.getReplyCode() + " " + close.getReplyText(), code + " " + text, "channel.close");
        } else {
            AMQP.Connection.Close close = (AMQP.Connection.Close) signal.getReason();
            equal(close.getReplyCode() + " " + close.getReplyText(), code + " " + text, "connection.close");
        }
    }

    private static String temporary(Channel channel) throws IOException {
        return channel.queueDeclare("", false, true, false, null).getQueue();
    }

    private static int ready(Channel channel, String queue) throws IOException {
        return channel.queueDeclarePassive(queue).getMessageCount();
    }

    private static String filled(Connection connection, Channel channel, int count) throws Exception {
        String queue = temporary(channel);
        Channel side = connection.createChannel();
        side.confirmSelect();
        for (int i = 0; i < count; i++) {
            side.basicPublish("", queue, null, String.valueOf(i).getBytes());
        }
        side.waitForConfirmsOrDie(DEADLINE_S * 1000);
        side.close();
        return queue;
    }

    private static BlockingQueue<Delivery> consume(Channel channel, String queue, boolean autoAck) throws IOException {
        return consume(channel, queue, autoAck, Map.of());
    }

    private static BlockingQueue<Delivery> consume(Channel channel, String queue, boolean autoAck, Map<String, Object> arguments) throws IOException {
        BlockingQueue<Delivery> got = new LinkedBlockingQueue<>();
        CancelCallback ignored = tag -> { };
        channel.basicConsume(queue, autoAck, arguments, (tag, delivery) -> got.add(delivery), ignored);
        return got;
    }

    private static List<Delivery> take(BlockingQueue<Delivery> from, int count) throws InterruptedException {
        List<Delivery> got = new ArrayList<>();
        while (got.size() < count) {
            got.add(next(from, "delivery " + (got.size() + 1) + " of " + count));
        }
        return got;
    }

    private static String texts(List<Delivery> deliveries) {
        StringBuilder words = new StringBuilder();
        for (Delivery delivery : deliveries) {
            words.append(words.length() == 0 ? "" : " ").append(new String(delivery.getBody())).append(delivery.getEnvelope().isRedeliver() ? "r" : "");
        }
        return words.toString();
    }

    private static long tag(Delivery delivery) {
        return delivery.getEnvelope().getDeliveryTag();
    }

    /** Whether a mandatory publish reached a queue; the channel is in confirm mode. */
    private static boolean routed(Channel channel, String exchange, String key, Map<String, Object> headers) throws Exception {
        boolean[] back = {false};
        var listener = channel.addReturnListener((Return message) -> back[0] = true);
        channel.basicPublish(exchange, key, true, new AMQP.BasicProperties.Builder().headers(headers).build(), new byte[0]);
        channel.waitForConfirmsOrDie(DEADLINE_S * 1000);
        channel.removeReturnListener(listener);
        return !back[0];
    }

    private static String plain(Object value) {
        if (value instanceof byte[]) {
            return Arrays.toString((byte[]) value);
        }
        if (value instanceof Map) {
            Map<String, String> out = new java.util.TreeMap<>();
            ((Map<?, ?>) value).forEach((key, item) -> out.put((String) key, plain(item)));
            return out.toString();
        }
        return value instanceof LongString || value == null || !(value instanceof List) ? String.valueOf(value) : ((List<?>) value).stream().map(Check::plain).toList().toString();
    }

    static {
        EXPECTATIONS.put("connect", (connection, channel) -> {
            Map<?, ?> capabilities = (Map<?, ?>) connection.getServerProperties().get("capabilities");
            for (String name : List.of("publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify", "connection.blocked", "consumer_priorities", "authentication_failure_close", "per_consumer_qos", "direct_reply_to")) {
                equal(capabilities.get(name), true, name);
            }
            connect(0).close();
        });
        EXPECTATIONS.put("exchanges", (connection, channel) -> {
            for (String kind : List.of("direct", "fanout", "topic", "headers")) {
                String name = unique(kind);
                channel.exchangeDeclare(name, kind, true);
                channel.exchangeDeclare(name, kind, true);
                channel.exchangeDeclarePassive(name);
                channel.exchangeDelete(name);
                refused(404, "NOT_FOUND - no exchange '" + name + "' in vhost '/'", () -> connection.createChannel().exchangeDeclarePassive(name));
            }
        });
        EXPECTATIONS.put("queues", (connection, channel) -> {
            equal(temporary(channel).startsWith("amq.gen-"), true, "server-named");
            String name = unique("queue");
            channel.queueDeclare(name, true, false, false, null);
            channel.confirmSelect();
            for (int i = 0; i < 3; i++) {
                channel.basicPublish("", name, MessageProperties.PERSISTENT_BASIC, new byte[0]);
            }
            channel.waitForConfirmsOrDie(DEADLINE_S * 1000);
            equal(ready(channel, name), 3, "ready");
            equal(channel.messageCount(name), 3L, "messageCount");
            equal(channel.consumerCount(name), 0L, "consumerCount");
            equal(channel.queuePurge(name).getMessageCount(), 3, "purged");
            equal(channel.queueDelete(name).getMessageCount(), 0, "deleted");
        });
        EXPECTATIONS.put("exclusive-queue", (connection, channel) -> {
            String queue = temporary(channel);
            try (Connection other = connect(0)) {
                String text = "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '" + queue + "' in vhost '/'. It could be originally declared on another connection or the exclusive property value does not match that of the original declaration.";
                String cut = text.length() > 255 ? text.substring(0, 252) + "..." : text;
                refused(405, cut, () -> other.createChannel().queueDeclarePassive(queue));
            }
        });
        EXPECTATIONS.put("auto-delete", (connection, channel) -> {
            String name = unique("auto");
            channel.queueDeclare(name, false, false, true, null);
            channel.basicCancel(channel.basicConsume(name, true, (tag, delivery) -> { }, tag -> { }));
            refused(404, "NOT_FOUND - no queue '" + name + "' in vhost '/'", () -> channel.queueDeclarePassive(name));
        });
        EXPECTATIONS.put("refusals", (connection, channel) -> {
            String name = unique("refused");
            channel.queueDeclare(name, false, false, true, null);
            refused(406, "PRECONDITION_FAILED - inequivalent arg 'durable' for queue '" + name + "' in vhost '/': received 'true' but current is 'false'", () -> connection.createChannel().queueDeclare(name, true, false, true, null));
            refused(403, "ACCESS_REFUSED - exchange name 'amq." + name + "' contains reserved prefix 'amq.*'", () -> connection.createChannel().exchangeDeclare("amq." + name, "direct"));
            Channel side = connection.createChannel();
            BlockingQueue<ShutdownSignalException> closed = new LinkedBlockingQueue<>();
            side.addShutdownListener(closed::add);
            side.basicPublish(name, "k", null, new byte[0]);
            refused(404, "NOT_FOUND - no exchange '" + name + "' in vhost '/'", next(closed, "channel.close"));
            channel.queueDelete(name);
        });
        EXPECTATIONS.put("connection-refusal", (connection, channel) -> refused(503, "COMMAND_INVALID - unknown exchange type 'nonsense'", () -> channel.exchangeDeclare(unique("x"), "nonsense")));
        EXPECTATIONS.put("bind-unbind", (connection, channel) -> {
            channel.confirmSelect();
            String queue = temporary(channel);
            channel.queueBind(queue, "amq.direct", "java-bind");
            channel.queueBind(queue, "amq.direct", "java-bind");
            equal(routed(channel, "amq.direct", "java-bind", null), true, "bound");
            equal(ready(channel, queue), 1, "one copy");
            channel.queueUnbind(queue, "amq.direct", "java-bind");
            equal(routed(channel, "amq.direct", "java-bind", null), false, "unbound");
        });
        EXPECTATIONS.put("bind-exchange", (connection, channel) -> {
            channel.confirmSelect();
            String queue = temporary(channel);
            String first = unique("first");
            String second = unique("second");
            channel.exchangeDeclare(first, "fanout");
            channel.exchangeDeclare(second, "direct");
            channel.exchangeBind(second, first, "k");
            channel.queueBind(queue, second, "k");
            equal(routed(channel, first, "k", null), true, "over both");
            channel.exchangeUnbind(second, first, "k");
            equal(routed(channel, first, "k", null), false, "unbound");
            channel.exchangeDelete(first);
            channel.exchangeDelete(second);
        });
        EXPECTATIONS.put("topic", (connection, channel) -> {
            channel.confirmSelect();
            String exchange = unique("topic");
            channel.exchangeDeclare(exchange, "topic", false, true, null);
            channel.queueBind(temporary(channel), exchange, "a.*.c.#");
            for (Map.Entry<String, Boolean> entry : Map.of("a.b.c", true, "a.b.c.d.e", true, "a.c", false, "a.b.b.c", false, "", false).entrySet()) {
                equal(routed(channel, exchange, entry.getKey(), null), entry.getValue(), entry.getKey());
            }
        });
        EXPECTATIONS.put("headers", (connection, channel) -> {
            channel.confirmSelect();
            for (String match : List.of("all", "any")) {
                String exchange = unique("headers");
                channel.exchangeDeclare(exchange, "headers", false, true, null);
                channel.queueBind(temporary(channel), exchange, "", Map.of("x-match", match, "a", 1, "b", "two"));
                equal(routed(channel, exchange, "", Map.of("a", 1L, "b", "two", "c", 3)), true, match + " both, of another integer width");
                equal(routed(channel, exchange, "", Map.of("a", 1)), match.equals("any"), match + " one");
                equal(routed(channel, exchange, "", Map.of("c", 1)), false, match + " none");
            }
        });
        EXPECTATIONS.put("alternate-exchange", (connection, channel) -> {
            channel.confirmSelect();
            String queue = temporary(channel);
            String main = unique("main");
            String alternate = unique("alternate");
            channel.exchangeDeclare(alternate, "fanout", false, true, null);
            channel.exchangeDeclare(main, "direct", false, false, Map.of("alternate-exchange", alternate));
            channel.queueBind(queue, alternate, "");
            equal(routed(channel, main, "anything", null), true, "by the alternate");
            channel.exchangeDelete(main);
        });
        EXPECTATIONS.put("publish-consume", (connection, channel) -> {
            String queue = temporary(channel);
            BlockingQueue<Delivery> deliveries = consume(channel, queue, true);
            Map<String, Object> headers = new HashMap<>();
            headers.put("s", LongStringHelper.asLongString("ü"));
            headers.put("i", 5);
            headers.put("l", 1L << 40);
            headers.put("h", (short) -300);
            headers.put("b", (byte) -3);
            headers.put("t", true);
            headers.put("n", null);
            headers.put("f", 1.5f);
            headers.put("d", 2.5);
            headers.put("decimal", new java.math.BigDecimal("3.14"));
            headers.put("bytes", new byte[] {0, -1});
            headers.put("list", List.of(1, LongStringHelper.asLongString("two")));
            headers.put("table", Map.of("x", Map.of("y", 1)));
            headers.put("time", new Date(1700000000000L));
            AMQP.BasicProperties sent = new AMQP.BasicProperties("text/plain", "utf-8", headers, 2, 7, "c", "r", "60000", "m", new Date(1700000000000L), "t", null, "a", "x");
            for (int i = 0; i < 1000; i++) {
                channel.basicPublish("", queue, i == 0 ? sent : null, String.valueOf(i).getBytes());
            }
            List<Delivery> got = take(deliveries, 1000);
            for (int i = 0; i < 1000; i++) {
                equal(new String(got.get(i).getBody()), String.valueOf(i), "order");
            }
            AMQP.BasicProperties back = got.get(0).getProperties();
            equal(plain(back.getHeaders()), plain(headers), "headers");
            equal(back.builder().headers(null).build().toString(), sent.builder().headers(null).build().toString(), "properties");
        });
        EXPECTATIONS.put("confirm", (connection, channel) -> {
            channel.confirmSelect();
            String queue = temporary(channel);
            for (int i = 0; i < 500; i++) {
                channel.basicPublish("", i % 2 == 0 ? queue : "java-nowhere", null, new byte[0]);
            }
            channel.waitForConfirmsOrDie(DEADLINE_S * 1000);
            equal(ready(channel, queue), 250, "ready");
        });
        EXPECTATIONS.put("return", (connection, channel) -> {
            BlockingQueue<Return> returns = new LinkedBlockingQueue<>();
            channel.addReturnListener((Return message) -> returns.add(message));
            channel.basicPublish("amq.direct", "java-nowhere", true, new AMQP.BasicProperties.Builder().type("t").build(), "back".getBytes());
            Return back = next(returns, "return");
            equal(back.getReplyCode() + back.getReplyText() + back.getExchange() + back.getRoutingKey() + back.getProperties().getType() + new String(back.getBody()), "312NO_ROUTEamq.directjava-nowheretback", "return");
        });
        EXPECTATIONS.put("immediate", (connection, channel) -> {
            BlockingQueue<ShutdownSignalException> closed = new LinkedBlockingQueue<>();
            connection.addShutdownListener(closed::add);
            channel.basicPublish("", "java-nowhere", false, true, null, new byte[0]);
            refused(540, "NOT_IMPLEMENTED - immediate=true", next(closed, "connection.close"));
        });
        EXPECTATIONS.put("ack-multiple", (connection, channel) -> {
            String queue = filled(connection, channel, 5);
            channel.basicAck(tag(take(consume(channel, queue, false), 5).get(2)), true);
            channel.close();
            Channel side = connection.createChannel();
            equal(texts(take(consume(side, queue, false), 2)), "3r 4r", "what was not acknowledged");
            side.basicAck(0, true);
            equal(ready(side, queue), 0, "ready");
        });
        EXPECTATIONS.put("nack-requeue", (connection, channel) -> {
            String queue = filled(connection, channel, 5);
            List<GetResponse> got = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                got.add(channel.basicGet(queue, false));
            }
            channel.basicNack(got.get(2).getEnvelope().getDeliveryTag(), false, true);
            channel.basicNack(got.get(0).getEnvelope().getDeliveryTag(), false, true);
            channel.basicNack(0, true, true);
            equal(texts(take(consume(channel, queue, true), 5)), "0r 1r 2r 3r 4", "the old places");
        });
        EXPECTATIONS.put("reject", (connection, channel) -> {
            String queue = filled(connection, channel, 3);
            BlockingQueue<Delivery> deliveries = consume(channel, queue, false);
            List<Delivery> got = take(deliveries, 3);
            channel.basicReject(tag(got.get(0)), true);
            channel.basicReject(tag(got.get(1)), false);
            equal(texts(take(deliveries, 1)), "0r", "requeued");
            equal(ready(channel, queue), 0, "ready");
        });
        EXPECTATIONS.put("recover", (connection, channel) -> {
            String queue = filled(connection, channel, 3);
            BlockingQueue<Delivery> deliveries = consume(channel, queue, false);
            channel.basicAck(tag(take(deliveries, 3).get(1)), false);
            channel.basicRecover(true);
            equal(texts(take(deliveries, 2)), "0r 2r", "recovered");
        });
        EXPECTATIONS.put("close-requeues", (connection, channel) -> {
            String queue = filled(connection, channel, 3);
            Channel side = connection.createChannel();
            take(consume(side, queue, false), 3);
            side.close();
            equal(texts(take(consume(channel, queue, true), 3)), "0r 1r 2r", "requeued");
        });
        EXPECTATIONS.put("qos-consumer", (connection, channel) -> {
            String queue = filled(connection, channel, 9);
            channel.basicQos(2);
            BlockingQueue<Delivery> first = consume(channel, queue, false);
            List<Delivery> got = take(first, 2);
            channel.basicQos(3);
            take(consume(channel, queue, false), 3);
            equal(ready(channel, queue), 4, "ready");
            channel.basicAck(tag(got.get(0)), false);
            take(first, 1);
            equal(ready(channel, queue), 3, "ready");
        });
        EXPECTATIONS.put("qos-global", (connection, channel) -> {
            String queue = filled(connection, channel, 9);
            channel.basicQos(3, true);
            take(consume(channel, queue, false), 3);
            BlockingQueue<Delivery> second = consume(channel, queue, false);
            equal(ready(channel, queue), 6, "ready");
            equal(second.size(), 0, "the second consumer's");
        });
        EXPECTATIONS.put("get", (connection, channel) -> {
            String queue = filled(connection, channel, 2);
            GetResponse got = channel.basicGet(queue, false);
            equal(new String(got.getBody()) + got.getMessageCount() + got.getEnvelope().isRedeliver() + got.getEnvelope().getRoutingKey(), "01false" + queue, "get");
            channel.basicGet(queue, true);
            equal(channel.basicGet(queue, true), null, "empty");
        });
        EXPECTATIONS.put("tx", (connection, channel) -> {
            String queue = filled(connection, channel, 1);
            channel.txSelect();
            channel.basicPublish("", queue, null, "rolled back".getBytes());
            channel.txRollback();
            channel.basicPublish("", queue, null, "committed".getBytes());
            equal(ready(channel, queue), 1, "before the commit");
            channel.txCommit();
            equal(ready(channel, queue), 2, "after the commit");
            List<Delivery> got = take(consume(channel, queue, false), 2);
            channel.basicAck(tag(got.get(0)), false);
            channel.txRollback();
            channel.basicAck(tag(got.get(0)), false);
            channel.txCommit();
            channel.close();
            equal(texts(take(consume(connection.createChannel(), queue, true), 1)), "committedr", "what was not acknowledged");
        });
        EXPECTATIONS.put("cancel-notify", (connection, channel) -> {
            String name = unique("cancel");
            channel.queueDeclare(name, false, false, false, null);
            BlockingQueue<String> cancelled = new LinkedBlockingQueue<>();
            String tag = channel.basicConsume(name, true, (ignored, delivery) -> { }, cancelled::add);
            connection.createChannel().queueDelete(name);
            equal(next(cancelled, "basic.cancel"), tag, "consumer tag");
        });
        EXPECTATIONS.put("consume-exclusive", (connection, channel) -> {
            String queue = temporary(channel);
            channel.basicConsume(queue, true, "", false, true, null, (tag, delivery) -> { }, tag -> { });
            refused(403, "ACCESS_REFUSED - queue '" + queue + "' in vhost '/' in exclusive use", () -> consume(connection.createChannel(), queue, true));
        });
        EXPECTATIONS.put("consumer-priority", (connection, channel) -> {
            String queue = temporary(channel);
            channel.basicQos(2);
            BlockingQueue<Delivery> low = consume(channel, queue, false);
            BlockingQueue<Delivery> high = consume(channel, queue, false, Map.of("x-priority", 10));
            for (int i = 0; i < 4; i++) {
                channel.basicPublish("", queue, null, String.valueOf(i).getBytes());
            }
            equal(texts(take(high, 2)), "0 1", "the higher priority");
            equal(texts(take(low, 2)), "2 3", "the lower priority");
        });
        EXPECTATIONS.put("direct-reply-to", (connection, channel) -> {
            String requests = temporary(channel);
            Channel server = connection.createChannel();
            server.basicConsume(requests, true, (tag, request) -> server.basicPublish("", request.getProperties().getReplyTo(), null, ("answer to " + new String(request.getBody())).getBytes()), tag -> { });
            BlockingQueue<Delivery> replies = consume(channel, "amq.rabbitmq.reply-to", true);
            channel.basicPublish("", requests, new AMQP.BasicProperties.Builder().replyTo("amq.rabbitmq.reply-to").build(), "ask".getBytes());
            equal(texts(take(replies, 1)), "answer to ask", "reply");
        });
        EXPECTATIONS.put("bodies", (connection, channel) -> {
            String queue = temporary(channel);
            BlockingQueue<Delivery> deliveries = consume(channel, queue, true);
            byte[] pattern = new byte[5 << 20];
            new java.util.Random(1).nextBytes(pattern);
            for (int size : new int[] {0, 1, 4095, 128 << 10, 1 << 20, 5 << 20, 0}) {
                byte[] body = Arrays.copyOf(pattern, size);
                channel.basicPublish("", queue, null, body);
                equal(Arrays.equals(next(deliveries, size + " bytes").getBody(), body), true, size + " bytes unchanged");
            }
        });
        EXPECTATIONS.put("heartbeat", (connection, channel) -> {
            try (Connection idle = connect(1)) {
                equal(idle.getHeartbeat(), 1, "negotiated");
                CountDownLatch closed = new CountDownLatch(1);
                idle.addShutdownListener(signal -> closed.countDown());
                // Idle for more than two intervals: only a lost connection may end this wait early.
                equal(closed.await(4, TimeUnit.SECONDS), false, "closed while idle");
                temporary(idle.createChannel());
            }
        });
        EXPECTATIONS.put("update-secret", (connection, channel) -> {
            // The library renews a secret when its refresh service says so: here at once, by hand.
            ConnectionFactory factory = Secure.factory(System.getenv("AMQP_CA"));
            String user = factory.getUsername();
            String password = factory.getPassword();
            BlockingQueue<Callable<Boolean>> renewals = new LinkedBlockingQueue<>();
            factory.setCredentialsProvider(new CredentialsProvider() {
                @Override
                public String getUsername() {
                    return user;
                }

                @Override
                public String getPassword() {
                    return password;
                }

                @Override
                public Duration getTimeBeforeExpiration() {
                    return Duration.ofHours(1);
                }
            });
            factory.setCredentialsRefreshService(new CredentialsRefreshService() {
                @Override
                public String register(CredentialsProvider provider, Callable<Boolean> renew) {
                    renewals.add(renew);
                    return "only";
                }

                @Override
                public void unregister(CredentialsProvider provider, String id) {
                }

                @Override
                public boolean isApproachingExpiration(Duration left) {
                    return false;
                }
            });
            try (Connection renewed = factory.newConnection()) {
                equal(next(renewals, "registration").call(), true, "update-secret-ok");
                temporary(renewed.createChannel());
            }
        });
        EXPECTATIONS.put("channels", (connection, channel) -> {
            String queue = temporary(channel);
            BlockingQueue<Delivery> deliveries = consume(channel, queue, true);
            List<Channel> many = new ArrayList<>();
            for (int i = 0; i < 100; i++) {
                many.add(connection.createChannel());
            }
            for (Channel one : many) {
                one.basicPublish("", queue, null, new byte[0]);
            }
            take(deliveries, 100);
            for (Channel one : many) {
                one.close();
            }
            temporary(connection.createChannel());
        });
    }

    public static void main(String[] arguments) {
        if (System.getenv("AMQP_FOREIGN_CA") != null) {
            EXPECTATIONS.put("tls-foreign-authority", (connection, channel) -> equal(Secure.trusted(System.getenv("AMQP_FOREIGN_CA")), false, "trusted"));
        }
        String wanted = System.getenv().getOrDefault("INTEROP_ONLY", "");
        Set<String> only = wanted.isEmpty() ? EXPECTATIONS.keySet() : new HashSet<>(Arrays.asList(wanted.split(",")));
        boolean failed = false;
        for (Map.Entry<String, Expectation> expectation : EXPECTATIONS.entrySet()) {
            if (!only.contains(expectation.getKey())) {
                continue;
            }
            try {
                Connection connection = connect(0);
                try {
                    expectation.getValue().run(connection, connection.createChannel());
                } finally {
                    connection.abort();
                }
                System.out.println("ok " + expectation.getKey());
            } catch (Exception | AssertionError failure) {
                failed = true;
                failure.printStackTrace();
                System.out.println("not ok " + expectation.getKey() + " - " + String.valueOf(failure).replaceAll("\\s+", " "));
            }
        }
        System.exit(failed ? 1 : 0);
    }
}
