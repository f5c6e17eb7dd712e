import com.rabbitmq.http.client.Client;
import com.rabbitmq.http.client.ClientParameters;
import com.rabbitmq.http.client.GetAckMode;
import com.rabbitmq.http.client.GetEncoding;
import com.rabbitmq.http.client.HttpException;
import com.rabbitmq.http.client.domain.ConnectionInfo;
import com.rabbitmq.http.client.domain.DeleteQueueParameters;
import com.rabbitmq.http.client.domain.DetailsParameters;
import com.rabbitmq.http.client.domain.ExchangeInfo;
import com.rabbitmq.http.client.domain.InboundMessage;
import com.rabbitmq.http.client.domain.OutboundMessage;
import com.rabbitmq.http.client.domain.PolicyInfo;
import com.rabbitmq.http.client.domain.QueryParameters;
import com.rabbitmq.http.client.domain.QueueInfo;
import com.rabbitmq.http.client.domain.TopicPermissions;
import com.rabbitmq.http.client.domain.UpstreamDetails;
import com.rabbitmq.http.client.domain.UserPermissions;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * RabbitMQ's Java client of its HTTP API, as its users have it, asks a broker all that it knows to ask.
 *
 * <p>Enters: MANAGEMENT_URL; a broker with queues waiting-0 to waiting-2 in virtual host `clients`, where a publisher and a consumer are
 * at work. Leaves: a line `ok` or `not ok` a check on standard output; status 1 after a failure. What it makes is gone in the end.
 */
public final class Check {
    private static final String BUSY = "clients";
    /** Names with what a path must escape. */
    private static final String VHOST = "made/ü 50%";
    private static final String QUEUE = "a queue/%2F?&#";
    private static final String EXCHANGE = "an exchange;=+";
    private static final String USER = "made by/maven";

    private interface Body {
        void run() throws Exception;
    }

    private static Client client;
    private static int failed;

    private static void check(String name, Body body) {
        try {
            body.run();
            System.out.println("ok clients-maven-" + name);
        } catch (Exception | AssertionError why) {
            failed++;
            System.out.println("not ok clients-maven-" + name + " - " + why);
        }
    }

    private static void ensure(boolean isSo, Object found) {
        if (!isSo) {
            throw new AssertionError(String.valueOf(found));
        }
    }

    private static void equal(Object found, Object wanted) {
        ensure(Objects.equals(found, wanted), found + " where " + wanted + " is expected");
    }

    /** An answer that must have items. */
    private static <T> T first(Collection<T> found) {
        ensure(found != null && !found.isEmpty(), "none: " + found);
        return found.iterator().next();
    }

    private static <T> T first(T[] found) {
        return first(List.of(found));
    }

    /** An answer that may be empty, and must be there. */
    private static void any(Object found) {
        ensure(found != null, "no answer");
    }

    private static void refused(Body body) throws Exception {
        try {
            body.run();
        } catch (HttpException expected) {
            return;
        }
        throw new AssertionError("it was not refused");
    }

    public static void main(String[] arguments) throws Exception {
        ClientParameters parameters = new ClientParameters().url(System.getenv("MANAGEMENT_URL") + "/api/").username("guest").password("guest");
        client = new Client(parameters);
        reads();
        changes();
        check("close-connections", () -> {
            client.closeConnection(first(client.getConnections()).getName(), "closed by maven");
            client.closeAllConnectionsOfUser("guest");
        });
        System.exit(failed == 0 ? 0 : 1);
    }

