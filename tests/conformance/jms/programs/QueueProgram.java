import javax.jms.Connection;
import javax.jms.ConnectionFactory;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.qpid.jms.JmsConnectionFactory;

/** The first program of every tutorial: send to a queue, receive, acknowledge. */
public final class QueueProgram {
    public static void main(String[] arguments) throws Exception {
        ConnectionFactory factory = new JmsConnectionFactory(arguments[0]);
        try (Connection connection = factory.createConnection()) {
            connection.start();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue queue = session.createQueue(arguments[1]);

            MessageProducer producer = session.createProducer(queue);
            for (int number = 1; number <= 3; number++) {
                TextMessage message = session.createTextMessage("message " + number);
                message.setIntProperty("number", number);
                producer.send(message);
            }

            MessageConsumer consumer = session.createConsumer(queue);
            for (int number = 1; number <= 3; number++) {
                TextMessage message = (TextMessage) consumer.receive(20000);
                System.out.println(message.getText() + " " + message.getIntProperty("number"));
            }
            consumer.close();

            MessageConsumer second = session.createConsumer(queue);
            System.out.println("left: " + second.receiveNoWait());
        }
    }
}
