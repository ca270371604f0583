package conformance;

import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.core.amqp.AmqpTransportType;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusTransactionContext;
import com.azure.messaging.servicebus.models.CompleteOptions;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import com.azure.messaging.servicebus.models.ServiceBusReceiveMode;
import com.azure.messaging.servicebus.models.SubQueue;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Map;

/**
 * What the synchronous and the asynchronous client have in common, so that a scenario is written once and
 * run with both. It adds nothing to either: every method is one call of the client.
 */
abstract class Bus implements AutoCloseable {
    /** Far above what any scenario takes, on a machine that is busy with other tests too. */
    static final Duration PATIENCE = Duration.ofSeconds(60);

    interface Opening {
        Bus open(Input input);
    }

    interface Sender {
        void send(ServiceBusMessage message);

        void send(ServiceBusMessage message, ServiceBusTransactionContext transaction);

        void sendBatch(List<ServiceBusMessage> messages);

        List<Long> schedule(List<ServiceBusMessage> messages, OffsetDateTime when);

        void cancel(long number);

        ServiceBusTransactionContext begin();

        void commit(ServiceBusTransactionContext transaction);

        void rollBack(ServiceBusTransactionContext transaction);
    }

    interface Receiver {
        /** Exactly so many. */
        List<ServiceBusReceivedMessage> receive(int count);

        List<ServiceBusReceivedMessage> peek(int count);

        List<ServiceBusReceivedMessage> peek(int count, long from);

        ServiceBusReceivedMessage receiveDeferred(long number);

        void complete(ServiceBusReceivedMessage message);

        void complete(ServiceBusReceivedMessage message, CompleteOptions options);

        void abandon(ServiceBusReceivedMessage message, Map<String, Object> changed);

        void deadLetter(ServiceBusReceivedMessage message, DeadLetterOptions options);

        void defer(ServiceBusReceivedMessage message);

        OffsetDateTime renew(ServiceBusReceivedMessage message);

        String sessionId();

        byte[] state();

        void setState(byte[] state);

        OffsetDateTime renewSession();

        ServiceBusTransactionContext begin();

        void commit(ServiceBusTransactionContext transaction);

        void rollBack(ServiceBusTransactionContext transaction);

        void close();
    }

    final ServiceBusClientBuilder builder;
    private final Deque<AutoCloseable> opened = new ArrayDeque<>();

    Bus(Input input) {
        builder = builder(input);
    }

    static ServiceBusClientBuilder builder(Input input) {
        Duration patience = input.seconds() == 0 ? PATIENCE : Duration.ofSeconds(input.seconds());
        ServiceBusClientBuilder builder = new ServiceBusClientBuilder()
            .connectionString(input.connection())
            .retryOptions(new AmqpRetryOptions().setMaxRetries(0).setTryTimeout(patience));
        if (input.crossEntity()) {
            builder.enableCrossEntityTransactions();
        }
        if (input.webSocket()) {
            builder.transportType(AmqpTransportType.AMQP_WEB_SOCKETS);
        }
        return builder;
    }

    abstract Sender sender(String queue);

    abstract Sender topicSender(String topic);

    abstract Receiver receiver(String queue, ServiceBusReceiveMode mode, SubQueue part);

    abstract Receiver subscription(String topic, String name);

    /** The session of that name, or the next available one. */
    abstract Receiver session(String queue, String idOrNull);

    final Receiver receiver(String queue) {
        return receiver(queue, ServiceBusReceiveMode.PEEK_LOCK, SubQueue.NONE);
    }

    final List<ServiceBusReceivedMessage> take(String queue, int count, SubQueue part) {
        return receiver(queue, ServiceBusReceiveMode.RECEIVE_AND_DELETE, part).receive(count);
    }

    final List<ServiceBusReceivedMessage> take(String queue, int count) {
        return take(queue, count, SubQueue.NONE);
    }

    final List<ServiceBusReceivedMessage> left(String queue) {
        return receiver(queue).peek(100);
    }

    final <T extends AutoCloseable> T closing(T client) {
        opened.push(client);
        return client;
    }

    @Override
    public final void close() throws Exception {
        while (!opened.isEmpty()) {
            opened.pop().close();
        }
    }

    static List<String> bodies(List<ServiceBusReceivedMessage> messages) {
        return messages.stream().map(message -> message.getBody().toString()).toList();
    }
}
