// The stock @azure/service-bus client with annotated messages: every section there and back.

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

function annotated({ body, bodyType, sessionId }) {
  return {
    body,
    bodyType,
    header: { durable: false, priority: 20, firstAcquirer: false, timeToLive: 100_000 },
    deliveryAnnotations: { hop: "first" },
    messageAnnotations: { note: "kept" },
    applicationProperties: { one: 1, two: "two", three: true },
    footer: { sum: "of it" },
    properties: { messageId: "the-id", correlationId: "tag", contentEncoding: "utf-8", groupId: sessionId },
  };
}

function shown(message) {
  const raw = message._rawAmqpMessage;
  return {
    body: message.body,
    bodyType: raw.bodyType,
    footer: raw.footer,
    hop: raw.deliveryAnnotations?.hop,
    annotations: Object.keys(raw.messageAnnotations).sort(),
    note: raw.messageAnnotations.note,
    applicationProperties: raw.applicationProperties,
    durable: raw.header.durable,
    firstAcquirer: raw.header.firstAcquirer,
    priority: raw.header.priority,
    timeToLive: raw.header.timeToLive,
    messageId: message.messageId,
    correlationId: message.correlationId,
    sessionId: message.sessionId,
    contentEncoding: raw.properties.contentEncoding,
    partitionKey: message.partitionKey,
    enqueuedSequenceNumber: message.enqueuedSequenceNumber,
  };
}

const receiverOf = (client, { queue, sessionId }, options) =>
  sessionId === undefined
    ? client.createReceiver(queue, options)
    : client.acceptSession(queue, sessionId, options);

async function receiveOne(receiver) {
  const [message] = await receiver.receiveMessages(1, { maxWaitTimeInMs: WAIT_MS });
  if (message === undefined) throw new Error("no message came");
  return message;
}

await run({
  there: (input) =>
    withClient(input, async (client) => {
      const message = annotated(input);
      await client.createSender(input.queue).sendMessages(input.batch ? [message] : message);
      const receiver = await receiverOf(client, input, {});
      const [peeked] = await receiver.peekMessages(1);
      const received = await receiveOne(receiver);
      await receiver.completeMessage(received);
      return { peeked: shown(peeked), received: shown(received) };
    }),

  // The client of this version refuses to accept the session id "", and sends to it.
  send: (input) =>
    withClient(input, async (client) => {
      const sender = client.createSender(input.queue);
      for (const message of input.messages) await sender.sendMessages(message);
      await sender.sendMessages(input.messages);
      return input.messages.length;
    }),

  // What another client sent, and sent on.
  take: (input) =>
    withClient(input, async (client) => {
      const receiver = await receiverOf(client, input, { receiveMode: "receiveAndDelete" });
      return shown(await receiveOne(receiver));
    }),

  // A received message sent on as it is.
  resend: (input) =>
    withClient(input, async (client) => {
      await client.createSender(input.queue).sendMessages(annotated(input));
      const receiver = await receiverOf(client, input, {});
      const received = await receiveOne(receiver);
      await client.createSender(input.target).sendMessages(received);
      await receiver.completeMessage(received);
      const second = await receiverOf(client, { ...input, queue: input.target }, {});
      return shown(await receiveOne(second));
    }),
});
