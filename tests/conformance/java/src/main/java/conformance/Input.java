package conformance;

/** What a test gives a scenario; each takes what it needs. */
public record Input(
    String connection, String queue, String topic, String subscription, String other,
    int count, int size, boolean webSocket, int port) {
}
