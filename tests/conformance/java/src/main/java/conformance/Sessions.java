package conformance;

import static conformance.Bus.bodies;

import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import com.azure.messaging.servicebus.models.SubQueue;
import java.nio.charset.StandardCharsets;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Sessions of a queue: named and next available, their state and their locks. */
final class Sessions {
    static void addTo(Map<String, Messages.Work> works) {
        works.put("namedSession", Sessions::named);
        works.put("nextSession", Sessions::next);
        works.put("sessionState", Sessions::state);
        works.put("renewSession", Sessions::renew);
        works.put("heldSession", Sessions::held);
        works.put("noSession", Sessions::none);
        works.put("sessionSettlement", Sessions::settlement);
    }

    private static Object named(Bus bus, Input input) {
        send(bus, input, message("a", "a1"), message("b", "b1"), message("a", "a2"));
        Bus.Receiver receiver = bus.session(input.queue(), "a");
        List<ServiceBusReceivedMessage> messages = receiver.receive(2);
        messages.forEach(receiver::complete);
        return Map.of("session", receiver.sessionId(), "bodies", bodies(messages), "left", receiver.peek(10).size());
    }

    private static Object next(Bus bus, Input input) {
        send(bus, input, message("a", "a1"), message("b", "b1"));
        Map<String, Object> found = new TreeMap<>();
        for (int count = 0; count < 2; count++) {
            Bus.Receiver receiver = bus.session(input.queue(), null);
            found.put(receiver.sessionId(), bodies(receiver.receive(1)));
        }
        return found;
    }

    private static Object state(Bus bus, Input input) {
        Bus.Receiver receiver = bus.session(input.queue(), "a");
        List<String> states = new ArrayList<>();
        states.add(shown(receiver.state()));
        receiver.setState("half way".getBytes(StandardCharsets.UTF_8));
        states.add(shown(receiver.state()));
        receiver.setState(null);
        states.add(shown(receiver.state()));
        return states;
    }

    private static String shown(byte[] state) {
        return state == null ? "" : new String(state, StandardCharsets.UTF_8);
    }

    private static Object renew(Bus bus, Input input) {
        Bus.Receiver receiver = bus.session(input.queue(), "a");
        OffsetDateTime before = receiver.renewSession();
        OffsetDateTime after = before;
        for (int tries = 0; tries < Messages.RENEWALS_MAX && !after.isAfter(before); tries++) {
            after = receiver.renewSession();
        }
        return Map.of("later", after.isAfter(before));
    }

    /** Asks for a session that another receiver holds. */
    private static Object held(Bus bus, Input input) throws Exception {
        try (Bus holder = new SyncBus(input)) {
            holder.session(input.queue(), "a");
            return bus.session(input.queue(), "a").sessionId();
        }
    }

    /** Asks for the next session where there is none. */
    private static Object none(Bus bus, Input input) {
        return bus.session(input.queue(), null).sessionId();
    }

    private static Object settlement(Bus bus, Input input) {
        send(bus, input, message("a", "again"), message("a", "dead"), message("a", "later"));
        Bus.Receiver receiver = bus.session(input.queue(), "a");
        List<ServiceBusReceivedMessage> messages = receiver.receive(3);
        receiver.abandon(messages.get(0), Map.of());
        receiver.deadLetter(messages.get(1), new DeadLetterOptions());
        receiver.defer(messages.get(2));
        List<ServiceBusReceivedMessage> found = new ArrayList<>(receiver.receive(1));
        found.addAll(bus.take(input.queue(), 1, SubQueue.DEAD_LETTER_QUEUE));
        found.add(receiver.receiveDeferred(messages.get(2).getSequenceNumber()));
        return bodies(found);
    }

    private static void send(Bus bus, Input input, ServiceBusMessage... messages) {
        Bus.Sender sender = bus.sender(input.queue());
        for (ServiceBusMessage message : messages) {
            sender.send(message);
        }
    }

    static ServiceBusMessage message(String session, String body) {
        return new ServiceBusMessage(body).setSessionId(session);
    }

    private Sessions() {
    }
}
