package conformance;

import static conformance.Bus.PATIENCE;

import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.spring.messaging.implementation.annotation.EnableAzureMessaging;
import com.azure.spring.messaging.servicebus.core.ServiceBusTemplate;
import com.azure.spring.messaging.servicebus.implementation.core.annotation.ServiceBusListener;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Configuration;
import org.springframework.messaging.support.MessageBuilder;

/** Spring Cloud Azure's starter, as its users have it: properties, clients as beans, a template, a listener. */
final class SpringStarter {
    static void addTo(Map<String, Main.Scenario> scenarios) {
        scenarios.put("complete", SpringStarter::beans);
        scenarios.put("send", SpringStarter::template);
        scenarios.put("listener", SpringStarter::listener);
    }

    @Configuration
    @EnableAutoConfiguration
    public static class Application {
    }

    @Configuration
    @EnableAutoConfiguration
    @EnableAzureMessaging
    public static class Listening {
        final BlockingQueue<String> heard = new LinkedBlockingQueue<>();

        @ServiceBusListener(destination = "${heard-queue}")
        public void hear(String body) {
            heard.add(body);
        }
    }

    private static ConfigurableApplicationContext start(Class<?> application, Input input, String... more) {
        List<String> properties = new ArrayList<>(List.of(
            "spring.cloud.azure.servicebus.connection-string=" + input.connection(),
            "spring.cloud.azure.servicebus.entity-type=queue",
            "spring.main.banner-mode=off", "logging.level.root=warn"));
        properties.addAll(List.of(more));
        return new SpringApplicationBuilder(application).web(WebApplicationType.NONE)
            .properties(properties.toArray(String[]::new)).run();
    }

    /** The clients that the starter makes of an entity's name. */
    private static Object beans(Input input) {
        try (ConfigurableApplicationContext context = start(Application.class, input,
            "spring.cloud.azure.servicebus.entity-name=" + input.queue())) {
            ServiceBusSenderClient sender = context.getBean(ServiceBusSenderClient.class);
            sender.sendMessage(new ServiceBusMessage("one"));
            sender.sendMessage(new ServiceBusMessage("two"));
            ServiceBusReceiverClient receiver = context.getBean(ServiceBusReceiverClient.class);
            List<String> bodies = new ArrayList<>();
            while (bodies.size() < 2) {
                for (ServiceBusReceivedMessage message : receiver.receiveMessages(2 - bodies.size(), PATIENCE)) {
                    bodies.add(message.getBody().toString());
                    receiver.complete(message);
                }
            }
            return Map.of("bodies", bodies, "left", receiver.peekMessages(10).stream().count());
        }
    }

    private static Object template(Input input) throws Exception {
        try (ConfigurableApplicationContext context = start(Application.class, input)) {
            context.getBean(ServiceBusTemplate.class).send(input.queue(),
                MessageBuilder.withPayload("first").setHeader("colour", "red").build());
        }
        try (Bus bus = new SyncBus(input)) {
            ServiceBusReceivedMessage message = bus.take(input.queue(), 1).get(0);
            return Map.of("body", message.getBody().toString(), "colour", message.getApplicationProperties().get("colour"));
        }
    }

    private static Object listener(Input input) throws Exception {
        try (ConfigurableApplicationContext context =
            start(Listening.class, input, "heard-queue=" + input.queue())) {
            ServiceBusTemplate template = context.getBean(ServiceBusTemplate.class);
            for (String body : List.of("one", "two")) {
                template.sendAsync(input.queue(), MessageBuilder.withPayload(body).build()).block(PATIENCE);
            }
            BlockingQueue<String> heard = context.getBean(Listening.class).heard;
            List<String> bodies = new ArrayList<>();
            while (bodies.size() < 2) {
                bodies.add(heard.poll(PATIENCE.toSeconds(), TimeUnit.SECONDS));
            }
            return bodies.stream().sorted().toList();
        }
    }

    private SpringStarter() {
    }
}
