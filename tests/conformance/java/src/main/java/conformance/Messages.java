package conformance;

import static conformance.Bus.bodies;

import com.azure.core.util.BinaryData;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import com.azure.messaging.servicebus.models.SubQueue;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;

/** Messages of a queue: sent, received and settled. */
final class Messages {
    /** A lock that is renewed within the millisecond in which it was taken lasts no longer than before. */
    static final int RENEWALS_MAX = 100;

    interface Work {
        Object run(Bus bus, Input input) throws Exception;
    }

    interface Settling {
        Object run(Bus bus, Bus.Receiver receiver, List<ServiceBusReceivedMessage> messages) throws Exception;
    }

    static Map<String, Main.Scenario> scenarios(Bus.Opening opening) {
        Map<String, Work> works = new LinkedHashMap<>();
        works.put("send", Messages::send);
        works.put("batch", Messages::batch);
        works.put("large", Messages::large);
        works.put("complete", Messages::complete);
        works.put("receiveAndDelete", Messages::receiveAndDelete);
        works.put("abandon", Messages::abandon);
        works.put("deadLetter", Messages::deadLetter);
        works.put("deferral", Messages::deferral);
        works.put("renewLock", Messages::renewLock);
        works.put("lockLost", Messages::lockLost);
        works.put("peek", Messages::peek);
        works.put("schedule", Messages::schedule);
        Sessions.addTo(works);
        Topics.addTo(works);
        Transactions.addTo(works);
        Map<String, Main.Scenario> scenarios = new LinkedHashMap<>();
        works.forEach((name, work) -> scenarios.put(name, input -> {
            try (Bus bus = opening.open(input)) {
                return work.run(bus, input);
            }
        }));
        return scenarios;
    }

    private static Object send(Bus bus, Input input) {
        ServiceBusMessage message = text("first").setMessageId("the-id").setContentType("text/plain")
            .setCorrelationId("the-correlation").setSubject("the-subject").setTo("the-destination")
            .setReplyTo("the-reply").setTimeToLive(Duration.ofHours(1));
        message.getApplicationProperties()
            .putAll(Map.of("text", "grüße", "number", -7L, "fraction", 1.5, "yes", true));
        bus.sender(input.queue()).send(message);
        ServiceBusReceivedMessage got = bus.take(input.queue(), 1).get(0);
        Map<String, Object> shown = new LinkedHashMap<>();
        shown.put("body", got.getBody().toString());
        shown.put("messageId", got.getMessageId());
        shown.put("contentType", got.getContentType());
        shown.put("correlationId", got.getCorrelationId());
        shown.put("subject", got.getSubject());
        shown.put("to", got.getTo());
        shown.put("replyTo", got.getReplyTo());
        shown.put("timeToLiveSeconds", got.getTimeToLive().toSeconds());
        shown.put("properties", got.getApplicationProperties());
        return shown;
    }

    private static Object batch(Bus bus, Input input) {
        bus.sender(input.queue()).sendBatch(
            IntStream.range(0, input.count()).mapToObj(number -> text(String.valueOf(number))).toList());
        return bodies(bus.take(input.queue(), input.count()));
    }

    private static Object large(Bus bus, Input input) {
        byte[] body = new byte[input.size()];
        for (int index = 0; index < body.length; index++) {
            body[index] = (byte) index;
        }
        bus.sender(input.queue()).send(new ServiceBusMessage(BinaryData.fromBytes(body)));
        byte[] got = bus.take(input.queue(), 1).get(0).getBody().toBytes();
        return Map.of("length", got.length, "same", Arrays.equals(body, got));
    }

    private static Object complete(Bus bus, Input input) throws Exception {
        return locked(bus, input, (same, receiver, messages) -> {
            messages.forEach(receiver::complete);
            return Map.of("bodies", bodies(messages), "left", bus.left(input.queue()).size());
        }, "one", "two");
    }

    private static Object receiveAndDelete(Bus bus, Input input) {
        Bus.Sender sender = bus.sender(input.queue());
        sender.send(text("one"));
        sender.send(text("two"));
        List<String> taken = bodies(bus.take(input.queue(), 2));
        return Map.of("bodies", taken, "left", bus.left(input.queue()).size());
    }

