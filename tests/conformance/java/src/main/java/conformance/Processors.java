package conformance;

import static conformance.Bus.PATIENCE;
import static conformance.Messages.text;

import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusProcessorClient;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessageContext;
import com.azure.messaging.servicebus.models.AbandonOptions;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import com.azure.messaging.servicebus.models.ServiceBusReceiveMode;
import com.azure.messaging.servicebus.models.SubQueue;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.stream.IntStream;

/** The processor client, which calls a handler for each message; the synchronous client helps around it. */
final class Processors {
    static void addTo(Map<String, Main.Scenario> scenarios) {
        scenarios.put("complete", Processors::complete);
        scenarios.put("receiveAndDelete", Processors::receiveAndDelete);
        scenarios.put("abandon", Processors::abandon);
        scenarios.put("deadLetter", Processors::deadLetter);
        scenarios.put("deferral", Processors::deferral);
        scenarios.put("filters", Processors::filters);
        scenarios.put("nextSession", Processors::nextSession);
        scenarios.put("concurrent", Processors::concurrent);
        scenarios.put("failingHandler", Processors::failingHandler);
    }

    /** What the handler was called with, and a place to wait for it. */
    private static final class Seen {
        private final BlockingQueue<ServiceBusReceivedMessage> messages = new LinkedBlockingQueue<>();

        List<ServiceBusReceivedMessage> next(int count) throws InterruptedException {
            List<ServiceBusReceivedMessage> found = new ArrayList<>();
            while (found.size() < count) {
                ServiceBusReceivedMessage message = messages.poll(PATIENCE.toSeconds(), TimeUnit.SECONDS);
                if (message == null) {
                    throw new IllegalStateException("only " + found.size() + " of " + count + " messages came");
                }
                found.add(message);
            }
            return found;
        }

        Consumer<ServiceBusReceivedMessageContext> after(Consumer<ServiceBusReceivedMessageContext> handler) {
            return context -> {
                handler.accept(context);
                messages.add(context.getMessage());
            };
        }
    }

    private static ServiceBusProcessorClient processor(
        Input input, ServiceBusReceiveMode mode, Consumer<ServiceBusReceivedMessageContext> handler) {
        ServiceBusProcessorClient processor = Bus.builder(input).processor().queueName(input.queue())
            .receiveMode(mode).disableAutoComplete().maxConcurrentCalls(1)
            .processMessage(handler).processError(error -> error.getException().printStackTrace())
            .buildProcessorClient();
        processor.start();
        return processor;
    }

    private static void send(Input input, String... bodies) throws Exception {
        try (Bus bus = new SyncBus(input)) {
            Bus.Sender sender = bus.sender(input.queue());
            for (String body : bodies) {
                sender.send(text(body));
            }
        }
    }

    private static int left(Input input) throws Exception {
        try (Bus bus = new SyncBus(input)) {
            return bus.left(input.queue()).size();
        }
    }

    /** The processor completes a message after its handler, and tells nobody. */
    private static void awaitEmpty(Input input) throws Exception {
        long end = System.nanoTime() + PATIENCE.toNanos();
        try (Bus bus = new SyncBus(input)) {
            Bus.Receiver receiver = bus.receiver(input.queue());
            while (!receiver.peek(1, 0).isEmpty() && System.nanoTime() < end) {
                Thread.onSpinWait();
            }
        }
    }

    private static Object complete(Input input) throws Exception {
        send(input, "one", "two");
        Seen seen = new Seen();
        List<String> bodies;
        try (var ignored = processor(input, ServiceBusReceiveMode.PEEK_LOCK,
            seen.after(ServiceBusReceivedMessageContext::complete))) {
            bodies = Bus.bodies(seen.next(2));
        }
        return Map.of("bodies", bodies, "left", left(input));
    }

    private static Object receiveAndDelete(Input input) throws Exception {
        send(input, "one", "two");
        Seen seen = new Seen();
        List<String> bodies;
        try (var ignored = processor(input, ServiceBusReceiveMode.RECEIVE_AND_DELETE, seen.after(context -> { }))) {
            bodies = Bus.bodies(seen.next(2));
        }
        return Map.of("bodies", bodies, "left", left(input));
    }

    private static Object abandon(Input input) throws Exception {
        send(input, "one");
        Seen seen = new Seen();
        List<ServiceBusReceivedMessage> both;
        try (var ignored = processor(input, ServiceBusReceiveMode.PEEK_LOCK, seen.after(context -> {
            if (context.getMessage().getDeliveryCount() == 0) {
                context.abandon(new AbandonOptions().setPropertiesToModify(Map.of("tries", 1)));
            } else {
                context.complete();
            }
        }))) {
            both = seen.next(2);
        }
        return Map.of(
            "deliveryCounts", both.stream().map(ServiceBusReceivedMessage::getDeliveryCount).toList(),
            "same", both.get(0).getSequenceNumber() == both.get(1).getSequenceNumber(),
            "properties", both.get(1).getApplicationProperties());
    }

