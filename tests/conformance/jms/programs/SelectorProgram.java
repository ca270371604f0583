import javax.jms.Connection;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.Topic;
import org.apache.qpid.jms.JmsConnectionFactory;

/** Selectors: a consumer gets only the messages that it asks for. */
public final class SelectorProgram {
    private static final String[] SELECTORS = {
        "color = 'red'",
        "color IN ('red', 'blue') AND size NOT BETWEEN 5 AND 15",
        "JMSType = 'urgent' OR size > 25L",
        "name LIKE 'it''s _%' AND weight * 2 >= 1.5",
        "missing IS NULL AND color <> 'green'",
        "flag = TRUE",
        "color > 5",
    };

    public static void main(String[] arguments) throws Exception {
        try (Connection connection = new JmsConnectionFactory(arguments[0]).createConnection()) {
            connection.start();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Topic topic = session.createTopic(arguments[1]);
            MessageConsumer[] consumers = new MessageConsumer[SELECTORS.length];
            for (int number = 0; number < SELECTORS.length; number++) {
                consumers[number] = session.createConsumer(topic, SELECTORS[number]);
            }
            MessageConsumer all = session.createConsumer(topic);
            MessageProducer producer = session.createProducer(topic);
            String[] colors = {"red", "green", "blue"};
            for (int number = 0; number < colors.length; number++) {
                TextMessage message = session.createTextMessage(colors[number]);
                message.setStringProperty("color", colors[number]);
                message.setIntProperty("size", 10 * (number + 1));
                message.setDoubleProperty("weight", 0.5 * number);
                message.setStringProperty("name", "it's " + colors[number]);
                message.setBooleanProperty("flag", number == 1);
                message.setJMSType(number == 0 ? "urgent" : "slow");
                producer.send(message);
            }
            for (int number = 0; number < colors.length; number++) {
                all.receive(20000);
            }
            for (int number = 0; number < SELECTORS.length; number++) {
                StringBuilder found = new StringBuilder();
                Message message = consumers[number].receiveNoWait();
                while (message != null) {
                    found.append(' ').append(((TextMessage) message).getText());
                    message = consumers[number].receiveNoWait();
                }
                System.out.println(SELECTORS[number] + " ->" + found);
            }
            try {
                session.createConsumer(topic, "color = ");
            } catch (javax.jms.JMSException refused) {
                System.out.println("refused");
            }
        }
    }
}
