import com.rabbitmq.client.ConnectionFactory;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLHandshakeException;
import javax.net.ssl.TrustManagerFactory;

/**
 * How the Java client's suite connects, with TLS or without.
 *
 * <p>Enters: AMQP_URL; the file of an authority, or null. Leaves: a factory of connections.
 * Owns: nothing.
 * Never: trusts a broker that the authority does not vouch for, as this library does by itself.
 */
final class Secure {
    private Secure() { }

    static ConnectionFactory factory(String authority) throws Exception {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setUri(System.getenv("AMQP_URL"));
        if (authority != null) {
            KeyStore known = KeyStore.getInstance(KeyStore.getDefaultType());
            known.load(null, null);
            try (InputStream file = Files.newInputStream(Path.of(authority))) {
                known.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(file));
            }
            TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            trust.init(known);
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(null, trust.getTrustManagers(), null);
            factory.useSslProtocol(context);
            factory.enableHostnameVerification();
        }
        return factory;
    }

    /** Whether the broker's certificate holds before that authority. */
    static boolean trusted(String authority) throws Exception {
        try {
            factory(authority).newConnection().abort();
            return true;
        } catch (SSLHandshakeException refused) {
            if (!refused.getMessage().contains("PKIX path")) {
                throw refused;
            }
            return false;
        }
    }
}
