// The stock @azure/service-bus client around settlement: every scenario at once, each on queues
// of its own. Prints one object: scenario to its result, or to the error that it threw.

import { createRequire } from "node:module";
import { run } from "../../js/scenario.mjs";

// The client is installed beside the other scripts.
const require = createRequire(new URL("../../js/", import.meta.url));
const { ServiceBusClient } = require("@azure/service-bus");
const Long = require("long");

const WAIT_MS = 30_000;
const NO_RENEWAL = { maxAutoLockRenewalDurationInMs: 0 };

async function collect(receiver, count) {
  const messages = [];
  while (messages.length < count) {
    const more = await receiver.receiveMessages(count - messages.length, { maxWaitTimeInMs: WAIT_MS });
    if (more.length === 0) throw new Error(`only ${messages.length} of ${count} messages came`);
    messages.push(...more);
  }
  return messages;
}

// What a call throws: the code that programs look at, or the words when there is no code.
async function codeOf(call) {
  try {
    await call();
  } catch (error) {
    return error.code ?? error.message;
  }
  return null;
}

const bodiesOf = (messages) => messages.map((message) => message.body);
const number = (message) => message.sequenceNumber.toNumber();
const text = (size) => "x".repeat(size);

// Later than everything that is asked before it, also on a busy machine.
const SOON_MS = 4000;

async function opened(sender, receiver) {
  await sender.createMessageBatch();
  await receiver.peekMessages(1);
}

