import javax.jms.Connection;
import javax.jms.MessageConsumer;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.Topic;
import org.apache.qpid.jms.JmsConnectionFactory;

/** A durable subscription keeps what is published while its subscriber is away. */
public final class DurableSubscription {
    public static void main(String[] arguments) throws Exception {
        String name = "news-" + arguments[1];
        subscribe(arguments, name, 0);
        publish(arguments, "while away 1", "while away 2");
        subscribe(arguments, name, 2);
        try (Connection connection = connect(arguments[0])) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            session.unsubscribe(name);
            publish(arguments, "for nobody");
            try {
                session.unsubscribe(name);
            } catch (javax.jms.InvalidDestinationException gone) {
                System.out.println("no such subscription");
            }
        }
        subscribe(arguments, name, 0);
    }

    private static Connection connect(String url) throws Exception {
        JmsConnectionFactory factory = new JmsConnectionFactory(url);
        Connection connection = factory.createConnection();
        connection.setClientID("reader");
        connection.start();
        return connection;
    }

    private static void subscribe(String[] arguments, String name, int expected) throws Exception {
        try (Connection connection = connect(arguments[0])) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Topic topic = session.createTopic(arguments[1]);
            MessageConsumer subscriber = session.createDurableSubscriber(topic, name);
            for (int number = 0; number < expected; number++) {
                System.out.println(((TextMessage) subscriber.receive(20000)).getText());
            }
            System.out.println("left: " + subscriber.receiveNoWait());
            subscriber.close();
        }
    }

    private static void publish(String[] arguments, String... texts) throws Exception {
        try (Connection connection = new JmsConnectionFactory(arguments[0]).createConnection()) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Topic topic = session.createTopic(arguments[1]);
            for (String text : texts) {
                session.createProducer(topic).send(session.createTextMessage(text));
            }
        }
    }
}
