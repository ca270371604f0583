// The stock @azure/service-bus client over WebSocket, which it always speaks with TLS.

import { createRequire } from "node:module";
import { run } from "../../js/scenario.mjs";

// The clients are installed beside the other scripts.
const require = createRequire(new URL("../../js/", import.meta.url));
const { ServiceBusClient } = require("@azure/service-bus");
const WebSocket = require("ws");

const WAIT_MS = 30_000;

async function collect(receiver, count) {
  const messages = [];
  while (messages.length < count) {
    const more = await receiver.receiveMessages(count - messages.length, { maxWaitTimeInMs: WAIT_MS });
    if (more.length === 0) throw new Error(`only ${messages.length} of ${count} messages came`);
    messages.push(...more);
  }
  return messages;
}

async function withClient({ connection }, work) {
  const client = new ServiceBusClient(connection, {
    webSocketOptions: { webSocket: WebSocket },
    retryOptions: { maxRetries: 0, timeoutInMs: WAIT_MS },
  });
  try {
    return await work(client);
  } finally {
    await client.close();
  }
}

await run({
  roundTrip: (input) =>
    withClient(input, async (client) => {
      const sender = client.createSender(input.queue);
      await sender.sendMessages({ body: "one", applicationProperties: { n: 1 } });
      await sender.sendMessages(Array.from({ length: 20 }, (_, body) => ({ body })));
      const receiver = client.createReceiver(input.queue);
      const messages = await collect(receiver, 21);
      await Promise.all(messages.map((message) => receiver.completeMessage(message)));
      const left = await receiver.peekMessages(1);
      return { bodies: messages.map((message) => message.body), left: left.length };
    }),

  large: (input) =>
    withClient(input, async (client) => {
      const body = Buffer.alloc(input.size, "abcdefghij");
      await client.createSender(input.queue).sendMessages({ body });
      const receiver = client.createReceiver(input.queue, { receiveMode: "receiveAndDelete" });
      const [message] = await collect(receiver, 1);
      return { length: message.body.length, same: body.equals(message.body) };
    }),

  streaming: (input) =>
    withClient(input, async (client) => {
      const seen = [];
      const receiver = client.createReceiver(input.queue);
      const done = new Promise((resolve, reject) => {
        receiver.subscribe({
          processMessage: async (message) => {
            seen.push(message.body);
            if (seen.length === input.count) resolve();
          },
          processError: async ({ error }) => reject(error),
        });
      });
      const sender = client.createSender(input.queue);
      const numbers = Array.from({ length: input.count }, (_, number) => number);
      await Promise.all(numbers.map((body) => sender.sendMessages({ body })));
      await done;
      return seen;
    }),
});
