// Microsoft's older client, `azure-sb`: plain HTTPS, and a token signed for each request's address.

import azure from "azure-sb";
import { run } from "./scenario.mjs";

// Its methods end in a callback of an error and results; here they are promises of the results.
const service = (work) => (input) => {
  const client = azure.createServiceBusService(input.connection);
  const call = (name, ...given) =>
    new Promise((resolve, reject) =>
      client[name](...given, (error, ...results) =>
        error ? reject(Object.assign(new Error(error.message ?? error), error)) : resolve(results),
      ),
    );
  return work(call, input);
};

const LOCK = { isPeekLock: true, timeoutIntervalInS: 5 };
const TAKE = { timeoutIntervalInS: 5 };
const NOW = { timeoutIntervalInS: 0.1 };

async function all(call, name) {
  const found = [];
  for (let page; !page || page.length === 100; found.push(...page))
    [page] = await call(name, { skip: found.length, top: 100 });
  return found;
}

const shown = (message) => ({
  body: message.body,
  broker: message.brokerProperties,
  custom: message.customProperties,
});

async function failed(promise) {
  try {
    await promise;
  } catch (error) {
    return { text: error.message, code: error.code, status: error.statusCode };
  }
  throw new Error("no error came");
}

await run({
  sendAndTake: service(async (call, { queue }) => {
    await call("sendQueueMessage", queue, {
      body: "hello",
      brokerProperties: { MessageId: "one", Label: "greeting", TimeToLive: 90 },
      customProperties: { tenant: "a", count: 7, good: true },
    });
    await call("sendQueueMessage", queue, "plain");
    const taken = [];
    for (let i = 0; i < 2; i++) taken.push(shown((await call("receiveQueueMessage", queue, TAKE))[0]));
    return { taken, empty: await failed(call("receiveQueueMessage", queue, NOW)) };
  }),

  peekLock: service(async (call, { queue }) => {
    await call("sendQueueMessage", queue, "work");
    const [first] = await call("receiveQueueMessage", queue, LOCK);
    await call("unlockMessage", first);
    const [second] = await call("receiveQueueMessage", queue, LOCK);
    await call("renewLockForMessage", second);
    await call("deleteMessage", second);
    return {
      counts: [first, second].map((m) => m.brokerProperties.DeliveryCount),
      again: await failed(call("deleteMessage", second)),
      empty: await failed(call("receiveQueueMessage", queue, NOW)),
    };
  }),

  topics: service(async (call, { topic }) => {
    await call("createTopic", topic);
    await call("createSubscription", topic, "all");
    await call("createSubscription", topic, "red");
    await call("createRule", topic, "red", "colour", { sqlExpressionFilter: "colour = 'red'" });
    await call("deleteRule", topic, "red", "$Default");
    const [rules] = await call("listRules", topic, "red");
    const [rule] = await call("getRule", topic, "red", "colour");
    for (const colour of ["red", "blue"])
      await call("sendTopicMessage", topic, { body: colour, customProperties: { colour } });
    const all = [];
    for (let i = 0; i < 2; i++)
      all.push((await call("receiveSubscriptionMessage", topic, "all", TAKE))[0].body);
    const [red] = await call("receiveSubscriptionMessage", topic, "red", LOCK);
    await call("deleteMessage", red);
    return {
      rules: rules.map((r) => r.RuleName),
      filter: rule.Filter.SqlExpression,
      all,
      red: red.body,
      empty: await failed(call("receiveSubscriptionMessage", topic, "red", NOW)),
    };
  }),

  administer: service(async (call, { queue, topic }) => {
    const [made] = await call("createQueue", queue, { LockDuration: "PT45S", MaxDeliveryCount: 3 });
    const [isNew] = await call("createQueueIfNotExists", queue);
    const [found] = await call("getQueue", queue);
    const queues = await all(call, "listQueues");
    const twice = await failed(call("createQueue", queue));
    await call("createTopicIfNotExists", topic);
    await call("createSubscription", topic, "s");
    const topics = await all(call, "listTopics");
    const [subscriptions] = await call("listSubscriptions", topic);
    const [subscription] = await call("getSubscription", topic, "s");
    await call("deleteSubscription", topic, "s");
    await call("deleteTopic", topic);
    await call("deleteQueue", queue);
    return {
      made: [made.QueueName, made.LockDuration, made.MaxDeliveryCount],
      isNew,
      found: [found.QueueName, found.MessageCount],
      queues: queues.map((q) => q.QueueName),
      twice,
      topics: topics.map((t) => t.TopicName),
      subscriptions: subscriptions.map((s) => s.SubscriptionName),
      subscription: subscription.LockDuration,
      gone: await failed(call("getQueue", queue)),
      goneTopic: await failed(call("deleteTopic", topic)),
      lost: await failed(call("sendQueueMessage", queue, "x")),
    };
  }),

  send: service(async (call, { queue }) => (await call("sendQueueMessage", queue, "x")).length),
});
