// The stock @azure/service-bus client with sessions: every scenario at once, each on queues of its
// own. Prints one object: scenario to its result, or to the error that it threw.

import { createRequire } from "node:module";
import { run } from "../../js/scenario.mjs";

// The client is installed beside the other scripts.
const require = createRequire(new URL("../../js/", import.meta.url));
const { ServiceBusClient } = require("@azure/service-bus");

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

async function send(client, queue, ...messages) {
  const sender = client.createSender(queue);
  for (const [sessionId, body] of messages) await sender.sendMessages({ sessionId, body });
  await sender.close();
}

const SCENARIOS = {
  async certain(client, { queue }) {
    await send(client, queue, ["a", 1], ["b", "x"], ["a", 2], ["a", 3]);
    const holder = await client.acceptSession(queue, "a");
    const second = await codeOf(() => client.acceptSession(queue, "a"));
    const [first] = await collect(holder, 1);
    await holder.abandonMessage(first);
    const messages = await collect(holder, 3);
    for (const message of messages.slice(0, 2)) await holder.completeMessage(message);
    const lockMs = holder.sessionLockedUntilUtc.getTime() - Date.now();
    const renewed = (await holder.renewSessionLock()).getTime() > Date.now();
    await holder.close();
    const heir = await client.acceptSession(queue, "a");
    const rest = await collect(heir, 1);
    await heir.completeMessage(rest[0]);
    return {
      id: holder.sessionId,
      second,
      bodies: bodiesOf(messages),
      counts: messages.map((message) => message.deliveryCount),
      rest: bodiesOf(rest),
      restCount: rest[0].deliveryCount,
      isLong: lockMs > 50_000 && lockMs <= 60_000,
      renewed,
    };
  },

  async next(client, { queue }) {
    await send(client, queue, ["one", 1]);
    await new Promise((done) => setTimeout(done, 5));
    await send(client, queue, ["two", 2]);
    const first = await client.acceptNextSession(queue);
    const second = await client.acceptNextSession(queue);
    return { ids: [first.sessionId, second.sessionId], bodies: bodiesOf([...(await collect(first, 1)), ...(await collect(second, 1))]) };
  },

  async nextWaits(client, { queue }) {
    const waiting = client.acceptNextSession(queue);
    await send(client, queue, ["late", "here"]);
    const receiver = await waiting;
    return { id: receiver.sessionId, bodies: bodiesOf(await collect(receiver, 1)) };
  },

  async nextInVain(client, { queue }, connection) {
    const hasty = new ServiceBusClient(connection, { retryOptions: { maxRetries: 0, timeoutInMs: 2000 } });
    const code = await codeOf(() => hasty.acceptNextSession(queue));
    await hasty.close();
    return code;
  },

  async state(client, { queue }) {
    const receiver = await client.acceptSession(queue, "a");
    const none = await receiver.getSessionState();
    await receiver.setSessionState({ step: 3 });
    const state = await receiver.getSessionState();
    await receiver.close();
    const again = await client.acceptSession(queue, "a");
    const kept = await again.getSessionState();
    await again.setSessionState(null);
    return { none: none ?? null, state, kept, cleared: (await again.getSessionState()) ?? null };
  },

  async lost(client, { brief }) {
    await send(client, brief, ["a", "1"]);
    const receiver = await client.acceptSession(brief, "a", NO_RENEWAL);
    const [message] = await collect(receiver, 1);
    const over = receiver.sessionLockedUntilUtc.getTime() + 300;
    while (Date.now() < over) await new Promise((done) => setTimeout(done, 100));
    const codes = {
      complete: await codeOf(() => receiver.completeMessage(message)),
      renew: await codeOf(() => receiver.renewSessionLock()),
      getState: await codeOf(() => receiver.getSessionState()),
      setState: await codeOf(() => receiver.setSessionState("x")),
    };
    const heir = await client.acceptSession(brief, "a");
    const [again] = await collect(heir, 1);
    return { codes, count: again.deliveryCount };
  },

  async kept(client, { brief }) {
    await send(client, brief, ["a", "1"]);
    const receiver = await client.acceptSession(brief, "a");
    const [message] = await collect(receiver, 1);
    const over = receiver.sessionLockedUntilUtc.getTime() + 500;
    while (Date.now() < over) await new Promise((done) => setTimeout(done, 100));
    await receiver.completeMessage(message);
    return (await receiver.peekMessages(1)).length;
  },

  async defer(client, { queue }) {
    await send(client, queue, ["a", "1"], ["a", "2"]);
    const receiver = await client.acceptSession(queue, "a");
    const [first] = await collect(receiver, 1);
    await receiver.deferMessage(first);
    const shown = (await receiver.peekMessages(10)).map((each) => [each.body, each.state]);
    const [deferred] = await receiver.receiveDeferredMessages(first.sequenceNumber);
    await receiver.completeMessage(deferred);
    return { shown, body: deferred.body, rest: bodiesOf(await collect(receiver, 1)) };
  },

  async stream(client, { queue }) {
    await send(client, queue, ["a", 1], ["a", 2], ["b", 9], ["a", 3]);
    const receiver = await client.acceptSession(queue, "a");
    const seen = [];
    await new Promise((done, failed) =>
      receiver.subscribe({
        async processMessage(message) {
          seen.push(message.body);
          if (seen.length === 3) done();
        },
        async processError({ error }) {
          failed(error);
        },
      }),
    );
    return seen;
  },

  async refusals(client, { queue, sessionless }) {
    const sender = client.createSender(queue);
    const receiver = client.createReceiver(queue);
    return {
      send: await codeOf(() => sender.sendMessages({ body: "lost" })),
      receive: await codeOf(() => receiver.receiveMessages(1, { maxWaitTimeInMs: 2000 })),
      accept: await codeOf(() => client.acceptSession(sessionless, "a")),
    };
  },
};

await run({
  async all({ connection, queues }) {
    const outcomes = {};
    await Promise.all(
      Object.entries(SCENARIOS).map(async ([name, scenario]) => {
        const client = new ServiceBusClient(connection, { retryOptions: { maxRetries: 0 } });
        try {
          outcomes[name] = { result: await scenario(client, queues[name], connection) };
        } catch (error) {
          outcomes[name] = { error: `${error.name} ${error.code}: ${error.message}` };
        }
        await client.close();
      }),
    );
    return outcomes;
  },
});
