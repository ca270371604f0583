package conformance;

import com.azure.core.http.policy.FixedDelay;
import com.azure.core.http.policy.HttpPipelinePolicy;
import com.azure.core.http.policy.RetryPolicy;
import com.azure.core.util.UrlBuilder;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationAsyncClient;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClient;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClientBuilder;
import com.azure.messaging.servicebus.administration.models.CorrelationRuleFilter;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.azure.messaging.servicebus.administration.models.CreateSubscriptionOptions;
import com.azure.messaging.servicebus.administration.models.QueueProperties;
import com.azure.messaging.servicebus.administration.models.RuleProperties;
import com.azure.messaging.servicebus.administration.models.SqlRuleAction;
import com.azure.messaging.servicebus.administration.models.SqlRuleFilter;
import com.azure.messaging.servicebus.administration.models.SubscriptionProperties;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import reactor.core.publisher.Mono;

/** The administration client. */
final class Administration {
    interface Work {
        Object run(ServiceBusAdministrationClient client, Input input);
    }

    static void addTo(Map<String, Main.Scenario> scenarios) {
        Map<String, Work> works = new LinkedHashMap<>();
        works.put("administerQueue", Administration::queue);
        works.put("administerTopic", Administration::topic);
        works.put("administerRules", Administration::rules);
        works.put("listQueues",
            (client, input) -> client.listQueues().stream().map(QueueProperties::getName).toList());
        works.put("namespaceProperties", (client, input) -> Map.of(
            "named", !client.getNamespaceProperties().getName().isEmpty(),
            "sku", client.getNamespaceProperties().getMessagingSku().toString()));
        works.put("queueExists", (client, input) -> client.getQueueExists(input.queue()));
        works.put("createQueue", (client, input) -> client.createQueue(input.queue()).getName());
        works.forEach((name, work) -> scenarios.put(name, input -> work.run(builder(input).buildClient(), input)));
    }

    static void addAsyncTo(Map<String, Main.Scenario> scenarios) {
        scenarios.put("administerQueue", input -> asyncQueue(builder(input).buildAsyncClient(), input));
    }

    /** The client drops the port of the connection string and asks at 443; the policy puts it back. */
    private static ServiceBusAdministrationClientBuilder builder(Input input) {
        HttpPipelinePolicy port = (context, next) -> {
            context.getHttpRequest().setUrl(UrlBuilder.parse(context.getHttpRequest().getUrl())
                .setPort(input.port()).toString());
            return next.process();
        };
        return new ServiceBusAdministrationClientBuilder().connectionString(input.connection()).addPolicy(port)
            .retryPolicy(new RetryPolicy(new FixedDelay(0, Duration.ZERO)));
    }

    private static Object queue(ServiceBusAdministrationClient client, Input input) {
        QueueProperties created = client.createQueue(input.queue(), wanted());
        client.updateQueue(created.setMaxDeliveryCount(5));
        QueueProperties found = client.getQueue(input.queue());
        long total = client.getQueueRuntimeProperties(input.queue()).getTotalMessageCount();
        client.deleteQueue(input.queue());
        return shown(found, total, !client.getQueueExists(input.queue()));
    }

    private static Object asyncQueue(ServiceBusAdministrationAsyncClient client, Input input) {
        String name = input.queue();
        return client.createQueue(name, wanted())
            .flatMap(created -> client.updateQueue(created.setMaxDeliveryCount(5)))
            .flatMap(updated -> Mono.zip(client.getQueue(name), client.getQueueRuntimeProperties(name)))
            .flatMap(both -> client.deleteQueue(name).then(client.getQueueExists(name))
                .map(exists -> shown(both.getT1(), both.getT2().getTotalMessageCount(), !exists)))
            .block(Bus.PATIENCE);
    }

    private static CreateQueueOptions wanted() {
        return new CreateQueueOptions().setLockDuration(Duration.ofSeconds(30)).setMaxDeliveryCount(3)
            .setSessionRequired(true).setUserMetadata("made by Java");
    }

    private static Map<String, Object> shown(QueueProperties found, long total, boolean isGone) {
        return Map.of("lockDuration", found.getLockDuration().toString(),
            "maxDeliveryCount", found.getMaxDeliveryCount(), "requiresSession", found.isSessionRequired(),
            "userMetadata", found.getUserMetadata(), "total", total, "gone", isGone);
    }

    private static Object topic(ServiceBusAdministrationClient client, Input input) {
        client.createTopic(input.topic());
        client.createSubscription(input.topic(), "first", new CreateSubscriptionOptions().setMaxDeliveryCount(4));
        SubscriptionProperties found = client.getSubscription(input.topic(), "first");
        List<String> names = client.listSubscriptions(input.topic()).stream()
            .map(SubscriptionProperties::getSubscriptionName).toList();
        int count = client.getTopicRuntimeProperties(input.topic()).getSubscriptionCount();
        client.deleteSubscription(input.topic(), "first");
        client.deleteTopic(input.topic());
        return Map.of("maxDeliveryCount", found.getMaxDeliveryCount(), "names", names, "count", count);
    }

    private static Object rules(ServiceBusAdministrationClient client, Input input) {
        client.createRule(input.topic(), "large", input.subscription(), Topics.large());
        client.createRule(input.topic(), "red", input.subscription(), Topics.red());
        client.deleteRule(input.topic(), input.subscription(), "$Default");
        Map<String, Object> found = new TreeMap<>();
        client.listRules(input.topic(), input.subscription())
            .forEach(rule -> found.put(rule.getName(), shownRule(rule)));
        return found;
    }

    static Map<String, Object> shownRule(RuleProperties rule) {
        Map<String, Object> shown = new LinkedHashMap<>();
        if (rule.getFilter() instanceof SqlRuleFilter filter) {
            shown.put("sql", filter.getSqlExpression());
        } else if (rule.getFilter() instanceof CorrelationRuleFilter filter) {
            shown.put("subject", filter.getLabel());
            shown.put("properties", filter.getProperties());
        }
        if (rule.getAction() instanceof SqlRuleAction action) {
            shown.put("action", action.getSqlExpression());
        }
        return shown;
    }

    private Administration() {
    }
}
