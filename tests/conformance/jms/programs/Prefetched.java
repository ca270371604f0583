import javax.jms.Connection;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.qpid.jms.JmsConnectionFactory;

/** What a consumer has fetched ahead and never received goes to the next one. */
public final class Prefetched {
    public static void main(String[] arguments) throws Exception {
        JmsConnectionFactory factory = new JmsConnectionFactory(arguments[0]);
        try (Connection first = factory.createConnection();
                Connection second = factory.createConnection()) {
            first.start();
            second.start();
            Session session = first.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue queue = session.createQueue(arguments[1]);
            MessageProducer producer = session.createProducer(queue);
            for (int number = 0; number < 5; number++) {
                producer.send(session.createTextMessage("m" + number));
            }
            MessageConsumer consumer = session.createConsumer(queue);
            System.out.println(((TextMessage) consumer.receive(20000)).getText());
            if (arguments[2].equals("consumer")) {
                consumer.close();
            } else if (arguments[2].equals("session")) {
                session.close();
            } else {
                first.close();
            }
            Session other = second.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer next = other.createConsumer(queue);
            for (int number = 1; number < 5; number++) {
                TextMessage message = (TextMessage) next.receive(20000);
                System.out.println(message.getText() + " " + message.getJMSRedelivered());
            }
        }
    }
}
