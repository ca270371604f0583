import java.util.Collections;
import java.util.Enumeration;
import javax.jms.Connection;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.QueueBrowser;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.qpid.jms.JmsConnectionFactory;

/** A browser shows what waits in a queue and takes nothing. */
public final class BrowserProgram {
    public static void main(String[] arguments) throws Exception {
        try (Connection connection = new JmsConnectionFactory(arguments[0]).createConnection()) {
            connection.start();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue queue = session.createQueue(arguments[1]);
            System.out.println("empty: " + count(session.createBrowser(queue)));
            MessageProducer producer = session.createProducer(queue);
            int total = Integer.parseInt(arguments[2]);
            for (int number = 0; number < total; number++) {
                TextMessage message = session.createTextMessage("m" + number);
                message.setIntProperty("number", number);
                producer.send(message);
            }
            System.out.println("all: " + count(session.createBrowser(queue)));
            System.out.println("even more: " + count(session.createBrowser(queue, "number >= 3")));
            MessageConsumer consumer = session.createConsumer(queue);
            int received = 0;
            while (consumer.receive(1000) != null) {
                received++;
                if (received == total) {
                    break;
                }
            }
            System.out.println("received: " + received);
            System.out.println("after: " + count(session.createBrowser(queue)));
        }
    }

    private static int count(QueueBrowser browser) throws Exception {
        int count = 0;
        Enumeration<?> messages = browser.getEnumeration();
        for (Object message : Collections.list(messages)) {
            count += ((TextMessage) message).getText().startsWith("m") ? 1 : 0;
        }
        browser.close();
        return count;
    }
}