    private static void reads() {
        QueryParameters page = new QueryParameters().pagination().pageSize(50).query();
        DetailsParameters details = new DetailsParameters().lengths(60, 5).messageRates(60, 5);
        check("overview", () -> {
            var found = client.getOverview();
            equal(found.getServerVersion(), "3.10.8");
            ensure(found.getObjectTotals().getQueues() >= 3, found);
            ensure(found.getQueueTotals().getMessages() >= 12, found);
            first(found.getListeners());
        });
        check("alivenessTest", () -> ensure(client.alivenessTest(BUSY), "false"));
        check("whoAmI", () -> equal(client.whoAmI().getName(), "guest"));
        check("nodes", () -> {
            var node = first(client.getNodes());
            equal(client.getNode(node.getName()).getName(), node.getName());
            ensure(node.isRunning() && node.getMemoryUsed() > 0 && node.getFileDescriptorsTotal() > 0, node);
        });
        check("cluster-name", () -> any(client.getClusterName().getName()));
        check("extensions", () -> any(client.getExtensions()));
        check("definitions", () -> first(client.getDefinitions().getQueues()));
        check("connections", () -> {
            ConnectionInfo connection = first(client.getConnections());
            ConnectionInfo again = client.getConnection(connection.getName());
            equal(again.getName(), connection.getName());
            equal(again.getUser(), "guest");
            ensure(again.getOctetsReceived() > 0 && again.getChannels() > 0, again);
            any(again.getClientProperties());
            first(client.getConnections(page).getItems());
            first(client.getConnectionsOfUser("guest"));
        });
        check("channels", () -> {
            var channel = first(client.getChannels());
            equal(client.getChannel(channel.getName()).getName(), channel.getName());
            first(client.getChannels(channel.getConnectionDetails().getName()));
            first(client.getChannels(page).getItems());
        });
        check("consumers", () -> {
            var consumer = first(client.getConsumers());
            ensure(consumer.getChannelDetails() != null && consumer.getQueueDetails() != null, consumer);
            first(client.getConsumers(BUSY));
        });
        check("vhosts", () -> {
            first(client.getVhosts());
            equal(client.getVhost(BUSY).getName(), BUSY);
        });
        check("permissions", () -> {
            first(client.getPermissions());
            first(client.getPermissionsIn(BUSY));
            first(client.getPermissionsOf("guest"));
            equal(client.getPermissions(BUSY, "guest").getRead(), ".*");
            any(client.getTopicPermissions());
        });
        check("users", () -> {
            first(client.getUsers());
            ensure(client.getUser("guest").getTags().contains("administrator"), client.getUser("guest"));
        });
        check("exchanges", () -> {
            first(client.getExchanges());
            first(client.getExchanges(BUSY));
            first(client.getExchanges(page).getItems());
            first(client.getExchanges(BUSY, page).getItems());
            equal(client.getExchange(BUSY, "amq.topic").getType(), "topic");
        });
        check("queues", () -> {
            first(client.getQueues());
            first(client.getQueues(details));
            first(client.getQueues(BUSY));
            first(client.getQueues(BUSY, details));
            first(client.getQueues(page).getItems());
            first(client.getQueues(BUSY, page).getItems());
            QueueInfo queue = client.getQueue(BUSY, "waiting-1", details);
            equal(queue.getMessagesReady(), 4L);
            equal(queue.getTotalMessages(), 4L);
            equal(queue.isDurable(), true);
        });
        check("bindings", () -> {
            first(client.getBindings());
            first(client.getBindings(BUSY));
            first(client.getQueueBindings(BUSY, "waiting-0"));
            any(client.getBindingsBySource(BUSY, "amq.topic"));
            any(client.getExchangeBindingsByDestination(BUSY, "amq.topic"));
        });
        check("policies", () -> {
            any(client.getPolicies());
            any(client.getPolicies(BUSY));
            any(client.getOperatorPolicies());
            any(client.getOperatorPolicies(BUSY));
        });
        check("limits", () -> {
            any(client.getVhostLimits());
            equal(client.getVhostLimits(BUSY).getMaxQueues(), -1);
        });
        check("federation", () -> {
            any(client.getUpstreams());
            any(client.getUpstreams(BUSY));
            any(client.getUpstreamSets());
        });
        check("shovels", () -> {
            any(client.getShovels());
            any(client.getShovels(BUSY));
            any(client.getShovelsStatus());
            any(client.getShovelsStatus(BUSY));
        });
        check("nothing-there", () -> {
            equal(client.getQueue(BUSY, "nothing"), null);
            equal(client.getUser("nobody"), null);
        });
    }

