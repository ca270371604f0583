import javax.jms.Connection;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.qpid.jms.JmsConnectionFactory;

/** A consumer of a queue takes only what its selector selects; the rest stays for others. */
public final class QueueSelector {
    public static void main(String[] arguments) throws Exception {
        try (Connection connection = new JmsConnectionFactory(arguments[0]).createConnection()) {
            connection.start();
            Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            Queue queue = session.createQueue(arguments[1]);
            MessageProducer producer = session.createProducer(queue);
            for (int number = 0; number < 6; number++) {
                send(session, producer, number);
            }
            MessageConsumer even = session.createConsumer(queue, "parity = 'even'");
            for (int number = 0; number < 2; number++) {
                System.out.println("even " + text(even.receive(20000)));
            }
            session.recover();
            Message again = even.receive(20000);
            System.out.println("again " + text(again) + " " + again.getJMSRedelivered());
            even.receive(20000);
            Message last = even.receive(20000);
            System.out.println("even " + text(last));
            last.acknowledge();
            send(session, producer, 7);
            send(session, producer, 8);
            Message late = even.receive(20000);
            System.out.println("late " + text(late));
            late.acknowledge();
            even.close();
            MessageConsumer rest = session.createConsumer(queue);
            StringBuilder found = new StringBuilder("rest");
            for (int number = 0; number < 4; number++) {
                Message message = rest.receive(20000);
                found.append(' ').append(text(message));
                message.acknowledge();
            }
            System.out.println(found);
            System.out.println("left: " + rest.receiveNoWait());
        }
    }

    private static void send(Session session, MessageProducer producer, int number)
            throws Exception {
        TextMessage message = session.createTextMessage("m" + number);
        message.setStringProperty("parity", number % 2 == 0 ? "even" : "odd");
        producer.send(message);
    }

    private static String text(Message message) throws Exception {
        return ((TextMessage) message).getText();
    }
}
