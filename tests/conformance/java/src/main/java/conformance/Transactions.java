package conformance;

import static conformance.Bus.bodies;
import static conformance.Messages.text;

import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusTransactionContext;
import com.azure.messaging.servicebus.models.CompleteOptions;
import java.util.List;
import java.util.Map;

/** Transactions on one queue, and over two of them. */
final class Transactions {
    static void addTo(Map<String, Messages.Work> works) {
        works.put("commit", Transactions::commit);
        works.put("rollBack", Transactions::rollBack);
        works.put("crossEntity", Transactions::crossEntity);
    }

    /** A message is completed and another one sent, both or neither. */
    private static Object commit(Bus bus, Input input) {
        Bus.Sender sender = bus.sender(input.queue());
        sender.send(text("order"));
        Bus.Receiver receiver = bus.receiver(input.queue());
        ServiceBusReceivedMessage order = receiver.receive(1).get(0);
        ServiceBusTransactionContext transaction = receiver.begin();
        receiver.complete(order, new CompleteOptions().setTransactionContext(transaction));
        sender.send(text("invoice"), transaction);
        List<String> before = bodies(bus.left(input.queue()));
        receiver.commit(transaction);
        return Map.of("before", before, "after", bodies(bus.left(input.queue())));
    }

    private static Object rollBack(Bus bus, Input input) {
        Bus.Sender sender = bus.sender(input.queue());
        ServiceBusTransactionContext transaction = sender.begin();
        sender.send(text("one"), transaction);
        sender.send(text("two"), transaction);
        sender.rollBack(transaction);
        return bodies(bus.left(input.queue()));
    }

    private static Object crossEntity(Bus bus, Input input) {
        try (AutoCloseable ignored = seeded(input)) {
            Bus.Receiver receiver = bus.receiver(input.queue());
            ServiceBusReceivedMessage order = receiver.receive(1).get(0);
            ServiceBusTransactionContext transaction = receiver.begin();
            receiver.complete(order, new CompleteOptions().setTransactionContext(transaction));
            bus.sender(input.other()).send(text("invoice"), transaction);
            receiver.commit(transaction);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
        try (Bus reading = new SyncBus(input.plain())) {
            return Map.of("source", bodies(reading.left(input.queue())), "taken", bodies(reading.take(input.other(), 1)));
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    /** A message in the source, sent by a client of its own: a cross-entity client starts with its source. */
    private static AutoCloseable seeded(Input input) {
        SyncBus bus = new SyncBus(input.plain());
        bus.sender(input.queue()).send(text("order"));
        return bus;
    }

    private Transactions() {
    }
}
