import javax.jms.Connection;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.qpid.jms.JmsConnectionFactory;

/** A transacted session: what is received and sent happens with the commit, or not at all. */
public final class TransactionProgram {
    public static void main(String[] arguments) throws Exception {
        try (Connection connection = new JmsConnectionFactory(arguments[0]).createConnection()) {
            connection.start();
            Session plain = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
            Queue orders = session.createQueue(arguments[1]);
            Queue invoices = session.createQueue(arguments[2]);
            MessageProducer toOrders = session.createProducer(orders);
            toOrders.send(session.createTextMessage("one"));
            session.rollback();
            toOrders.send(session.createTextMessage("two"));
            toOrders.send(session.createTextMessage("three"));
            session.commit();

            MessageConsumer consumer = session.createConsumer(orders);
            MessageProducer toInvoices = session.createProducer(invoices);
            TextMessage order = (TextMessage) consumer.receive(20000);
            System.out.println("received " + order.getText());
            toInvoices.send(session.createTextMessage("invoice of " + order.getText()));
            session.rollback();
            order = (TextMessage) consumer.receive(20000);
            System.out.println("again " + order.getText() + " " + order.getJMSRedelivered());
            toInvoices.send(session.createTextMessage("invoice of " + order.getText()));
            session.commit();

            MessageConsumer invoiced = plain.createConsumer(invoices);
            System.out.println(((TextMessage) invoiced.receive(20000)).getText());
            System.out.println("left: " + invoiced.receiveNoWait());
            System.out.println(((TextMessage) consumer.receive(20000)).getText());
            session.commit();
            System.out.println("left: " + consumer.receiveNoWait());
        }
    }
}