    private static void changes() {
        check("create-vhost", () -> {
            client.createVhost(VHOST, "first", "one", "two");
            equal(client.getVhost(VHOST).getDescription(), "first");
        });
        check("create-user", () -> {
            client.createUser(USER, "secret".toCharArray(), List.of("monitoring"));
            client.updateUser(USER, null, List.of("monitoring", "policymaker"));
            equal(client.getUser(USER).getTags(), List.of("monitoring", "policymaker"));
        });
        check("update-permissions", () -> {
            client.updatePermissions(VHOST, USER, new UserPermissions("^c", "^w", "^r"));
            first(client.getPermissionsIn(VHOST));
            any(client.getPermissions(VHOST, USER).getConfigure());
            client.updateTopicPermissions(VHOST, USER, new TopicPermissions("amq.topic", "^r", "^w"));
            equal(first(client.getTopicPermissions(VHOST, USER)).getExchange(), "amq.topic");
            client.clearTopicPermissions(VHOST, USER);
            client.clearPermissions(VHOST, USER);
        });
        check("declare-queue", () -> {
            client.declareQueue(VHOST, QUEUE, new QueueInfo(true, false, false, Map.of("x-max-length", 100)));
            QueueInfo found = client.getQueue(VHOST, QUEUE);
            equal(found.getName(), QUEUE);
            equal(found.getArguments().get("x-max-length"), 100);
        });
        check("declare-exchange", () -> {
            client.declareExchange(VHOST, EXCHANGE, new ExchangeInfo("topic", true, false));
            equal(client.getExchange(VHOST, EXCHANGE).getType(), "topic");
        });
        check("bind-queue", () -> {
            client.bindQueue(VHOST, QUEUE, EXCHANGE, "a.b", Map.of("x", 1));
            client.bindQueue(VHOST, QUEUE, EXCHANGE, "b");
            equal(client.getQueueBindingsBetween(VHOST, EXCHANGE, QUEUE).size(), 2);
            client.unbindQueue(VHOST, QUEUE, EXCHANGE, "b");
            equal(client.getBindingsBySource(VHOST, EXCHANGE).size(), 1);
        });
        check("bind-exchange", () -> {
            client.bindExchange(VHOST, "amq.fanout", EXCHANGE, "all");
            equal(client.getExchangeBindingsBetween(VHOST, EXCHANGE, "amq.fanout").size(), 1);
            client.unbindExchange(VHOST, "amq.fanout", EXCHANGE, "all");
            equal(client.getExchangeBindingsByDestination(VHOST, "amq.fanout").size(), 0);
        });
        check("publish-and-get", () -> {
            ensure(client.publish(VHOST, EXCHANGE, "a.b", new OutboundMessage().payload("hello ü").utf8Encoded()), "not routed");
            ensure(!client.publish(VHOST, EXCHANGE, "nowhere", new OutboundMessage().payload("x").utf8Encoded()), "routed");
            InboundMessage kept = client.get(VHOST, QUEUE);
            equal(kept.getPayload(), "hello ü");
            refused(() -> client.deleteQueue(VHOST, QUEUE, new DeleteQueueParameters(true, false)));
            List<InboundMessage> taken = client.get(VHOST, QUEUE, 5, GetAckMode.ACK_REQUEUE_FALSE, GetEncoding.BASE64, 100);
            equal(taken.size(), 1);
            ensure(taken.get(0).isRedelivered(), "it is not said to be redelivered");
            client.purgeQueue(VHOST, QUEUE);
        });
        check("declare-policy", () -> {
            PolicyInfo policy = new PolicyInfo("^a", 7, "queues", Map.of("max-length", 50));
            client.declarePolicy(VHOST, "a policy", policy);
            client.declareOperatorPolicy(VHOST, "op", policy);
            equal(first(client.getPolicies(VHOST)).getPriority(), 7);
            equal(first(client.getOperatorPolicies(VHOST)).getApplyTo(), "queues");
            client.deletePolicy(VHOST, "a policy");
            client.deleteOperatorPolicy(VHOST, "op");
            equal(client.getPolicies(VHOST).size(), 0);
        });
        check("limit", () -> {
            client.limitMaxNumberOfQueues(VHOST, 500);
            client.limitMaxNumberOfConnections(VHOST, 50);
            equal(client.getVhostLimits(VHOST).getMaxQueues(), 500);
            equal(client.getVhostLimits(VHOST).getMaxConnections(), 50);
            client.clearMaxQueuesLimit(VHOST);
            client.clearMaxConnectionsLimit(VHOST);
        });
        check("upstream", () -> {
            client.declareUpstream(VHOST, "up", new UpstreamDetails().setUri("amqp://127.0.0.1:1").setPrefetchCount(10));
            equal(first(client.getUpstreams(VHOST)).getValue().getPrefetchCount(), 10);
            client.deleteUpstream(VHOST, "up");
            equal(client.getUpstreams(VHOST).size(), 0);
        });
        check("cluster-name-set", () -> {
            String before = client.getClusterName().getName();
            client.setClusterName("of maven");
            equal(client.getClusterName().getName(), "of maven");
            client.setClusterName(before);
        });
        check("delete", () -> {
            client.deleteQueue(VHOST, QUEUE, new DeleteQueueParameters(true, true));
            client.deleteExchange(VHOST, EXCHANGE);
            client.deleteUser(USER);
            client.deleteVhost(VHOST);
            equal(client.getVhost(VHOST), null);
        });
    }
}
