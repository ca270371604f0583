// The stock @azure/service-bus client: what its users do, one scenario each.

import { ServiceBusClient } from "@azure/service-bus";
import { run } from "./scenario.mjs";

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

function shown(message) {
  return {
    body: message.body,
    messageId: message.messageId,
    deliveryCount: message.deliveryCount,
    sequenceNumber: message.sequenceNumber.toNumber(),
    enqueuedTime: message.enqueuedTimeUtc.getTime(),
    deadLetterReason: message.deadLetterReason,
    deadLetterErrorDescription: message.deadLetterErrorDescription,
  };
}

const takeAndDelete = (client, queue, count, options = {}) =>
  collect(client.createReceiver(queue, { receiveMode: "receiveAndDelete", ...options }), count);

await run({
  sendAndComplete: (input) =>
    withClient(input, async (client) => {
      const sender = client.createSender(input.queue);
      await sender.sendMessages({ body: "first" });
      const receiver = client.createReceiver(input.queue);
      const [message] = await collect(receiver, 1);
      await receiver.completeMessage(message);
      await sender.sendMessages({ body: "marker" });
      const [marker] = await takeAndDelete(client, input.queue, 1);
      return [shown(message), shown(marker)];
    }),

  batches: (input) =>
    withClient(input, async (client) => {
      const sender = client.createSender(input.queue);
      await sender.sendMessages([{ body: 0 }, { body: 1 }, { body: 2 }]);
      const batch = await sender.createMessageBatch();
      for (let number = 3; number < 20; number++) {
        if (!batch.tryAddMessage({ body: number, messageId: `id-${number}` })) throw new Error("batch is full");
      }
      await sender.sendMessages(batch);
      await Promise.all([sender.sendMessages({ body: 20 }), sender.sendMessages({ body: 21 })]);
      return (await takeAndDelete(client, input.queue, 22)).map(shown);
    }),

  pipelined: (input) =>
    withClient(input, async (client) => {
      const sender = client.createSender(input.queue);
      const numbers = Array.from({ length: input.count }, (_, number) => number);
      await Promise.all(numbers.map((number) => sender.sendMessages({ body: number })));
      return (await takeAndDelete(client, input.queue, input.count)).map((message) => message.body);
    }),

  large: (input) =>
    withClient(input, async (client) => {
      const body = Buffer.alloc(input.size, "abcdefghij");
      await client.createSender(input.queue).sendMessages({ body });
      const [message] = await takeAndDelete(client, input.queue, 1);
      return { length: message.body.length, same: body.equals(message.body) };
    }),

  properties: (input) =>
    withClient(input, async (client) => {
      const sent = {
        body: { nested: [1, "two", null] },
        messageId: "the-id",
        correlationId: "the-correlation",
        subject: "the-subject",
        contentType: "application/json",
        to: "the-destination",
        replyTo: "the-reply-queue",
        sessionId: "the-session",
        replyToSessionId: "the-reply-session",
        partitionKey: "the-session",
        applicationProperties: {
          text: "grüße",
          small: 7,
          negative: -7,
          fraction: 1.5,
          yes: true,
          no: false,
          nothing: null,
          moment: new Date(1_700_000_000_123),
        },
      };
      await client.createSender(input.queue).sendMessages(sent);
      const [message] = await takeAndDelete(client, input.queue, 1);
      // The client sends a date as a timestamp and hands a timestamp out as its milliseconds.
      sent.applicationProperties.moment = sent.applicationProperties.moment.getTime();
      const different = Object.keys(sent).filter(
        (name) => JSON.stringify(sent[name]) !== JSON.stringify(message[name]),
      );
      return { different, received: message.applicationProperties };
    }),

  abandon: (input) =>
    withClient(input, async (client) => {
      await client.createSender(input.queue).sendMessages([{ body: "one" }, { body: "two" }]);
      const receiver = client.createReceiver(input.queue);
      const [first] = await collect(receiver, 1);
      await receiver.abandonMessage(first, { tries: 1 });
      const [again] = await collect(receiver, 1);
      await receiver.completeMessage(again);
      return [shown(first), { ...shown(again), properties: again.applicationProperties }];
    }),

  deadLetter: (input) =>
    withClient(input, async (client) => {
      await client.createSender(input.queue).sendMessages({ body: "bad" });
      const receiver = client.createReceiver(input.queue);
      const [message] = await collect(receiver, 1);
      await receiver.deadLetterMessage(message, {
        deadLetterReason: "Unreadable",
        deadLetterErrorDescription: "not JSON",
        tenant: "a",
      });
      const [dead] = await takeAndDelete(client, input.queue, 1, { subQueueType: "deadLetter" });
      return { ...shown(dead), properties: dead.applicationProperties };
    }),

  maxDeliveryCount: (input) =>
    withClient(input, async (client) => {
      await client.createSender(input.queue).sendMessages({ body: "poison" });
      const receiver = client.createReceiver(input.queue);
      for (let count = 0; count < input.maxDeliveryCount; count++) {
        const [message] = await collect(receiver, 1);
        await receiver.abandonMessage(message);
      }
      const [dead] = await takeAndDelete(client, input.queue, 1, { subQueueType: "deadLetter" });
      return shown(dead);
    }),

  lockLost: (input) =>
    withClient(input, async (client) => {
      await client.createSender(input.queue).sendMessages({ body: "one" });
      const options = { maxAutoLockRenewalDurationInMs: 0 };
      const loser = client.createReceiver(input.queue, options);
      const [lost] = await collect(loser, 1);
      const holder = client.createReceiver(input.queue, options);
      const [held] = await collect(holder, 1);
      try {
        await loser.completeMessage(lost);
      } catch (error) {
        return { code: error.code, deliveryCount: held.deliveryCount };
      }
      return { code: null };
    }),

  // A batch receive that times out drains its credit and keeps its link only when the answer
  // comes within 200 ms; the second receive shows that the link still lives.
  drain: (input) =>
    withClient(input, async (client) => {
      const sender = client.createSender(input.queue);
      await sender.sendMessages([{ body: "one" }, { body: "two" }]);
      const receiver = client.createReceiver(input.queue);
      const first = await receiver.receiveMessages(10, { maxWaitTimeInMs: 2000 });
      const empty = await receiver.receiveMessages(10, { maxWaitTimeInMs: 500 });
      await sender.sendMessages({ body: "three" });
      const second = await receiver.receiveMessages(10, { maxWaitTimeInMs: WAIT_MS });
      for (const message of [...first, ...second]) await receiver.completeMessage(message);
      return [first, empty, second].map((messages) => messages.map((message) => message.body));
    }),

  streaming: (input) =>
    withClient(input, async (client) => {
      const numbers = Array.from({ length: input.count }, (_, number) => ({ body: number }));
      await client.createSender(input.queue).sendMessages(numbers);
      const receiver = client.createReceiver(input.queue);
      const seen = [];
      await new Promise((resolve, reject) => {
        receiver.subscribe(
          {
            processMessage: async (message) => {
              seen.push(message.body);
              if (seen.length === input.count) resolve();
            },
            processError: async ({ error }) => reject(error),
          },
          { maxConcurrentCalls: 5 },
        );
      });
      await receiver.close();
      return seen;
    }),

  send: (input) =>
    withClient(input, async (client) => {
      await client.createSender(input.queue).sendMessages({ body: Buffer.alloc(input.size ?? 1) });
      return "sent";
    }),

  receive: (input) =>
    withClient(input, async (client) => {
      const receiver = client.createReceiver(input.queue);
      const [message] = await collect(receiver, 1);
      await receiver.completeMessage(message);
      return "received";
    }),
});
