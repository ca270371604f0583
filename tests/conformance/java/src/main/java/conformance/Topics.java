package conformance;

import static conformance.Bus.bodies;
import static conformance.Messages.text;

import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusRuleManagerClient;
import com.azure.messaging.servicebus.administration.models.CorrelationRuleFilter;
import com.azure.messaging.servicebus.administration.models.CreateRuleOptions;
import com.azure.messaging.servicebus.administration.models.SqlRuleAction;
import com.azure.messaging.servicebus.administration.models.SqlRuleFilter;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Topics, subscriptions and the rules that a receiver manages by itself. */
final class Topics {
    static void addTo(Map<String, Messages.Work> works) {
        works.put("filters", Topics::filters);
        works.put("ruleManager", Topics::ruleManager);
        works.put("sendOnly", Topics::sendOnly);
        works.put("receiveOnly", (bus, input) -> bodies(bus.take(input.queue(), 1)));
    }

    private static Object filters(Bus bus, Input input) {
        Bus.Sender sender = bus.topicSender(input.topic());
        for (String colour : List.of("red", "blue")) {
            ServiceBusMessage message = text(colour);
            message.getApplicationProperties().put("colour", colour);
            sender.send(message);
        }
        Bus.Receiver receiver = bus.subscription(input.topic(), input.subscription());
        List<ServiceBusReceivedMessage> messages = receiver.receive(1);
        return Map.of("bodies", bodies(messages), "left", receiver.peek(10).size());
    }

    private static Object ruleManager(Bus bus, Input input) throws Exception {
        if (bus instanceof AsyncBus) {
            return ruleManagerAsync(bus, input);
        }
        ServiceBusRuleManagerClient rules = bus.closing(bus.builder.ruleManager().topicName(input.topic())
            .subscriptionName(input.subscription()).buildClient());
        rules.createRule("large", large());
        rules.createRule("red", red());
        rules.deleteRule("$Default");
        Map<String, Object> found = new TreeMap<>();
        rules.listRules().forEach(rule -> found.put(rule.getName(), Administration.shownRule(rule)));
        return found;
    }

    private static Object ruleManagerAsync(Bus bus, Input input) {
        var rules = bus.closing(bus.builder.ruleManager().topicName(input.topic())
            .subscriptionName(input.subscription()).buildAsyncClient());
        rules.createRule("large", large()).then(rules.createRule("red", red())).then(rules.deleteRule("$Default"))
            .block(Bus.PATIENCE);
        Map<String, Object> found = new TreeMap<>();
        rules.listRules().collectList().block(Bus.PATIENCE)
            .forEach(rule -> found.put(rule.getName(), Administration.shownRule(rule)));
        return found;
    }

    static CreateRuleOptions large() {
        return new CreateRuleOptions(new SqlRuleFilter("size > 10")).setAction(new SqlRuleAction("SET seen = 1"));
    }

    static CreateRuleOptions red() {
        CorrelationRuleFilter filter = new CorrelationRuleFilter().setLabel("red");
        filter.getProperties().put("colour", "red");
        return new CreateRuleOptions(filter);
    }

    /** Sends a message of a size, whatever becomes of it. */
    private static Object sendOnly(Bus bus, Input input) {
        bus.sender(input.queue()).send(new ServiceBusMessage(new byte[input.size()]));
        return "sent";
    }

    private Topics() {
    }
}
