import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Carries connections to the broker until they are cut.
 *
 * <p>Enters: AMQP_URL. Leaves: an address of its own.
 * Owns: its sockets and the threads that carry.
 * Never: changes a byte.
 */
final class Relay implements AutoCloseable {
    private final ServerSocket listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    private final URI broker = URI.create(System.getenv("AMQP_URL"));
    private final Set<Socket> ends = ConcurrentHashMap.newKeySet();

    Relay() throws IOException {
        thread(() -> {
            while (true) {
                Socket near = listener.accept();
                Socket far = new Socket(broker.getHost(), broker.getPort());
                ends.add(near);
                ends.add(far);
                thread(() -> carry(near, far));
                thread(() -> carry(far, near));
            }
        });
    }

    int port() {
        return listener.getLocalPort();
    }

    void cut() {
        for (Socket end : ends) {
            shut(end);
        }
        ends.clear();
    }

    @Override
    public void close() throws IOException {
        listener.close();
        cut();
    }

    private interface Work {
        void run() throws IOException;
    }

    private static void thread(Work work) {
        Thread made = new Thread(() -> {
            try {
                work.run();
            } catch (IOException ended) {
                // A cut connection, or the end of the listener: what this thread was for is over.
            }
        });
        made.setDaemon(true);
        made.start();
    }

    private void carry(Socket from, Socket to) throws IOException {
        try {
            InputStream in = from.getInputStream();
            OutputStream out = to.getOutputStream();
            byte[] piece = new byte[1 << 16];
            for (int count = in.read(piece); count > 0; count = in.read(piece)) {
                out.write(piece, 0, count);
            }
        } finally {
            shut(from);
            shut(to);
        }
    }

    private static void shut(Socket end) {
        try {
            end.close();
        } catch (IOException already) {
            // It is closed, which is what was wanted.
        }
    }
}
