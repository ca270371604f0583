package conformance;

import com.azure.core.amqp.exception.AmqpException;
import com.azure.core.exception.HttpResponseException;
import com.azure.messaging.servicebus.ServiceBusException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeoutException;

/**
 * Runs the scenarios that the tests name, one for each line of JSON on standard input, and answers each
 * with a line of JSON: its result, or its error with the client's own reason. One JVM serves many tests.
 */
public final class Main {
    private static final ObjectMapper JSON =
        new ObjectMapper().configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);

    /** What a user of a client does; the result goes to the test as JSON. */
    public interface Scenario {
        Object run(Input input) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        Map<String, Map<String, Scenario>> clients = clients();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode asked = JSON.readTree(line);
            Input input = JSON.treeToValue(asked.get("input"), Input.class);
            Scenario scenario = clients.get(asked.get("client").asText()).get(asked.get("name").asText());
            answers.println(JSON.writeValueAsString(outcome(scenario, input)));
        }
        System.exit(0);
    }

    private static Map<String, Map<String, Scenario>> clients() {
        Map<String, Map<String, Scenario>> clients = new LinkedHashMap<>();
        clients.put("Java", Messages.scenarios(SyncBus::new));
        Administration.addTo(clients.get("Java"));
        clients.put("Java async", Messages.scenarios(AsyncBus::new));
        Administration.addAsyncTo(clients.get("Java async"));
        clients.put("Java processor", new LinkedHashMap<>());
        Processors.addTo(clients.get("Java processor"));
        clients.put("Spring", new LinkedHashMap<>());
        SpringStarter.addTo(clients.get("Spring"));
        return clients;
    }

    private static Map<String, Object> outcome(Scenario scenario, Input input) {
        Map<String, Object> outcome = new LinkedHashMap<>();
        try {
            if (scenario == null) {
                throw new IllegalArgumentException("there is no such scenario");
            }
            outcome.put("result", scenario.run(input));
        } catch (Throwable error) {
            error.printStackTrace();
            outcome.put("error", Map.of("code", code(error), "text", String.valueOf(error)));
        }
        return outcome;
    }

    private static String code(Throwable error) {
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            if (cause instanceof ServiceBusException known) {
                return known.getReason().toString();
            }
            if (cause instanceof AmqpException refused && refused.getErrorCondition() != null) {
                return refused.getErrorCondition().name();
            }
            if (cause instanceof TimeoutException) {
                return "TIMEOUT";
            }
            if (cause instanceof HttpResponseException answered) {
                return String.valueOf(answered.getResponse().getStatusCode());
            }
        }
        return "";
    }

    private Main() {
    }
}