    private static Object abandon(Bus bus, Input input) throws Exception {
        return locked(bus, input, (same, receiver, messages) -> {
            ServiceBusReceivedMessage first = messages.get(0);
            receiver.abandon(first, Map.of("tries", 1));
            ServiceBusReceivedMessage again = receiver.receive(1).get(0);
            receiver.complete(again);
            return Map.of(
                "deliveryCounts", List.of(first.getDeliveryCount(), again.getDeliveryCount()),
                "same", first.getSequenceNumber() == again.getSequenceNumber(),
                "properties", again.getApplicationProperties());
        }, "one");
    }

    private static Object deadLetter(Bus bus, Input input) throws Exception {
        return locked(bus, input, (same, receiver, messages) -> {
            receiver.deadLetter(messages.get(0), new DeadLetterOptions().setDeadLetterReason("Unreadable")
                .setDeadLetterErrorDescription("not JSON").setPropertiesToModify(Map.of("tenant", "a")));
            ServiceBusReceivedMessage dead = bus.take(input.queue(), 1, SubQueue.DEAD_LETTER_QUEUE).get(0);
            return Map.of("body", dead.getBody().toString(), "reason", dead.getDeadLetterReason(),
                "description", dead.getDeadLetterErrorDescription(),
                "tenant", dead.getApplicationProperties().get("tenant"));
        }, "bad");
    }

    private static Object deferral(Bus bus, Input input) throws Exception {
        return locked(bus, input, (same, receiver, messages) -> {
            receiver.defer(messages.get(0));
            ServiceBusReceivedMessage deferred = receiver.receiveDeferred(messages.get(0).getSequenceNumber());
            receiver.complete(deferred);
            return Map.of("bodies", bodies(List.of(deferred)), "state", deferred.getState().getValue(),
                "left", bus.left(input.queue()).size());
        }, "later");
    }

    private static Object renewLock(Bus bus, Input input) throws Exception {
        return locked(bus, input, (same, receiver, messages) -> {
            OffsetDateTime before = messages.get(0).getLockedUntil();
            OffsetDateTime after = before;
            for (int tries = 0; tries < RENEWALS_MAX && !after.isAfter(before); tries++) {
                after = receiver.renew(messages.get(0));
            }
            receiver.complete(messages.get(0));
            return Map.of("later", after.isAfter(before));
        }, "one");
    }

    /** Waits for the loss of a lock by receiving the message again. */
    private static Object lockLost(Bus bus, Input input) throws Exception {
        return locked(bus, input, (same, receiver, messages) -> {
            ServiceBusReceivedMessage held = bus.receiver(input.queue()).receive(1).get(0);
            if (held.getDeliveryCount() != 1) {
                throw new IllegalStateException("the message did not come back");
            }
            receiver.complete(messages.get(0));
            return "completed";
        }, "one");
    }

    private static Object peek(Bus bus, Input input) {
        Bus.Sender sender = bus.sender(input.queue());
        List.of("one", "two", "three").forEach(body -> sender.send(text(body)));
        Bus.Receiver receiver = bus.receiver(input.queue());
        List<ServiceBusReceivedMessage> first = receiver.peek(2);
        return List.of(bodies(first), bodies(receiver.peek(10, first.get(1).getSequenceNumber())));
    }

    private static Object schedule(Bus bus, Input input) {
        Bus.Sender sender = bus.sender(input.queue());
        List<Long> numbers =
            sender.schedule(List.of(text("never"), text("much later")), OffsetDateTime.now().plusHours(1));
        sender.cancel(numbers.get(0));
        List<ServiceBusReceivedMessage> waiting = bus.left(input.queue());
        sender.schedule(List.of(text("soon")), OffsetDateTime.now().plusSeconds(1));
        return Map.of("waiting", bodies(waiting), "state", waiting.get(0).getState().getValue(),
            "numbered", waiting.get(0).getSequenceNumber() == numbers.get(1),
            "due", bodies(bus.take(input.queue(), 1)));
    }

    /** Sends texts and receives as many messages under their locks. */
    private static Object locked(Bus bus, Input input, Settling settling, String... texts) throws Exception {
        Bus.Sender sender = bus.sender(input.queue());
        for (String body : texts) {
            sender.send(text(body));
        }
        Bus.Receiver receiver = bus.receiver(input.queue());
        return settling.run(bus, receiver, receiver.receive(texts.length));
    }

    static ServiceBusMessage text(String body) {
        return new ServiceBusMessage(body);
    }

    private Messages() {
    }
}
