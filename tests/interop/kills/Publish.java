import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.MessageProperties;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.util.concurrent.TimeoutException;

/**
 * The Java client publishes numbers with confirms, over as many connections as it takes.
 *
 * <p>Enters: AMQP_URL; the queue as argument; the end of standard input. Leaves: each confirmed number on standard output.
 * Owns: a connection at a time.
 * Never: goes on behind a batch that is not confirmed: after a lost connection it publishes that one again.
 */
public final class Publish {
    private static final int BATCH = 20;
    private static final long DEADLINE_MS = 60_000;
    private static volatile boolean isToldToEnd;

    private static void waitForEnd() {
        try {
            while (System.in.read() >= 0) {
                continue;
            }
        } catch (IOException failure) {
            System.err.println(failure);
        }
        isToldToEnd = true;
    }

    /** Publishes from a number on, until the connection is lost or the end has come. Returns the first that is not confirmed. */
    private static int publish(ConnectionFactory factory, String queue, int first) throws InterruptedException {
        int number = first;
        try (Connection connection = factory.newConnection()) {
            Channel channel = connection.createChannel();
            channel.confirmSelect();
            while (!isToldToEnd) {
                for (int i = number; i < number + BATCH; i++) {
                    byte[] body = String.valueOf(i).getBytes();
                    channel.basicPublish("", queue, MessageProperties.PERSISTENT_BASIC, body);
                }
                channel.waitForConfirmsOrDie(DEADLINE_MS);
                for (int i = number; i < number + BATCH; i++) {
                    System.out.println(i);
                }
                number += BATCH;
            }
        } catch (IOException | TimeoutException | ShutdownSignalException lost) {
            Thread.sleep(20); // between two tries, until the broker is back
        }
        return number;
    }

    public static void main(String[] arguments) throws Exception {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setUri(System.getenv("AMQP_URL"));
        factory.setAutomaticRecoveryEnabled(false);
        Thread end = new Thread(Publish::waitForEnd);
        end.setDaemon(true);
        end.start();
        int number = 0;
        while (!isToldToEnd) {
            number = publish(factory, arguments[0], number);
        }
    }
}
