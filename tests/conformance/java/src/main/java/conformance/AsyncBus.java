package conformance;

import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverAsyncClient;
import com.azure.messaging.servicebus.ServiceBusSenderAsyncClient;
import com.azure.messaging.servicebus.ServiceBusSessionReceiverAsyncClient;
import com.azure.messaging.servicebus.ServiceBusTransactionContext;
import com.azure.messaging.servicebus.models.AbandonOptions;
import com.azure.messaging.servicebus.models.CompleteOptions;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import com.azure.messaging.servicebus.models.ServiceBusReceiveMode;
import com.azure.messaging.servicebus.models.SubQueue;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.reactivestreams.Subscription;
import reactor.core.publisher.BaseSubscriber;
import reactor.core.publisher.Mono;

/** The asynchronous client; a scenario waits for each of its answers. */
final class AsyncBus extends Bus {
    AsyncBus(Input input) {
        super(input);
    }

    @Override
    Sender sender(String queue) {
        return new AsyncSender(closing(builder.sender().queueName(queue).buildAsyncClient()));
    }

    @Override
    Sender topicSender(String topic) {
        return new AsyncSender(closing(builder.sender().topicName(topic).buildAsyncClient()));
    }

    @Override
    Receiver receiver(String queue, ServiceBusReceiveMode mode, SubQueue part) {
        return new AsyncReceiver(closing(builder.receiver().queueName(queue).receiveMode(mode).subQueue(part)
            .maxAutoLockRenewDuration(Duration.ZERO).disableAutoComplete().buildAsyncClient()));
    }

    @Override
    Receiver subscription(String topic, String name) {
        return new AsyncReceiver(closing(builder.receiver().topicName(topic).subscriptionName(name)
            .receiveMode(ServiceBusReceiveMode.RECEIVE_AND_DELETE).maxAutoLockRenewDuration(Duration.ZERO)
            .disableAutoComplete().buildAsyncClient()));
    }

    @Override
    Receiver session(String queue, String idOrNull) {
        ServiceBusSessionReceiverAsyncClient sessions =
            closing(builder.sessionReceiver().queueName(queue).disableAutoComplete().buildAsyncClient());
        return new AsyncReceiver(closing(
            wait(idOrNull == null ? sessions.acceptNextSession() : sessions.acceptSession(idOrNull))));
    }

    private static <T> T wait(Mono<T> answer) {
        return answer.block(PATIENCE);
    }

    private record AsyncSender(ServiceBusSenderAsyncClient client) implements Sender {
        @Override
        public void send(ServiceBusMessage message) {
            AsyncBus.wait(client.sendMessage(message));
        }

        @Override
        public void send(ServiceBusMessage message, ServiceBusTransactionContext transaction) {
            AsyncBus.wait(client.sendMessage(message, transaction));
        }

        @Override
        public void sendBatch(List<ServiceBusMessage> messages) {
            AsyncBus.wait(client.createMessageBatch().flatMap(batch -> {
                messages.forEach(batch::tryAddMessage);
                return client.sendMessages(batch);
            }));
        }

        @Override
        public List<Long> schedule(List<ServiceBusMessage> messages, OffsetDateTime when) {
            return AsyncBus.wait(client.scheduleMessages(messages, when).collectList());
        }

        @Override
        public void cancel(long number) {
            AsyncBus.wait(client.cancelScheduledMessage(number));
        }

        @Override
        public ServiceBusTransactionContext begin() {
            return AsyncBus.wait(client.createTransaction());
        }

        @Override
        public void commit(ServiceBusTransactionContext transaction) {
            AsyncBus.wait(client.commitTransaction(transaction));
        }

        @Override
        public void rollBack(ServiceBusTransactionContext transaction) {
            AsyncBus.wait(client.rollbackTransaction(transaction));
        }
    }

    /** One subscription for the life of the receiver, which asks for as many messages as are wanted. */
    private static final class AsyncReceiver implements Receiver {
        private final ServiceBusReceiverAsyncClient client;
        private final BlockingQueue<Object> arrived = new LinkedBlockingQueue<>();
        private Wanting wanting;

        AsyncReceiver(ServiceBusReceiverAsyncClient client) {
            this.client = client;
        }

        private final class Wanting extends BaseSubscriber<ServiceBusReceivedMessage> {
            @Override
            protected void hookOnSubscribe(Subscription subscription) {
            }

            @Override
            protected void hookOnNext(ServiceBusReceivedMessage message) {
                arrived.add(message);
            }

            @Override
            protected void hookOnError(Throwable error) {
                arrived.add(error);
            }
        }

        @Override
        public List<ServiceBusReceivedMessage> receive(int count) {
            if (wanting == null) {
                wanting = new Wanting();
                client.receiveMessages().subscribe(wanting);
            }
            wanting.request(count);
            List<ServiceBusReceivedMessage> messages = new ArrayList<>();
            while (messages.size() < count) {
                messages.add(next());
            }
            return messages;
        }

        private ServiceBusReceivedMessage next() {
            try {
                Object found = arrived.poll(PATIENCE.toSeconds(), TimeUnit.SECONDS);
                if (found instanceof ServiceBusReceivedMessage message) {
                    return message;
                }
                throw new IllegalStateException("no message came", (Throwable) found);
            } catch (InterruptedException error) {
                throw new IllegalStateException(error);
            }
        }

        @Override
        public List<ServiceBusReceivedMessage> peek(int count) {
            return AsyncBus.wait(client.peekMessages(count).collectList());
        }

        @Override
        public List<ServiceBusReceivedMessage> peek(int count, long from) {
            return AsyncBus.wait(client.peekMessages(count, from).collectList());
        }

        @Override
        public ServiceBusReceivedMessage receiveDeferred(long number) {
            return AsyncBus.wait(client.receiveDeferredMessage(number));
        }

        @Override
        public void complete(ServiceBusReceivedMessage message) {
            AsyncBus.wait(client.complete(message));
        }

        @Override
        public void complete(ServiceBusReceivedMessage message, CompleteOptions options) {
            AsyncBus.wait(client.complete(message, options));
        }

        @Override
        public void abandon(ServiceBusReceivedMessage message, Map<String, Object> changed) {
            AsyncBus.wait(client.abandon(message, new AbandonOptions().setPropertiesToModify(changed)));
        }

        @Override
        public void deadLetter(ServiceBusReceivedMessage message, DeadLetterOptions options) {
            AsyncBus.wait(client.deadLetter(message, options));
        }

        @Override
        public void defer(ServiceBusReceivedMessage message) {
            AsyncBus.wait(client.defer(message));
        }

        @Override
        public OffsetDateTime renew(ServiceBusReceivedMessage message) {
            return AsyncBus.wait(client.renewMessageLock(message));
        }

        @Override
        public String sessionId() {
            return client.getSessionId();
        }

        @Override
        public byte[] state() {
            return AsyncBus.wait(client.getSessionState());
        }

        @Override
        public void setState(byte[] state) {
            AsyncBus.wait(client.setSessionState(state));
        }

        @Override
        public OffsetDateTime renewSession() {
            return AsyncBus.wait(client.renewSessionLock());
        }

        @Override
        public ServiceBusTransactionContext begin() {
            return AsyncBus.wait(client.createTransaction());
        }

        @Override
        public void commit(ServiceBusTransactionContext transaction) {
            AsyncBus.wait(client.commitTransaction(transaction));
        }

        @Override
        public void rollBack(ServiceBusTransactionContext transaction) {
            AsyncBus.wait(client.rollbackTransaction(transaction));
        }

        @Override
        public void close() {
            client.close();
        }
    }
}
