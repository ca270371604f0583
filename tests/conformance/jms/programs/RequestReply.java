import javax.jms.Connection;
import javax.jms.Destination;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TemporaryQueue;
import javax.jms.TemporaryTopic;
import javax.jms.TextMessage;
import org.apache.qpid.jms.JmsConnectionFactory;

/** A request with its answer over a temporary queue, and a temporary topic. */
public final class RequestReply {
    public static void main(String[] arguments) throws Exception {
        JmsConnectionFactory factory = new JmsConnectionFactory(arguments[0]);
        String address;
        try (Connection client = factory.createConnection();
                Connection server = factory.createConnection()) {
            client.start();
            server.start();
            Session answering = server.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue requests = answering.createQueue(arguments[1]);
            answering.createConsumer(requests).setMessageListener(message -> {
                try {
                    String text = ((TextMessage) message).getText();
                    Message answer = answering.createTextMessage("re: " + text);
                    answer.setJMSCorrelationID(message.getJMSMessageID());
                    Destination to = message.getJMSReplyTo();
                    answering.createProducer(null).send(to, answer);
                } catch (Exception failure) {
                    failure.printStackTrace();
                }
            });
            Session session = client.createSession(false, Session.AUTO_ACKNOWLEDGE);
            TemporaryQueue answers = session.createTemporaryQueue();
            address = answers.getQueueName();
            MessageConsumer consumer = session.createConsumer(answers);
            TextMessage request = session.createTextMessage("how are you?");
            request.setJMSReplyTo(answers);
            session.createProducer(requests).send(request);
            TextMessage answer = (TextMessage) consumer.receive(20000);
            boolean fits = request.getJMSMessageID().equals(answer.getJMSCorrelationID());
            System.out.println(answer.getText() + " " + fits);
            consumer.close();
            answers.delete();

            TemporaryTopic topic = session.createTemporaryTopic();
            MessageConsumer listener = session.createConsumer(topic);
            session.createProducer(topic).send(session.createTextMessage("hello"));
            System.out.println(((TextMessage) listener.receive(20000)).getText());
        }
        try (Connection later = factory.createConnection()) {
            Session session = later.createSession(false, Session.AUTO_ACKNOWLEDGE);
            session.createProducer(session.createQueue(address));
            System.out.println("still there");
        } catch (javax.jms.InvalidDestinationException gone) {
            System.out.println("gone");
        }
    }
}
