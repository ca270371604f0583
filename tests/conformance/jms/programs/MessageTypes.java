import java.util.ArrayList;
import java.util.List;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.ObjectMessage;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.StreamMessage;
import javax.jms.TextMessage;
import org.apache.qpid.jms.JmsConnectionFactory;

/** Every type of message, with properties and headers. */
public final class MessageTypes {
    public static void main(String[] arguments) throws Exception {
        JmsConnectionFactory factory = new JmsConnectionFactory(arguments[0]);
        try (Connection connection = factory.createConnection()) {
            connection.start();
            Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            Queue queue = session.createQueue(arguments[1]);
            MessageProducer producer = session.createProducer(queue);
            BytesMessage bytes = session.createBytesMessage();
            bytes.writeBytes(new byte[] {1, 2, 3});
            MapMessage map = session.createMapMessage();
            map.setInt("one", 1);
            map.setString("two", "zwei");
            StreamMessage stream = session.createStreamMessage();
            stream.writeBoolean(true);
            stream.writeDouble(2.5);
            ObjectMessage object = session.createObjectMessage(new ArrayList<>(List.of("a", "b")));
            TextMessage text = session.createTextMessage("text");
            text.setJMSType("greeting");
            text.setJMSCorrelationID("c-1");
            text.setJMSReplyTo(queue);
            text.setStringProperty("JMSXGroupID", "group");
            text.setLongProperty("long", 1L << 40);
            text.setByteProperty("byte", (byte) 7);
            for (Message message : new Message[] {bytes, map, stream, object, text}) {
                producer.send(message);
            }
            MessageConsumer consumer = session.createConsumer(queue);
            BytesMessage gotBytes = (BytesMessage) consumer.receive(20000);
            System.out.println(gotBytes.getBodyLength());
            MapMessage gotMap = (MapMessage) consumer.receive(20000);
            System.out.println(gotMap.getInt("one") + " " + gotMap.getString("two"));
            StreamMessage gotStream = (StreamMessage) consumer.receive(20000);
            System.out.println(gotStream.readBoolean() + " " + gotStream.readDouble());
            ObjectMessage gotObject = (ObjectMessage) consumer.receive(20000);
            System.out.println(gotObject.getObject());
            TextMessage gotText = (TextMessage) consumer.receive(20000);
            System.out.println(gotText.getText() + " " + gotText.getJMSType() + " "
                + gotText.getJMSCorrelationID() + " " + gotText.getJMSReplyTo().equals(queue) + " "
                + gotText.getStringProperty("JMSXGroupID") + " " + gotText.getLongProperty("long")
                + " " + gotText.getByteProperty("byte"));
            session.recover();
            BytesMessage again = (BytesMessage) consumer.receive(20000);
            System.out.println(again.getJMSRedelivered() + " "
                + again.getIntProperty("JMSXDeliveryCount"));
            for (int number = 0; number < 4; number++) {
                again = null;
                consumer.receive(20000).acknowledge();
            }
            System.out.println("left: " + consumer.receiveNoWait());
        }
    }
}
