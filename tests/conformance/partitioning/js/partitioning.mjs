// The stock @azure/service-bus client on partitioned queues, one scenario each.

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

// Exactly `count` messages: a receive call returns as soon as some have come.
async function collect(receiver, count) {
  const messages = [];
  while (messages.length < count) {
    const more = await receiver.receiveMessages(count - messages.length, { maxWaitTimeInMs: WAIT_MS });
    if (more.length === 0) throw new Error(`only ${messages.length} of ${count} messages came`);
    messages.push(...more);
  }
  return messages;
}

// A sequence number has more bits than a number here can hold.
const shown = (message) => ({ body: message.body, sequenceNumber: message.sequenceNumber.toString() });

await run({
  send: (input) =>
    withClient(input, (client) => client.createSender(input.queue).sendMessages(input.messages)),

  spread: (input) =>
    withClient(input, async (client) => {
      const sender = client.createSender(input.queue);
      for (let done = 0; done < input.count; done += input.window) {
        const bodies = Array.from({ length: Math.min(input.window, input.count - done) }, (_, n) => done + n);
        await Promise.all(bodies.map((body) => sender.sendMessages({ body })));
      }
    }),

  complete: (input) =>
    withClient(input, async (client) => {
      const receiver = client.createReceiver(input.queue);
      const messages = await collect(receiver, input.count);
      await Promise.all(messages.map((message) => receiver.completeMessage(message)));
      return messages.map(shown);
    }),

  peek: (input) =>
    withClient(input, async (client) => {
      const receiver = client.createReceiver(input.queue);
      const messages = [];
      for (;;) {
        const more = await receiver.peekMessages(input.count);
        if (more.length === 0) return messages;
        messages.push(...more.map(shown));
      }
    }),

  defer: (input) =>
    withClient(input, async (client) => {
      const receiver = client.createReceiver(input.queue);
      const messages = await collect(receiver, input.count);
      await Promise.all(messages.map((message) => receiver.deferMessage(message)));
      const deferred = await receiver.receiveDeferredMessages(messages.map((message) => message.sequenceNumber));
      await Promise.all(deferred.map((message) => receiver.completeMessage(message)));
      return deferred.map(shown);
    }),

  schedule: (input) =>
    withClient(input, async (client) => {
      const sender = client.createSender(input.queue);
      const due = new Date(Date.now() + 3_600_000);
      const numbers = [];
      for (let n = 0; n < input.count; n++) numbers.push(...(await sender.scheduleMessages({ body: n }, due)));
      await sender.cancelScheduledMessages(numbers);
      const left = await client.createReceiver(input.queue).peekMessages(input.count);
      return { numbers: numbers.map(String), left: left.map(shown) };
    }),
});
