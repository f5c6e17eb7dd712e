import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.springframework.amqp.core.AmqpAdmin;
import org.springframework.amqp.core.Declarables;
import org.springframework.amqp.core.FanoutExchange;
import org.springframework.amqp.core.QueueBuilder;
import org.springframework.amqp.core.BindingBuilder;
import org.springframework.amqp.core.Queue;
import org.springframework.amqp.rabbit.annotation.EnableRabbit;
import org.springframework.amqp.rabbit.annotation.Exchange;
import org.springframework.amqp.rabbit.annotation.QueueBinding;
import org.springframework.amqp.rabbit.annotation.RabbitListener;
import org.springframework.amqp.rabbit.config.DirectRabbitListenerContainerFactory;
import org.springframework.amqp.rabbit.connection.ConnectionFactory;
import org.springframework.amqp.rabbit.core.RabbitAdmin;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.messaging.handler.annotation.Header;
import org.springframework.messaging.handler.annotation.SendTo;

/**
 * An application as most are written: beans that are declared when it connects, methods that listen and answer.
 *
 * <p>Enters: a factory of connections, a word for its names. Leaves: nothing, or why not.
 * Owns: its context; its queues and exchanges go with their consumers.
 * Never: sleeps.
 */
final class Annotated {
    private Annotated() { }

    @Configuration
    @EnableRabbit
    public static class Application {
        private final String word = System.getProperty("annotated.word");
        final BlockingQueue<String> heard = new LinkedBlockingQueue<>();

        @Bean
        AmqpAdmin admin(ConnectionFactory factory) {
            return new RabbitAdmin(factory);
        }

        @Bean
        DirectRabbitListenerContainerFactory rabbitListenerContainerFactory(ConnectionFactory factory) {
            DirectRabbitListenerContainerFactory made = new DirectRabbitListenerContainerFactory();
            made.setConnectionFactory(factory);
            return made;
        }

        @Bean
        Declarables more() {
            Queue queue = QueueBuilder.nonDurable(word + "-answers").autoDelete().build();
            FanoutExchange exchange = new FanoutExchange(word + "-answers", false, true);
            return new Declarables(queue, exchange, BindingBuilder.bind(queue).to(exchange));
        }

        @RabbitListener(bindings = @QueueBinding(
                value = @org.springframework.amqp.rabbit.annotation.Queue(name = "${annotated.word}-asked", durable = "false", autoDelete = "true"),
                exchange = @Exchange(name = "${annotated.word}", type = "topic", durable = "false", autoDelete = "true"),
                key = {"ask.*", "tell.#"}))
        @SendTo("${annotated.word}-answers/any")
        public String asked(String body, @Header("amqp_receivedRoutingKey") String key) {
            return key + " " + body;
        }

        @RabbitListener(queues = "${annotated.word}-answers")
        public void answered(String body) {
            heard.add(body);
        }
    }

    static void check(ConnectionFactory factory, RabbitTemplate template, String word, long deadlineS) throws Exception {
        System.setProperty("annotated.word", word);
        try (AnnotationConfigApplicationContext context = new AnnotationConfigApplicationContext()) {
            context.registerBean(ConnectionFactory.class, () -> factory, definition -> definition.setDestroyMethodName(""));
            context.register(Application.class);
            context.refresh();
            template.convertAndSend(word, "ask.one", "1");
            template.convertAndSend(word, "tell.them.all", "2");
            template.convertAndSend(word, "ask.two.much", "nobody hears");
            template.convertAndSend(word, "ask.three", "3");
            BlockingQueue<String> heard = context.getBean(Application.class).heard;
            for (String want : new String[] {"ask.one 1", "tell.them.all 2", "ask.three 3"}) {
                String got = heard.poll(deadlineS, TimeUnit.SECONDS);
                if (!want.equals(got)) {
                    throw new AssertionError("got " + got + ", expected " + want);
                }
            }
        }
    }
}
