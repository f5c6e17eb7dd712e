import com.rabbitmq.client.Channel;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Deque;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.springframework.amqp.AmqpRejectAndDontRequeueException;
import org.springframework.amqp.core.AcknowledgeMode;
import org.springframework.amqp.core.Binding;
import org.springframework.amqp.core.BindingBuilder;
import org.springframework.amqp.core.FanoutExchange;
import org.springframework.amqp.core.Message;
import org.springframework.amqp.core.MessageListener;
import org.springframework.amqp.core.Queue;
import org.springframework.amqp.core.QueueBuilder;
import org.springframework.amqp.core.TopicExchange;
import org.springframework.amqp.rabbit.AsyncRabbitTemplate;
import org.springframework.amqp.rabbit.config.RetryInterceptorBuilder;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory.ConfirmType;
import org.springframework.amqp.rabbit.connection.CorrelationData;
import org.springframework.amqp.rabbit.core.RabbitAdmin;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.amqp.rabbit.listener.AbstractMessageListenerContainer;
import org.springframework.amqp.rabbit.listener.DirectMessageListenerContainer;
import org.springframework.amqp.rabbit.listener.SimpleMessageListenerContainer;
import org.springframework.amqp.rabbit.listener.adapter.MessageListenerAdapter;
import org.springframework.amqp.rabbit.listener.api.ChannelAwareMessageListener;
import org.springframework.amqp.rabbit.retry.RejectAndDontRequeueRecoverer;
import org.springframework.amqp.rabbit.retry.RepublishMessageRecoverer;

/**
 * Spring AMQP's run: listener containers, retries and dead letters, requests and replies, confirms and returns.
 *
 * <p>Enters: AMQP_URL. Leaves: a line for each expectation on standard output, as ../report.py has them.
 * Owns: its connections and containers; queues and exchanges of its own names, deleted in the end.
 * Never: sleeps: every wait is for a message or a state, with a deadline.
 */
public final class Check {
    private static final long DEADLINE_S = 30;
    private static int serial;
    /** What an expectation made, taken down in the reverse order whatever happens. */
    private static final Deque<AutoCloseable> SCENE = new ArrayDeque<>();
    private static final Map<String, Expectation> EXPECTATIONS = new LinkedHashMap<>();

    private interface Expectation {
        void run(CachingConnectionFactory factory, RabbitAdmin admin, RabbitTemplate template) throws Exception;
    }

