import javax.jms.Connection;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.Topic;
import org.apache.qpid.jms.JmsConnectionFactory;

/** Publish and subscribe: every subscriber that is there gets its own copy. */
public final class TopicProgram {
    public static void main(String[] arguments) throws Exception {
        try (Connection connection = new JmsConnectionFactory(arguments[0]).createConnection()) {
            connection.start();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Topic topic = session.createTopic(arguments[1]);
            MessageProducer publisher = session.createProducer(topic);
            publisher.send(session.createTextMessage("nobody is there"));

            MessageConsumer first = session.createConsumer(topic);
            MessageConsumer second = session.createConsumer(topic);
            publisher.send(session.createTextMessage("news"));
            System.out.println("first: " + ((TextMessage) first.receive(20000)).getText());
            System.out.println("second: " + ((TextMessage) second.receive(20000)).getText());
            System.out.println("left: " + first.receiveNoWait());
        }
    }
}