    private static Object deadLetter(Input input) throws Exception {
        send(input, "bad");
        Seen seen = new Seen();
        try (var ignored = processor(input, ServiceBusReceiveMode.PEEK_LOCK, seen.after(
            context -> context.deadLetter(new DeadLetterOptions().setDeadLetterReason("Unreadable")
                .setDeadLetterErrorDescription("not JSON").setPropertiesToModify(Map.of("tenant", "a")))))) {
            seen.next(1);
        }
        try (Bus bus = new SyncBus(input)) {
            ServiceBusReceivedMessage dead = bus.take(input.queue(), 1, SubQueue.DEAD_LETTER_QUEUE).get(0);
            return Map.of("body", dead.getBody().toString(), "reason", dead.getDeadLetterReason(),
                "description", dead.getDeadLetterErrorDescription(),
                "tenant", dead.getApplicationProperties().get("tenant"));
        }
    }

    /** A processor defers; another receiver fetches the message by its number. */
    private static Object deferral(Input input) throws Exception {
        send(input, "later");
        Seen seen = new Seen();
        long number;
        try (var ignored = processor(input, ServiceBusReceiveMode.PEEK_LOCK,
            seen.after(ServiceBusReceivedMessageContext::defer))) {
            number = seen.next(1).get(0).getSequenceNumber();
        }
        try (Bus bus = new SyncBus(input)) {
            Bus.Receiver receiver = bus.receiver(input.queue());
            ServiceBusReceivedMessage deferred = receiver.receiveDeferred(number);
            receiver.complete(deferred);
            return Map.of("bodies", Bus.bodies(List.of(deferred)), "state", deferred.getState().getValue(),
                "left", bus.left(input.queue()).size());
        }
    }

    private static Object filters(Input input) throws Exception {
        Seen seen = new Seen();
        try (Bus bus = new SyncBus(input);
             ServiceBusProcessorClient processor = Bus.builder(input).processor().topicName(input.topic())
                 .subscriptionName(input.subscription()).receiveMode(ServiceBusReceiveMode.RECEIVE_AND_DELETE)
                 .processMessage(seen.after(context -> { })).processError(error -> { }).buildProcessorClient()) {
            Bus.Sender sender = bus.topicSender(input.topic());
            for (String colour : List.of("red", "blue")) {
                ServiceBusMessage message = text(colour);
                message.getApplicationProperties().put("colour", colour);
                sender.send(message);
            }
            processor.start();
            List<String> bodies = Bus.bodies(seen.next(1));
            return Map.of("bodies", bodies, "left", bus.subscription(input.topic(), input.subscription()).peek(10).size());
        }
    }

    private static Object nextSession(Input input) throws Exception {
        Seen seen = new Seen();
        try (Bus bus = new SyncBus(input);
             ServiceBusProcessorClient processor = Bus.builder(input).sessionProcessor().queueName(input.queue())
                 .maxConcurrentSessions(2).processMessage(seen.after(context -> { })).processError(error -> { })
                 .buildProcessorClient()) {
            bus.sender(input.queue()).send(Sessions.message("a", "a1"));
            bus.sender(input.queue()).send(Sessions.message("b", "b1"));
            processor.start();
            Map<String, Object> found = new TreeMap<>();
            for (ServiceBusReceivedMessage message : seen.next(2)) {
                found.put(message.getSessionId(), List.of(message.getBody().toString()));
            }
            return found;
        }
    }

    /** Several calls at a time, each message completed by the processor itself. */
    private static Object concurrent(Input input) throws Exception {
        try (Bus bus = new SyncBus(input)) {
            bus.sender(input.queue()).sendBatch(
                IntStream.range(0, input.count()).mapToObj(number -> text(String.valueOf(number))).toList());
        }
        Seen seen = new Seen();
        List<String> bodies;
        try (ServiceBusProcessorClient processor = Bus.builder(input).processor().queueName(input.queue())
            .maxConcurrentCalls(5).prefetchCount(10).processMessage(seen.after(context -> { }))
            .processError(error -> { }).buildProcessorClient()) {
            processor.start();
            bodies = Bus.bodies(seen.next(input.count()));
            awaitEmpty(input);
        }
        return Map.of("bodies", bodies.stream().map(Integer::valueOf).sorted().toList(), "left", left(input));
    }

    /** What a handler throws abandons its message, which comes again. */
    private static Object failingHandler(Input input) throws Exception {
        send(input, "one");
        Seen seen = new Seen();
        try (ServiceBusProcessorClient processor = Bus.builder(input).processor().queueName(input.queue())
            .processMessage(seen.after(context -> {
                if (context.getMessage().getDeliveryCount() < 2) {
                    throw new IllegalStateException("not yet");
                }
            })).processError(error -> { }).buildProcessorClient()) {
            processor.start();
            long count = seen.next(1).get(0).getDeliveryCount();
            return count;
        }
    }

    private Processors() {
    }
}