    private static String unique(String word) {
        return "spring-" + word + "-" + ProcessHandle.current().pid() + "-" + ++serial;
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

    private static <T> List<T> take(BlockingQueue<T> from, int count) throws InterruptedException {
        List<T> got = new ArrayList<>();
        while (got.size() < count) {
            got.add(next(from, "message " + (got.size() + 1) + " of " + count));
        }
        return got;
    }

    private static void until(Callable<Boolean> condition, String what) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(DEADLINE_S);
        while (!condition.call()) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError("not in time: " + what);
            }
            TimeUnit.MILLISECONDS.sleep(10); // between two looks at the condition, which has a deadline
        }
    }

    private static CachingConnectionFactory factory() {
        CachingConnectionFactory made = new CachingConnectionFactory();
        made.setUri(System.getenv("AMQP_URL"));
        SCENE.push(made::destroy);
        return made;
    }

    private static String text(Message message) {
        return new String(message.getBody());
    }

    private static String queue(RabbitAdmin admin, String word) {
        return declared(admin, QueueBuilder.nonDurable(unique(word)).build());
    }

    private static String declared(RabbitAdmin admin, Queue queue) {
        admin.declareQueue(queue);
        SCENE.push(() -> admin.deleteQueue(queue.getName()));
        return queue.getName();
    }

    private static int ready(RabbitAdmin admin, String queue) {
        return (int) admin.getQueueInfo(queue).getMessageCount();
    }

    private static <C extends AbstractMessageListenerContainer> C running(C container, String queue, MessageListener listener) {
        container.setQueueNames(queue);
        container.setMessageListener(listener);
        container.setShutdownTimeout(TimeUnit.SECONDS.toMillis(DEADLINE_S));
        if (container instanceof SimpleMessageListenerContainer simple) {
            // How long an idle consumer looks at nothing before it sees that it is to stop.
            simple.setReceiveTimeout(50);
        }
        container.afterPropertiesSet();
        container.start();
        SCENE.push(container::destroy);
        return container;
    }

    private static SimpleMessageListenerContainer simple(CachingConnectionFactory factory) {
        return new SimpleMessageListenerContainer(factory);
    }

    private static DirectMessageListenerContainer direct(CachingConnectionFactory factory) {
        return new DirectMessageListenerContainer(factory);
    }

    /** A queue whose dead letters go to a second one: both names. */
    private static String[] withDeadLetters(RabbitAdmin admin) {
        String dead = queue(admin, "dead");
        return new String[] {declared(admin, QueueBuilder.nonDurable(unique("work")).deadLetterExchange("").deadLetterRoutingKey(dead).build()), dead};
    }

    /** Of which kind the address is that a request wants its reply at. */
    private static String kind(Message request) {
        String to = request.getMessageProperties().getReplyTo();
        return to.startsWith("amq.rabbitmq.reply-to.") ? "direct" : to.startsWith("amq.gen-") ? "temporary" : "own";
    }

    private static Set<String> numbers(int count) {
        return IntStream.range(0, count).mapToObj(String::valueOf).collect(Collectors.toCollection(TreeSet::new));
    }

    private static void load(RabbitTemplate template, String queue, int count) {
        for (int i = 0; i < count; i++) {
            template.convertAndSend("", queue, String.valueOf(i));
        }
    }

    /**
     * Everything arrives once through several consumers, and an orderly stop leaves nothing behind, but for what the
     * container had begun to collect for one acknowledgement: that may come again, and says so.
     */
    private static void consumesAll(AbstractMessageListenerContainer container, RabbitAdmin admin, RabbitTemplate template, int consumers, int collected) throws Exception {
        String queue = queue(admin, "many");
        BlockingQueue<String> got = new LinkedBlockingQueue<>();
        Set<String> tags = Collections.synchronizedSet(new HashSet<>());
        running(container, queue, message -> {
            tags.add(message.getMessageProperties().getConsumerTag());
            got.add(text(message));
        });
        until(() -> admin.getQueueInfo(queue).getConsumerCount() == consumers, consumers + " consumers");
        load(template, queue, 500);
        equal(new TreeSet<>(take(got, 500)), numbers(500), "all");
        equal(tags.size(), consumers, "consumers that got some");
        container.stop();
        until(() -> admin.getQueueInfo(queue).getConsumerCount() == 0, "it stopped");
        equal(got.size(), 0, "doubled");
        int left = ready(admin, queue);
        equal(left <= consumers * collected, true, left + " are left");
        for (int i = 0; i < left; i++) {
            equal(template.receive(queue).getMessageProperties().isRedelivered(), true, "comes again");
        }
    }

    /** Tried three times in the container, then rejected: a dead letter with its history. */
    private static void retried(AbstractMessageListenerContainer container, RabbitAdmin admin, RabbitTemplate template) throws Exception {
        String[] queues = withDeadLetters(admin);
        BlockingQueue<String> attempts = new LinkedBlockingQueue<>();
        container.setAdviceChain(RetryInterceptorBuilder.stateless().maxRetries(2).backOffOptions(10, 1.0, 10).recoverer(new RejectAndDontRequeueRecoverer()).build());
        running(container, queues[0], message -> {
            attempts.add(text(message));
            if (text(message).equals("bad")) {
                throw new IllegalStateException("it is bad");
            }
        });
        template.convertAndSend("", queues[0], "bad");
        template.convertAndSend("", queues[0], "good");
        Message dead = template.receive(queues[1], TimeUnit.SECONDS.toMillis(DEADLINE_S));
        equal(text(dead), "bad", "the dead letter");
        Map<String, ?> death = dead.getMessageProperties().getXDeathHeader().get(0);
        equal(List.of(death.get("reason"), death.get("queue"), death.get("count")), List.of("rejected", queues[0], 1L), "x-death");
        equal(take(attempts, 4), List.of("bad", "bad", "bad", "good"), "attempts");
    }

    static {
        EXPECTATIONS.put("spring-admin", (factory, admin, template) -> {
            TopicExchange topic = new TopicExchange(unique("topic"), false, true);
            FanoutExchange fanout = new FanoutExchange(unique("fanout"), false, true);
            Queue queue = QueueBuilder.nonDurable(unique("declared")).ttl(60_000).maxLength(10L).expires(60_000).build();
            Binding inner = BindingBuilder.bind(queue).to(fanout);
            Binding outer = BindingBuilder.bind(fanout).to(topic).with("a.*");
            admin.declareExchange(topic);
            admin.declareExchange(fanout);
            declared(admin, queue);
            admin.declareBinding(inner);
            admin.declareBinding(outer);
            template.convertAndSend(topic.getName(), "a.b", "arrives");
            template.convertAndSend(topic.getName(), "b.a", "does not");
            until(() -> ready(admin, queue.getName()) == 1, "one is routed");
            equal(admin.getQueueInfo(queue.getName()).getConsumerCount(), 0, "consumers");
            equal(template.receiveAndConvert(queue.getName()), "arrives", "routed");
            template.convertAndSend("", queue.getName(), "purged");
            until(() -> ready(admin, queue.getName()) == 1, "one to purge");
            equal(admin.purgeQueue(queue.getName()), 1, "purged");
            admin.removeBinding(outer);
            equal(admin.getQueueInfo(unique("nowhere")), null, "one that is not there");
            admin.deleteExchange(fanout.getName());
            admin.deleteExchange(topic.getName());
        });
        EXPECTATIONS.put("spring-simple-container", (factory, admin, template) -> {
            SimpleMessageListenerContainer container = simple(factory);
            container.setConcurrentConsumers(3);
            container.setPrefetchCount(10);
            // Acknowledges five at once, and none of fewer if it is stopped while it waits for the next.
            container.setBatchSize(5);
            consumesAll(container, admin, template, 3, 4);
        });
        EXPECTATIONS.put("spring-direct-container", (factory, admin, template) -> {
            DirectMessageListenerContainer container = direct(factory);
            container.setConsumersPerQueue(3);
            container.setPrefetchCount(10);
            container.setMessagesPerAck(5);
            container.setAckTimeout(100);
            consumesAll(container, admin, template, 3, 0);
        });
        EXPECTATIONS.put("spring-queues-come-and-go", (factory, admin, template) -> {
            String first = queue(admin, "first");
            String second = queue(admin, "second");
            BlockingQueue<String> got = new LinkedBlockingQueue<>();
            DirectMessageListenerContainer container = direct(factory);
            container.setMissingQueuesFatal(false);
            container.setFailedDeclarationRetryInterval(50);
            container.setRecoveryInterval(50);
            container.setMonitorInterval(50);
            running(container, first, message -> got.add(message.getMessageProperties().getConsumerQueue() + " " + text(message)));
            container.addQueueNames(second);
            template.convertAndSend("", second, "1");
            equal(next(got, "of the second"), second + " 1", "added");
            container.removeQueueNames(first);
            until(() -> admin.getQueueInfo(first).getConsumerCount() == 0, "removed");
            // Its queue goes, which the broker tells the consumer; it comes back, and so does the consumer.
            admin.deleteQueue(second);
            until(() -> admin.getQueueInfo(second) == null, "it is gone");
            admin.declareQueue(QueueBuilder.nonDurable(second).build());
            until(() -> admin.getQueueInfo(second).getConsumerCount() == 1, "consumed again");
            template.convertAndSend("", second, "2");
            equal(next(got, "after its return"), second + " 2", "again");
        });
        EXPECTATIONS.put("spring-acknowledging", (factory, admin, template) -> {
            String[] queues = withDeadLetters(admin);
            BlockingQueue<String> got = new LinkedBlockingQueue<>();
            running(simple(factory), queues[0], message -> {
                boolean again = message.getMessageProperties().isRedelivered();
                got.add(text(message) + (again ? " again" : ""));
                if (text(message).equals("never")) {
                    throw new AmqpRejectAndDontRequeueException("never");
                }
                if (!again) {
                    throw new IllegalStateException("not yet");
                }
            });
            template.convertAndSend("", queues[0], "later");
            equal(take(got, 2), List.of("later", "later again"), "requeued");
            template.convertAndSend("", queues[0], "never");
            equal(text(template.receive(queues[1], TimeUnit.SECONDS.toMillis(DEADLINE_S))), "never", "rejected");
            String manual = queue(admin, "manual");
            BlockingQueue<String> held = new LinkedBlockingQueue<>();
            DirectMessageListenerContainer container = direct(factory);
            container.setAcknowledgeMode(AcknowledgeMode.MANUAL);
            container.setPrefetchCount(3);
            ChannelAwareMessageListener byHand = (message, channel) -> {
                held.add(text(message));
                if (Integer.parseInt(text(message)) % 3 == 2) {
                    channel.basicAck(message.getMessageProperties().getDeliveryTag(), true);
                }
            };
            running(container, manual, byHand);
            load(template, manual, 9);
            equal(take(held, 9), new ArrayList<>(numbers(9)), "three at a time");
            container.stop();
            until(() -> ready(admin, manual) == 0, "all are acknowledged");
        });
        EXPECTATIONS.put("spring-transactions", (factory, admin, template) -> {
            String in = queue(admin, "in");
            String out = queue(admin, "out");
            RabbitTemplate inside = new RabbitTemplate(factory);
            inside.setChannelTransacted(true);
            BlockingQueue<Boolean> tries = new LinkedBlockingQueue<>();
            SimpleMessageListenerContainer container = simple(factory);
            container.setChannelTransacted(true);
            running(container, in, message -> {
                boolean again = message.getMessageProperties().isRedelivered();
                inside.convertAndSend("", out, again ? "second" : "first");
                tries.add(again);
                if (!again) {
                    throw new IllegalStateException("rolled back");
                }
            });
            template.convertAndSend("", in, "work");
            equal(take(tries, 2), List.of(false, true), "delivered twice");
            equal(template.receiveAndConvert(out, TimeUnit.SECONDS.toMillis(DEADLINE_S)), "second", "what was committed");
            container.stop();
            until(() -> ready(admin, in) == 0, "the second try is acknowledged");
            equal(ready(admin, out), 0, "nothing of what was rolled back");
        });
        EXPECTATIONS.put("spring-retry-dead-letter", (factory, admin, template) -> {
            retried(simple(factory), admin, template);
            retried(direct(factory), admin, template);
        });
        EXPECTATIONS.put("spring-retry-over-the-broker", (factory, admin, template) -> {
            String queue = queue(admin, "stateful");
            String errors = queue(admin, "errors");
            BlockingQueue<String> attempts = new LinkedBlockingQueue<>();
            SimpleMessageListenerContainer container = simple(factory);
            // Each attempt is a delivery of its own, counted by the message's id; in the end it is sent elsewhere with its reason.
            container.setAdviceChain(RetryInterceptorBuilder.stateful().maxRetries(2).backOffOptions(10, 1.0, 10).recoverer(new RepublishMessageRecoverer(template, "", errors)).build());
            running(container, queue, message -> {
                attempts.add(message.getMessageProperties().isRedelivered() ? "again" : "first");
                throw new IllegalStateException("it is bad");
            });
            template.convertAndSend("", queue, "bad", message -> {
                message.getMessageProperties().setMessageId("1");
                return message;
            });
            Message failed = template.receive(errors, TimeUnit.SECONDS.toMillis(DEADLINE_S));
            equal(take(attempts, 3), List.of("first", "again", "again"), "attempts");
            equal(failed.getMessageProperties().getHeaders().get("x-exception-message"), "it is bad", "its reason");
            container.stop();
            until(() -> ready(admin, queue) == 0, "nothing is left");
        });
        EXPECTATIONS.put("spring-rpc", (factory, admin, template) -> {
            String queue = queue(admin, "rpc");
            Set<String> addresses = Collections.synchronizedSet(new HashSet<>());
            MessageListenerAdapter upper = new MessageListenerAdapter(new Object() {
                @SuppressWarnings("unused")
                public String handleMessage(String asked) {
                    return asked.toUpperCase();
                }
            });
            running(direct(factory), queue, new ChannelAwareMessageListener() {
                @Override
                public void onMessage(Message message, Channel channel) throws Exception {
                    addresses.add(kind(message));
                    upper.onMessage(message, channel);
                }
            });
            // Direct reply-to, with consumers that are kept: all requests are open at once, and answered from the last to the first.
            template.setReplyTimeout(TimeUnit.SECONDS.toMillis(DEADLINE_S));
            String held = queue(admin, "held");
            BlockingQueue<Message> requests = new LinkedBlockingQueue<>();
            running(direct(factory), held, requests::add);
            ExecutorService callers = Executors.newCachedThreadPool();
            SCENE.push(callers::shutdownNow);
            List<CompletableFuture<Object>> asked = new ArrayList<>();
            Deque<Message> open = new ArrayDeque<>();
            for (int i = 0; i < 50; i++) {
                String question = "a" + i;
                asked.add(CompletableFuture.supplyAsync(() -> template.convertSendAndReceive("", held, question), callers));
                // One after another: since spring-amqp's pull 2655 callers set the size of their reply container outside its lock.
                // Asked all at once, a caller has been told that its channel was closed, presumably by a container that shrank.
                open.push(next(requests, question));
            }
            for (Message request : open) {
                addresses.add(kind(request));
                template.convertAndSend("", request.getMessageProperties().getReplyTo(), text(request).toUpperCase(), reply -> {
                    reply.getMessageProperties().setCorrelationId(request.getMessageProperties().getCorrelationId());
                    return reply;
                });
            }
            for (int i = 0; i < asked.size(); i++) {
                equal(asked.get(i).get(DEADLINE_S, TimeUnit.SECONDS), "A" + i, "reply");
            }
            // The same with a consumer for each request.
            RabbitTemplate each = new RabbitTemplate(factory);
            each.setUseDirectReplyToContainer(false);
            each.setReplyTimeout(TimeUnit.SECONDS.toMillis(DEADLINE_S));
            equal(each.convertSendAndReceive("", queue, "each"), "EACH", "direct reply-to without a container");
            equal(addresses, Set.of("direct"), "by direct reply-to");
            // A temporary queue for each request, and a queue of its own for all.
            RabbitTemplate temporary = new RabbitTemplate(factory);
            temporary.setUseTemporaryReplyQueues(true);
            temporary.setReplyTimeout(TimeUnit.SECONDS.toMillis(DEADLINE_S));
            equal(temporary.convertSendAndReceive("", queue, "temporary"), "TEMPORARY", "by a temporary queue");
            RabbitTemplate fixed = new RabbitTemplate(factory);
            String replies = queue(admin, "replies");
            fixed.setReplyAddress(replies);
            fixed.setReplyTimeout(TimeUnit.SECONDS.toMillis(DEADLINE_S));
            running(simple(factory), replies, fixed);
            equal(fixed.convertSendAndReceive("", queue, "fixed"), "FIXED", "by a queue of its own");
            equal(addresses, Set.of("direct", "temporary", "own"), "by other addresses too");
            // Many requests under way at once.
            AsyncRabbitTemplate async = new AsyncRabbitTemplate(factory, "", queue);
            async.setReceiveTimeout(TimeUnit.SECONDS.toMillis(DEADLINE_S));
            async.start();
            SCENE.push(async::stop);
            List<CompletableFuture<String>> futures = new ArrayList<>();
            for (int i = 0; i < 50; i++) {
                futures.add(async.<String>convertSendAndReceive("b" + i));
            }
            for (int i = 0; i < futures.size(); i++) {
                equal(futures.get(i).get(DEADLINE_S, TimeUnit.SECONDS), "B" + i, "asynchronous reply");
            }
            // Nobody answers: the caller gets nothing, and the connection is as good as before.
            template.setReplyTimeout(100);
            equal(template.convertSendAndReceive("", queue(admin, "silent"), "anybody?"), null, "no answer");
            template.setReplyTimeout(TimeUnit.SECONDS.toMillis(DEADLINE_S));
            equal(template.convertSendAndReceive("", queue, "still"), "STILL", "afterwards");
        });
        EXPECTATIONS.put("spring-confirms-and-returns", (factory, admin, template) -> {
            CachingConnectionFactory confirming = factory();
            confirming.setPublisherConfirmType(ConfirmType.CORRELATED);
            confirming.setPublisherReturns(true);
            RabbitTemplate sender = new RabbitTemplate(confirming);
            sender.setMandatory(true);
            String queue = declared(admin, QueueBuilder.nonDurable(unique("short")).maxLength(1L).overflow(QueueBuilder.Overflow.rejectPublish).build());
            List<CorrelationData> sent = new ArrayList<>();
            for (String key : List.of(queue, queue, unique("nowhere"))) {
                CorrelationData data = new CorrelationData(key + sent.size());
                sent.add(data);
                sender.convertAndSend("", key, "x", data);
            }
            List<Boolean> answers = new ArrayList<>();
            for (CorrelationData data : sent) {
                answers.add(data.getFuture().get(DEADLINE_S, TimeUnit.SECONDS).ack());
            }
            equal(answers, List.of(true, false, true), "confirmed, refused, returned");
            equal(sent.get(0).getReturned(), null, "not returned");
            equal(sent.get(2).getReturned().getReplyCode() + " " + sent.get(2).getReturned().getReplyText(), "312 NO_ROUTE", "returned");
            CachingConnectionFactory waiting = factory();
            waiting.setPublisherConfirmType(ConfirmType.SIMPLE);
            String all = queue(admin, "all");
            boolean confirmed = new RabbitTemplate(waiting).invoke(operations -> {
                for (int i = 0; i < 100; i++) {
                    operations.convertAndSend("", all, "x");
                }
                return operations.waitForConfirms(TimeUnit.SECONDS.toMillis(DEADLINE_S));
            });
            equal(List.of(confirmed, ready(admin, all)), List.of(true, 100), "all at once");
        });
        EXPECTATIONS.put("spring-recovery", (factory, admin, template) -> {
            String queue = queue(admin, "recovery");
            try (Relay relay = new Relay()) {
                CachingConnectionFactory cut = factory();
                cut.setPort(relay.port());
                BlockingQueue<String> got = new LinkedBlockingQueue<>();
                AtomicInteger kept = new AtomicInteger();
                for (AbstractMessageListenerContainer container : List.of(simple(cut), direct(cut))) {
                    container.setAcknowledgeMode(AcknowledgeMode.MANUAL);
                    container.setRecoveryInterval(50);
                    if (container instanceof DirectMessageListenerContainer monitored) {
                        monitored.setMonitorInterval(50);
                    }
                    ChannelAwareMessageListener keeping = (message, channel) -> {
                        got.add(text(message) + (message.getMessageProperties().isRedelivered() ? " again" : ""));
                        if (!text(message).equals("keep") || kept.getAndIncrement() % 2 == 1) {
                            channel.basicAck(message.getMessageProperties().getDeliveryTag(), false);
                        }
                    };
                    running(container, queue, keeping);
                    template.convertAndSend("", queue, "keep");
                    equal(next(got, "the first delivery"), "keep", "held");
                    relay.cut();
                    equal(next(got, "after the cut"), "keep again", "brought again");
                    template.convertAndSend("", queue, "on");
                    equal(next(got, "what follows"), "on", "and it goes on");
                    container.stop();
                    until(() -> admin.getQueueInfo(queue).getConsumerCount() == 0, "it stopped");
                }
                until(() -> ready(admin, queue) == 0, "nothing is left");
            }
        });
        EXPECTATIONS.put("spring-annotated-listener", (factory, admin, template) -> Annotated.check(factory, template, unique("annotated"), DEADLINE_S));
    }

    public static void main(String[] arguments) {
        String wanted = System.getenv().getOrDefault("INTEROP_ONLY", "");
        Set<String> only = wanted.isEmpty() ? EXPECTATIONS.keySet() : new HashSet<>(Arrays.asList(wanted.split(",")));
        boolean failed = false;
        for (Map.Entry<String, Expectation> expectation : EXPECTATIONS.entrySet()) {
            if (!only.contains(expectation.getKey())) {
                continue;
            }
            Throwable trouble = null;
            try {
                CachingConnectionFactory factory = factory();
                RabbitTemplate template = new RabbitTemplate(factory);
                SCENE.push(template::destroy);
                expectation.getValue().run(factory, new RabbitAdmin(factory), template);
            } catch (Exception | AssertionError failure) {
                trouble = failure;
            }
            while (!SCENE.isEmpty()) {
                try {
                    SCENE.pop().close();
                } catch (Exception failure) {
                    trouble = trouble == null ? failure : trouble;
                }
            }
            if (trouble == null) {
                System.out.println("ok " + expectation.getKey());
            } else {
                failed = true;
                trouble.printStackTrace();
                System.out.println("not ok " + expectation.getKey() + " - " + String.valueOf(trouble).replaceAll("\\s+", " "));
            }
        }
        System.exit(failed ? 1 : 0);
    }
}
