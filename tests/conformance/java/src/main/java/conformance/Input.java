package conformance;

/** What a test gives a scenario; each takes what it needs. */
public record Input(
    String connection, String queue, String topic, String subscription, String other,
    int count, int size, int seconds, int port, boolean webSocket, boolean crossEntity) {

    /** The same for a client that knows nothing of transactions over several entities. */
    Input plain() {
        return new Input(connection, queue, topic, subscription, other, count, size, seconds, port, webSocket, false);
    }
}
