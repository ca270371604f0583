// The stock @azure/service-bus client with topics: every scenario at once, each on a topic of its
// own. Prints one object: scenario to its result, or to the error that it threw.

import { createRequire } from "node:module";
import { run } from "../../js/scenario.mjs";

// The client is installed beside the other scripts.
const require = createRequire(new URL("../../js/", import.meta.url));
const { ServiceBusClient } = require("@azure/service-bus");

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

// What a call throws: the code that programs look at, and the words.
async function failureOf(call) {
  try {
    await call();
  } catch (error) {
    return { code: error.code, text: error.message };
  }
  return null;
}

async function listed(manager) {
  const rules = [];
  // Where there are no rules this client yields one undefined.
  for await (const rule of manager.listRules()) if (rule) rules.push(rule);
  return rules;
}

// Everything that a subscription has right now, by body, sorted; taken out.
async function drained(client, topic, name, count) {
  const receiver = client.createReceiver(topic, name);
  const messages = count ? await collect(receiver, count) : [];
  for (const message of messages) await receiver.completeMessage(message);
  const rest = await receiver.peekMessages(1, { fromSequenceNumber: require("long").ZERO });
  if (rest.length) throw new Error(`more than ${count} messages in ${topic}/${name}`);
  await receiver.close();
  return messages.map((message) => message.body).sort();
}

async function sendAll(client, topic, messages) {
  const sender = client.createSender(topic);
  for (const message of messages) await sender.sendMessages(message);
  await sender.close();
}

const SCENARIOS = {
  async delivery(client, { topic }) {
    await sendAll(client, topic, [{ body: "a", subject: "s" }, { body: "b", partitionKey: "k" }]);
    const batchSender = client.createSender(topic);
    const batch = await batchSender.createMessageBatch();
    for (const body of ["c", "d"]) batch.tryAddMessage({ body, partitionKey: "k" });
    await batchSender.sendMessages(batch);
    const first = client.createReceiver(topic, "first", { receiveMode: "receiveAndDelete" });
    const deleted = (await collect(first, 4)).map((message) => message.body).sort();
    const second = client.createReceiver(topic, "second");
    const messages = await collect(second, 4);
    const [dead, deferred, ...others] = messages;
    await second.deadLetterMessage(dead, { deadLetterReason: "why" });
    await second.deferMessage(deferred);
    for (const message of others) await second.completeMessage(message);
    const [again] = await second.receiveDeferredMessages(deferred.sequenceNumber);
    await second.completeMessage(again);
    const letters = client.createReceiver(topic, "second", { subQueueType: "deadLetter" });
    const [letter] = await collect(letters, 1);
    await letters.completeMessage(letter);
    return {
      deleted,
      received: messages.map((message) => message.body).sort(),
      again: again.body === deferred.body,
      letter: letter.body === dead.body && letter.deadLetterReason,
    };
  },

  async rules(client, { topic }) {
    const manager = client.createRuleManager(topic, "first");
    const atFirst = await listed(manager);
    await manager.deleteRule("$Default");
    await sendAll(client, topic, [{ body: "nobody" }]);
    await manager.createRule("red", { subject: "red", applicationProperties: { big: true, size: 2 } });
    await manager.createRule("large", { sqlExpression: "size > 10" }, { sqlExpression: "SET seen = 'yes'" });
    const inTheMiddle = await listed(manager);
    await sendAll(client, topic, [
      { body: "red", subject: "red", applicationProperties: { big: true, size: 2 } },
      { body: "not red", subject: "red", applicationProperties: { big: false, size: 2 } },
      { body: "large", applicationProperties: { size: 11 } },
    ]);
    await manager.deleteRule("red");
    await sendAll(client, topic, [
      { body: "red again", subject: "red", applicationProperties: { big: true, size: 2 } },
    ]);
    await manager.deleteRule("large");
    const atLast = await listed(manager);
    return {
      atFirst,
      inTheMiddle,
      atLast,
      first: await drained(client, topic, "first", 2),
      second: await drained(client, topic, "second", 5),
    };
  },

  // A date in a filter is that date again, and selects by it.
  async dates(client, { topic }) {
    const when = new Date("2000-01-02T03:04:05.678Z");
    const manager = client.createRuleManager(topic, "first");
    await manager.deleteRule("$Default");
    await manager.createRule("dated", { applicationProperties: { text: "t", number: 2, half: 0.5, yes: true, when } });
    const [rule] = await listed(manager);
    const found = rule.filter.applicationProperties;
    const properties = { text: "t", number: 2, half: 0.5, yes: true };
    await sendAll(client, topic, [
      { body: "then", applicationProperties: { ...properties, when } },
      { body: "now", applicationProperties: { ...properties, when: new Date() } },
    ]);
    return {
      found,
      isDate: found.when instanceof Date,
      first: await drained(client, topic, "first", 1),
    };
  },

  async refusals(client, { topic }) {
    const manager = client.createRuleManager(topic, "first");
    return {
      twin: await failureOf(() => manager.createRule("$default", { sqlExpression: "1=1" })),
      missing: await failureOf(() => manager.deleteRule("no such rule")),
      sql: await failureOf(() => manager.createRule("bad", { sqlExpression: "colour = = 'red'" })),
      action: await failureOf(() =>
        manager.createRule("bad", { sqlExpression: "1=1" }, { sqlExpression: "SOT colour = 'red'" }),
      ),
      name: await failureOf(() => manager.createRule("x".repeat(51), { sqlExpression: "1=1" })),
      left: (await listed(manager)).map((rule) => rule.name),
    };
  },

  // Filters run when a scheduled message becomes active.
  async scheduled(client, { topic }) {
    const sender = client.createSender(topic);
    const [cancelled] = await sender.scheduleMessages({ body: "cancelled" }, new Date(Date.now() + 60_000));
    await sender.cancelScheduledMessages(cancelled);
    await sender.scheduleMessages({ body: "later", subject: "red" }, new Date(Date.now() + 5_000));
    const manager = client.createRuleManager(topic, "first");
    await manager.deleteRule("$Default");
    await manager.createRule("blue", { subject: "blue" });
    const second = await drained(client, topic, "second", 1);
    return { second, first: await drained(client, topic, "first", 0) };
  },

  async many(client, { topic }) {
    const manager = client.createRuleManager(topic, "first");
    await Promise.all(
      Array.from({ length: 20 }, (_, n) => manager.createRule(`rule-${n}`, { messageId: `${n}` })),
    );
    await manager.deleteRule("$Default");
    await sendAll(client, topic, Array.from({ length: 22 }, (_, n) => ({ body: n, messageId: `${n}` })));
    return {
      names: (await listed(manager)).map((rule) => rule.name).sort(),
      first: (await drained(client, topic, "first", 20)).length,
    };
  },
};

async function all({ connection, topics }) {
  const client = new ServiceBusClient(connection, { retryOptions: { maxRetries: 0 } });
  const outcomes = await Promise.all(
    Object.entries(SCENARIOS).map(async ([name, scenario]) => {
      try {
        return [name, { result: await scenario(client, topics[name]) }];
      } catch (error) {
        return [name, { error: `${error.code}: ${error.stack}` }];
      }
    }),
  );
  await client.close();
  return Object.fromEntries(outcomes);
}

run({ all });
