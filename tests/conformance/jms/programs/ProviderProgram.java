import java.util.HashMap;
import java.util.Map;
import javax.jms.JMSConsumer;
import javax.jms.JMSContext;
import javax.jms.JMSRuntimeException;
import javax.jms.Queue;
import javax.jms.Topic;
import org.apache.qpid.jms.JmsConnectionExtensions;
import org.apache.qpid.jms.JmsConnectionFactory;

/** A connection that says of itself what the vendor's JMS library does: it makes what is missing. */
public final class ProviderProgram {
    public static void main(String[] arguments) throws Exception {
        JmsConnectionFactory factory = new JmsConnectionFactory(arguments[0]);
        String name = arguments[1];
        try (JMSContext plain = factory.createContext()) {
            plain.createProducer().send(plain.createQueue(name + "-queue"), "in vain");
        } catch (JMSRuntimeException missing) {
            System.out.println("missing");
        }
        factory.setExtension(JmsConnectionExtensions.AMQP_OPEN_PROPERTIES.toString(),
            (connection, uri) -> {
                Map<String, Object> properties = new HashMap<>();
                properties.put("com.microsoft:is-client-provider", true);
                properties.put("com.microsoft:queue-auto-delete-on-idle-duration-in-seconds", 600L);
                return properties;
            });
        try (JMSContext context = factory.createContext()) {
            Queue queue = context.createQueue(name + "-queue");
            context.createProducer().send(queue, "hello");
            System.out.println(context.createConsumer(queue).receiveBody(String.class, 20000));
            Topic topic = context.createTopic(name + "-topic");
            JMSConsumer consumer = context.createConsumer(topic);
            context.createProducer().send(topic, "news");
            System.out.println(consumer.receiveBody(String.class, 20000));
        }
    }
}
