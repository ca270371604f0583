// The stock @azure/service-bus client on queues that detect duplicates, one scenario each.

import { createRequire } from "node:module";
import { run } from "../../js/scenario.mjs";

// The client is installed beside the scenarios of the folder above.
const require = createRequire(new URL("../../js/package.json", import.meta.url));
const { ServiceBusClient } = require("@azure/service-bus");

const WAIT_MS = 30_000;

async function withClient({ connection }, work) {
  const client = new ServiceBusClient(connection, { retryOptions: { maxRetries: 0, timeoutInMs: WAIT_MS } });
  try {
    return await work(client);
  } finally {
    await client.close();
  }
}

const message = (messageId, body) => ({ messageId, body });

// A sequence number has more bits than a number here can hold.
const shown = ({ messageId, body, sequenceNumber }) => ({ messageId, body, number: sequenceNumber.toString() });

async function peekAll(client, queue) {
  const receiver = client.createReceiver(queue);
  const found = await receiver.peekMessages(200);
  return found.map(shown);
}

await run({
  // Sends one by one and in a batch; everything resolves.
  send: (input) =>
    withClient(input, async (client) => {
      const sender = client.createSender(input.queue);
      await sender.sendMessages(message("a", 1));
      await sender.sendMessages(message("a", 2));
      const batch = await sender.createMessageBatch();
      for (const [id, body] of [["b", 3], ["a", 4], ["b", 5]]) batch.tryAddMessage(message(id, body));
      await sender.sendMessages(batch);
      await sender.sendMessages([message("c", 6), message("b", 7)]);
      return peekAll(client, input.queue);
    }),

  // Receives and completes, then sends the same ids again.
  complete: (input) =>
    withClient(input, async (client) => {
      const sender = client.createSender(input.queue);
      const receiver = client.createReceiver(input.queue);
      await sender.sendMessages(message("a", 1));
      const [received] = await receiver.receiveMessages(1, { maxWaitTimeInMs: WAIT_MS });
      await receiver.completeMessage(received);
      await sender.sendMessages(message("a", 2));
      await sender.sendMessages(message("b", 3));
      return peekAll(client, input.queue);
    }),

  // Schedules what was sent, and sends what was scheduled.
  schedule: (input) =>
    withClient(input, async (client) => {
      const sender = client.createSender(input.queue);
      const due = new Date(Date.now() + 3_600_000);
      await sender.sendMessages(message("a", 1));
      const numbers = await sender.scheduleMessages([message("a", 2), message("b", 3)], due);
      await sender.sendMessages(message("b", 4));
      let code;
      try {
        await sender.cancelScheduledMessages(numbers[0]);
      } catch (error) {
        code = error.code;
      }
      return { numbers: numbers.map(String), code, left: await peekAll(client, input.queue) };
    }),

  // The same ids with and without partition keys.
  keys: (input) =>
    withClient(input, async (client) => {
      const sender = client.createSender(input.queue);
      for (const partitionKey of ["red", "green", "red", undefined, undefined]) {
        await sender.sendMessages({ ...message("a", partitionKey ?? "none"), partitionKey });
      }
      return peekAll(client, input.queue);
    }),
});