const SCENARIOS = {
  async schedule(client, { plain }) {
    const sender = client.createSender(plain);
    const receiver = client.createReceiver(plain);
    await opened(sender, receiver);
    const due = Date.now() + SOON_MS;
    const [kept, cancelled] = await sender.scheduleMessages([{ body: "kept" }, { body: "cancelled" }], new Date(due));
    await sender.cancelScheduledMessages(cancelled);
    const shown = await receiver.peekMessages(10);
    const again = await codeOf(() => sender.cancelScheduledMessages(cancelled));
    const [message] = await collect(receiver, 1);
    await receiver.completeMessage(message);
    return {
      shown: shown.map((each) => [each.body, each.state]),
      again,
      body: message.body,
      hasNewNumber: number(message) > kept.toNumber(),
      isInTime: message.enqueuedTimeUtc.getTime() >= due,
    };
  },

  async scheduleByProperty(client, { plain }) {
    const sender = client.createSender(plain);
    const receiver = client.createReceiver(plain);
    await opened(sender, receiver);
    const due = new Date(Date.now() + SOON_MS);
    await sender.sendMessages({ body: "due", scheduledEnqueueTimeUtc: due });
    const [shown] = await receiver.peekMessages(1);
    const [message] = await collect(receiver, 1);
    await receiver.completeMessage(message);
    const states = [shown.state, message.state];
    return { states, body: message.body, grew: number(message) - number(shown) };
  },

  async longLife(client, { plain }) {
    const life = 100 * 24 * 60 * 60 * 1000;
    const sent = { body: "long", bodyType: "data", header: { timeToLive: life } };
    await client.createSender(plain).sendMessages(sent);
    const receiver = client.createReceiver(plain);
    const [shown] = await receiver.peekMessages(1);
    const [message] = await collect(receiver, 1);
    await receiver.completeMessage(message);
    return [shown, message].map((each) => {
      const { header, properties } = each._rawAmqpMessage;
      const { absoluteExpiryTime, creationTime } = properties;
      return [header.timeToLive - life, absoluteExpiryTime - creationTime - life];
    });
  },

  async timeToLive(client, { mourning }) {
    await client.createSender(mourning).sendMessages({ body: "late", timeToLive: 1000 });
    const letters = client.createReceiver(mourning, { subQueueType: "deadLetter" });
    const [message] = await collect(letters, 1);
    await letters.completeMessage(message);
    return {
      reason: message.deadLetterReason,
      life: message.expiresAtUtc.getTime() - message.enqueuedTimeUtc.getTime(),
    };
  },

  async defer(client, { plain }) {
    await client.createSender(plain).sendMessages([
      { body: "set aside", applicationProperties: { kept: 1, changed: 1 } },
      { body: "next" },
    ]);
    const receiver = client.createReceiver(plain);
    const [message, next] = await collect(receiver, 2);
    await receiver.deferMessage(message, { changed: 2, added: "yes" });
    await receiver.completeMessage(next);
    const [shown] = await receiver.peekMessages(10, { fromSequenceNumber: message.sequenceNumber });
    const [again] = await receiver.receiveDeferredMessages(message.sequenceNumber);
    const locked = await codeOf(() => receiver.receiveDeferredMessages(message.sequenceNumber));
    await receiver.abandonMessage(again, { changed: 3 });
    const [last] = await receiver.receiveDeferredMessages([message.sequenceNumber]);
    await receiver.completeMessage(last);
    const gone = await codeOf(() => receiver.receiveDeferredMessages(message.sequenceNumber));
    return {
      state: shown.state,
      locked,
      gone,
      properties: last.applicationProperties,
      counts: [message, again, last].map((each) => each.deliveryCount),
      states: [message, again, last].map((each) => each.state),
    };
  },

  async deferAndDelete(client, { plain }) {
    await client.createSender(plain).sendMessages({ body: "set aside" });
    const receiver = client.createReceiver(plain);
    const [message] = await collect(receiver, 1);
    await receiver.deferMessage(message);
    const taker = client.createReceiver(plain, { receiveMode: "receiveAndDelete" });
    const [taken] = await taker.receiveDeferredMessages(message.sequenceNumber);
    return { body: taken.body, left: await receiver.peekMessages(10) };
  },

  async settleDeferred(client, { plain }) {
    await client.createSender(plain).sendMessages({ body: "set aside" });
    const receiver = client.createReceiver(plain);
    const [message] = await collect(receiver, 1);
    await receiver.deferMessage(message);
    const [again] = await receiver.receiveDeferredMessages(message.sequenceNumber);
    const renewed = await receiver.renewMessageLock(again);
    await receiver.deadLetterMessage(again, { deadLetterReason: "enough", host: "h1" });
    const letters = client.createReceiver(plain, { subQueueType: "deadLetter" });
    const [dead] = await collect(letters, 1);
    await letters.completeMessage(dead);
    return {
      isRenewed: renewed.getTime() >= again.lockedUntilUtc.getTime() - 1,
      reason: dead.deadLetterReason,
      host: dead.applicationProperties.host,
    };
  },

  async peek(client, { plain }) {
    await client.createSender(plain).sendMessages([0, 1, 2, 3, 4].map((body) => ({ body })));
    const receiver = client.createReceiver(plain);
    const calls = [];
    for (const count of [2, 2, 5, 5]) calls.push(bodiesOf(await receiver.peekMessages(count)));
    const [first] = await receiver.peekMessages(1, { fromSequenceNumber: Long.ONE });
    const from = await receiver.peekMessages(10, { fromSequenceNumber: first.sequenceNumber.add(3) });
    const taken = await collect(receiver, 5);
    const counts = taken.map((message) => message.deliveryCount);
    for (const message of taken) await receiver.completeMessage(message);
    return { calls, from: bodiesOf(from), token: first.lockToken ?? null, counts };
  },

  async peekLimits(client, { plain }) {
    const sender = client.createSender(plain);
    await sender.sendMessages(Array.from({ length: 260 }, (_, body) => ({ body })));
    const receiver = client.createReceiver(plain);
    return [(await receiver.peekMessages(1000)).length, (await receiver.peekMessages(1000)).length];
  },

  async peekWithoutBody(client, { plain }) {
    const properties = { kind: "large" };
    await client.createSender(plain).sendMessages({ body: text(1000), subject: "s", applicationProperties: properties });
    const receiver = client.createReceiver(plain);
    const [bare] = await receiver.peekMessages(1, { omitMessageBody: true });
    const [whole] = await receiver.peekMessages(1, { fromSequenceNumber: bare.sequenceNumber });
    return {
      hasBody: bare.body !== undefined,
      subject: bare.subject,
      properties: bare.applicationProperties,
      length: whole.body.length,
    };
  },

  async deadLetter(client, { plain }) {
    await client.createSender(plain).sendMessages({ body: "bad", applicationProperties: { tries: 1 } });
    const receiver = client.createReceiver(plain);
    const [message] = await collect(receiver, 1);
    const options = { deadLetterReason: "own", deadLetterErrorDescription: "words", tries: 2, host: "h1" };
    await receiver.deadLetterMessage(message, options);
    const letters = client.createReceiver(plain, { subQueueType: "deadLetter" });
    const shown = await letters.peekMessages(10);
    const [dead] = await collect(letters, 1);
    const again = await codeOf(() => letters.deadLetterMessage(dead));
    const sent = await codeOf(() => client.createSender(`${plain}/$DeadLetterQueue`).sendMessages({ body: "no" }));
    const transfer = client.createReceiver(plain, { subQueueType: "transferDeadLetter" });
    return {
      shown: shown.length,
      reason: dead.deadLetterReason,
      properties: dead.applicationProperties,
      again,
      sent,
      transfer: await transfer.receiveMessages(1, { maxWaitTimeInMs: 200 }),
    };
  },

  async renew(client, { renewed }) {
    await client.createSender(renewed).sendMessages([{ body: "by hand" }, { body: "by itself" }]);
    const manual = client.createReceiver(renewed, NO_RENEWAL);
    const [byHand] = await collect(manual, 1);
    const automatic = client.createReceiver(renewed, { maxAutoLockRenewalDurationInMs: 60_000 });
    const [byItself] = await collect(automatic, 1);
    const first = byItself.lockedUntilUtc.getTime();
    const other = client.createReceiver(renewed, NO_RENEWAL);
    let isLonger = true;
    const stolen = [];
    // Asking in vain passes the time, and shows that both stay locked.
    while (Date.now() < first + 500) {
      isLonger &&= (await manual.renewMessageLock(byHand)).getTime() >= Date.now() + 2000;
      stolen.push(...(await other.receiveMessages(5, { maxWaitTimeInMs: 200 })));
    }
    await manual.completeMessage(byHand);
    await automatic.completeMessage(byItself);
    return { isLonger, stolen: stolen.length, left: (await other.peekMessages(10, { fromSequenceNumber: Long.ONE })).length };
  },

  async lostLocks(client, { brief }) {
    const operations = ["completeMessage", "abandonMessage", "deferMessage", "deadLetterMessage", "renewMessageLock"];
    await client.createSender(brief).sendMessages(operations.map((body) => ({ body })));
    const loser = client.createReceiver(brief, NO_RENEWAL);
    const lost = await collect(loser, operations.length);
    const taker = client.createReceiver(brief, { receiveMode: "receiveAndDelete" });
    const taken = await collect(taker, operations.length);
    const codes = {};
    for (const message of lost) codes[message.body] = await codeOf(() => loser[message.body](message));
    return { codes, counts: taken.map((message) => message.deliveryCount) };
  },

  async settleTwice(client, { plain }) {
    await client.createSender(plain).sendMessages({ body: "one" });
    const receiver = client.createReceiver(plain);
    const [message] = await collect(receiver, 1);
    await receiver.completeMessage(message);
    return { second: await codeOf(() => receiver.completeMessage(message)) };
  },

  async settleDeleted(client, { plain }) {
    await client.createSender(plain).sendMessages({ body: "gone" });
    const receiver = client.createReceiver(plain, { receiveMode: "receiveAndDelete" });
    const [message] = await collect(receiver, 1);
    const codes = [];
    for (const name of ["completeMessage", "abandonMessage", "deferMessage", "deadLetterMessage", "renewMessageLock"]) {
      codes.push(await codeOf(() => receiver[name](message)));
    }
    return codes;
  },

  // The client settles by token through the management node when the link is gone.
  async settleAfterClose(client, { plain }) {
    await client.createSender(plain).sendMessages({ body: "one" });
    const receiver = client.createReceiver(plain, NO_RENEWAL);
    const [message] = await collect(receiver, 1);
    await receiver.close();
    const other = client.createReceiver(plain, NO_RENEWAL);
    await other.completeMessage(message);
    return { left: (await other.peekMessages(10)).length };
  },

  async refusals(client, { narrow, tiny, disabled, plain }) {
    const large = { body: Buffer.alloc(600_000) };
    const full = client.createSender(tiny);
    await full.sendMessages(large);
    return {
      missing: await codeOf(() => client.createSender("no-such-queue").sendMessages({ body: 1 })),
      missingReceiver: await codeOf(() => client.createReceiver("no-such-queue").receiveMessages(1)),
      disabled: await codeOf(() => client.createSender(disabled).sendMessages({ body: 1 })),
      disabledReceiver: await codeOf(() => client.createReceiver(disabled).receiveMessages(1)),
      large: await codeOf(() => client.createSender(narrow).sendMessages({ body: text(20_000) })),
      full: await codeOf(() => full.sendMessages(large)),
      number: await codeOf(() => client.createReceiver(plain).receiveDeferredMessages(Long.fromNumber(10_000))),
    };
  },

  async bodies(client, { plain }) {
    const sender = client.createSender(plain);
    await sender.sendMessages({ body: { a: [1, "two", null] }, bodyType: "value" });
    await sender.sendMessages({ body: [[1, "two"], [3]], bodyType: "sequence" });
    await sender.sendMessages({ body: Buffer.from([0, 1, 255]), bodyType: "data" });
    await sender.sendMessages({ body: undefined });
    const receiver = client.createReceiver(plain, { receiveMode: "receiveAndDelete" });
    const messages = await collect(receiver, 4);
    return messages.map((message) => [
      message._rawAmqpMessage.bodyType,
      Buffer.isBuffer(message.body) ? [...message.body] : message.body,
    ]);
  },
};

async function outcome(connection, name, queues) {
  const client = new ServiceBusClient(connection, { retryOptions: { maxRetries: 0, timeoutInMs: WAIT_MS } });
  try {
    return { result: await SCENARIOS[name](client, queues) };
  } catch (error) {
    return { error: { code: error.code, text: error.stack } };
  } finally {
    await client.close();
  }
}

await run({
  all: async ({ connection, queues }) => {
    const names = Object.keys(queues);
    const outcomes = await Promise.all(names.map((name) => outcome(connection, name, queues[name])));
    return Object.fromEntries(names.map((name, index) => [name, outcomes[index]]));
  },
});
