package conformance;

import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusMessageBatch;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.ServiceBusSessionReceiverClient;
import com.azure.messaging.servicebus.ServiceBusTransactionContext;
import com.azure.messaging.servicebus.models.AbandonOptions;
import com.azure.messaging.servicebus.models.CompleteOptions;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import com.azure.messaging.servicebus.models.ServiceBusReceiveMode;
import com.azure.messaging.servicebus.models.SubQueue;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** The synchronous client. */
final class SyncBus extends Bus {
    SyncBus(Input input) {
        super(input);
    }

    @Override
    Sender sender(String queue) {
        return new SyncSender(closing(builder.sender().queueName(queue).buildClient()));
    }

    @Override
    Sender topicSender(String topic) {
        return new SyncSender(closing(builder.sender().topicName(topic).buildClient()));
    }

    @Override
    Receiver receiver(String queue, ServiceBusReceiveMode mode, SubQueue part) {
        return new SyncReceiver(closing(builder.receiver().queueName(queue).receiveMode(mode).subQueue(part)
            .maxAutoLockRenewDuration(java.time.Duration.ZERO).disableAutoComplete().buildClient()));
    }

    @Override
    Receiver subscription(String topic, String name) {
        return new SyncReceiver(closing(builder.receiver().topicName(topic).subscriptionName(name)
            .receiveMode(ServiceBusReceiveMode.RECEIVE_AND_DELETE).buildClient()));
    }

    @Override
    Receiver session(String queue, String idOrNull) {
        ServiceBusSessionReceiverClient sessions =
            closing(builder.sessionReceiver().queueName(queue).disableAutoComplete().buildClient());
        return new SyncReceiver(
            closing(idOrNull == null ? sessions.acceptNextSession() : sessions.acceptSession(idOrNull)));
    }

    private record SyncSender(ServiceBusSenderClient client) implements Sender {
        @Override
        public void send(ServiceBusMessage message) {
            client.sendMessage(message);
        }

        @Override
        public void send(ServiceBusMessage message, ServiceBusTransactionContext transaction) {
            client.sendMessage(message, transaction);
        }

        @Override
        public void sendBatch(List<ServiceBusMessage> messages) {
            ServiceBusMessageBatch batch = client.createMessageBatch();
            for (ServiceBusMessage message : messages) {
                if (!batch.tryAddMessage(message)) {
                    throw new IllegalStateException("the batch is full");
                }
            }
            client.sendMessages(batch);
        }

        @Override
        public List<Long> schedule(List<ServiceBusMessage> messages, OffsetDateTime when) {
            List<Long> numbers = new ArrayList<>();
            client.scheduleMessages(messages, when).forEach(numbers::add);
            return numbers;
        }

        @Override
        public void cancel(long number) {
            client.cancelScheduledMessage(number);
        }

        @Override
        public ServiceBusTransactionContext begin() {
            return client.createTransaction();
        }

        @Override
        public void commit(ServiceBusTransactionContext transaction) {
            client.commitTransaction(transaction);
        }

        @Override
        public void rollBack(ServiceBusTransactionContext transaction) {
            client.rollbackTransaction(transaction);
        }
    }

    private record SyncReceiver(ServiceBusReceiverClient client) implements Receiver {
        @Override
        public List<ServiceBusReceivedMessage> receive(int count) {
            List<ServiceBusReceivedMessage> messages = new ArrayList<>();
            while (messages.size() < count) {
                int before = messages.size();
                client.receiveMessages(count - before, PATIENCE).forEach(messages::add);
                if (messages.size() == before) {
                    throw new IllegalStateException("only " + before + " of " + count + " messages came");
                }
            }
            return messages;
        }

        @Override
        public List<ServiceBusReceivedMessage> peek(int count) {
            return client.peekMessages(count).stream().toList();
        }

        @Override
        public List<ServiceBusReceivedMessage> peek(int count, long from) {
            return client.peekMessages(count, from).stream().toList();
        }

        @Override
        public ServiceBusReceivedMessage receiveDeferred(long number) {
            return client.receiveDeferredMessage(number);
        }

        @Override
        public void complete(ServiceBusReceivedMessage message) {
            client.complete(message);
        }

        @Override
        public void complete(ServiceBusReceivedMessage message, CompleteOptions options) {
            client.complete(message, options);
        }

        @Override
        public void abandon(ServiceBusReceivedMessage message, Map<String, Object> changed) {
            client.abandon(message, new AbandonOptions().setPropertiesToModify(changed));
        }

        @Override
        public void deadLetter(ServiceBusReceivedMessage message, DeadLetterOptions options) {
            client.deadLetter(message, options);
        }

        @Override
        public void defer(ServiceBusReceivedMessage message) {
            client.defer(message);
        }

        @Override
        public OffsetDateTime renew(ServiceBusReceivedMessage message) {
            return client.renewMessageLock(message);
        }

        @Override
        public String sessionId() {
            return client.getSessionId();
        }

        @Override
        public byte[] state() {
            return client.getSessionState();
        }

        @Override
        public void setState(byte[] state) {
            client.setSessionState(state);
        }

        @Override
        public OffsetDateTime renewSession() {
            return client.renewSessionLock();
        }

        @Override
        public ServiceBusTransactionContext begin() {
            return client.createTransaction();
        }

        @Override
        public void commit(ServiceBusTransactionContext transaction) {
            client.commitTransaction(transaction);
        }

        @Override
        public void rollBack(ServiceBusTransactionContext transaction) {
            client.rollbackTransaction(transaction);
        }

        @Override
        public void close() {
            client.close();
        }
    }
}
