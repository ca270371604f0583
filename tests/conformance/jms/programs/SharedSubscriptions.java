import java.util.TreeSet;
import javax.jms.JMSConsumer;
import javax.jms.JMSContext;
import javax.jms.Topic;
import org.apache.qpid.jms.JmsConnectionFactory;

/** JMS 2.0: several consumers share the work of one subscription, with and without durability. */
public final class SharedSubscriptions {
    public static void main(String[] arguments) throws Exception {
        JmsConnectionFactory factory = new JmsConnectionFactory(arguments[0]);
        try (JMSContext one = factory.createContext(); JMSContext two = factory.createContext()) {
            Topic topic = one.createTopic(arguments[1]);
            JMSConsumer first = one.createSharedConsumer(topic, "volatile");
            JMSConsumer second = two.createSharedConsumer(topic, "volatile");
            JMSConsumer third = one.createSharedDurableConsumer(topic, "kept");
            JMSConsumer fourth = one.createSharedDurableConsumer(topic, "kept");
            for (int number = 0; number < 10; number++) {
                one.createProducer().send(topic, "m" + number);
            }
            System.out.println("volatile: " + drain(first, second));
            System.out.println("durable: " + drain(third, fourth));
            third.close();
            fourth.close();
            one.createProducer().send(topic, "later");
            JMSConsumer again = two.createSharedDurableConsumer(topic, "kept");
            System.out.println("kept: " + again.receiveBody(String.class, 20000));
            again.close();
            two.unsubscribe("kept");
        }
    }

    private static String drain(JMSConsumer first, JMSConsumer second) {
        TreeSet<String> found = new TreeSet<>();
        while (found.size() < 10) {
            for (JMSConsumer consumer : new JMSConsumer[] {first, second}) {
                String text = consumer.receiveBody(String.class, 50);
                if (text != null) {
                    found.add(text);
                }
            }
        }
        return found.size() + " once each, left: " + first.receiveBodyNoWait(String.class);
    }
}
