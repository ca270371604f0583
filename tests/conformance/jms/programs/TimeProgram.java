import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.qpid.jms.JmsConnectionFactory;

/** Delivery delay and time to live. */
public final class TimeProgram {
    public static void main(String[] arguments) throws Exception {
        try (Connection connection = new JmsConnectionFactory(arguments[0]).createConnection()) {
            connection.start();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue queue = session.createQueue(arguments[1]);
            MessageProducer producer = session.createProducer(queue);
            TextMessage brief = session.createTextMessage("brief");
            producer.send(brief, DeliveryMode.PERSISTENT, 4, 1);
            MessageConsumer consumer = session.createConsumer(queue);
            producer.setDeliveryDelay(1500);
            TextMessage delayed = session.createTextMessage("delayed");
            producer.send(delayed);
            producer.setDeliveryDelay(0);
            producer.send(session.createTextMessage("at once"));
            System.out.println(((TextMessage) consumer.receive(20000)).getText());
            Message received = consumer.receive(20000);
            System.out.println(((TextMessage) received).getText());
            boolean isDue = System.currentTimeMillis() >= delayed.getJMSDeliveryTime();
            System.out.println("due: " + isDue);
            System.out.println("left: " + consumer.receiveNoWait());
        }
    }
}
