// The stock administration client of @azure/service-bus: every operation that it has.

import { ServiceBusAdministrationClient } from "@azure/service-bus";
import { run } from "./scenario.mjs";

const administer = (work) => (input) =>
  work(
    new ServiceBusAdministrationClient(input.connection, {
      serviceVersion: input.version ?? "2021-05",
      retryOptions: { maxRetries: 0 },
    }),
    input,
  );

async function all(pages) {
  const found = [];
  for await (const item of pages) found.push(item);
  return found;
}

// The sizes of the pages and the names on them.
async function paged(list, maxPageSize, name) {
  const pages = [];
  for await (const page of list.byPage({ maxPageSize })) pages.push(page.map((item) => item[name]));
  return pages;
}

const FULL_QUEUE = {
  lockDuration: "PT45S",
  maxSizeInMegabytes: 2048,
  requiresDuplicateDetection: true,
  requiresSession: true,
  defaultMessageTimeToLive: "P2D",
  deadLetteringOnMessageExpiration: true,
  duplicateDetectionHistoryTimeWindow: "PT2M",
  maxDeliveryCount: 8,
  enableBatchedOperations: false,
  authorizationRules: [
    { claimType: "SharedAccessKey", accessRights: ["Send"], keyName: "sender", primaryKey: "a-primary", secondaryKey: "a-secondary" },
    { claimType: "SharedAccessKey", accessRights: ["Manage", "Send", "Listen"], keyName: "all", primaryKey: "b-primary", secondaryKey: "b-secondary" },
  ],
  status: "SendDisabled",
  userMetadata: "made by <tests> & \"friends\"",
  autoDeleteOnIdle: "PT2H",
  enablePartitioning: true,
  maxMessageSizeInKilobytes: 2048,
};

const FULL_TOPIC = {
  defaultMessageTimeToLive: "P3D",
  maxSizeInMegabytes: 3072,
  requiresDuplicateDetection: true,
  duplicateDetectionHistoryTimeWindow: "PT3M",
  enableBatchedOperations: false,
  authorizationRules: [
    { claimType: "SharedAccessKey", accessRights: ["Listen"], keyName: "listener", primaryKey: "c-primary", secondaryKey: "c-secondary" },
  ],
  status: "Disabled",
  userMetadata: "a topic",
  supportOrdering: false,
  autoDeleteOnIdle: "PT3H",
  maxMessageSizeInKilobytes: 512,
};

const FULL_SUBSCRIPTION = {
  lockDuration: "PT50S",
  requiresSession: true,
  defaultMessageTimeToLive: "P4D",
  deadLetteringOnMessageExpiration: true,
  deadLetteringOnFilterEvaluationExceptions: false,
  defaultRuleOptions: { name: "first", filter: { sqlExpression: "size > 3" }, action: { sqlExpression: "SET x = 1" } },
  maxDeliveryCount: 6,
  enableBatchedOperations: false,
  status: "ReceiveDisabled",
  userMetadata: "a subscription",
  autoDeleteOnIdle: "PT4H",
};

// What an answer carries beyond its content would not survive JSON.
const plain = ({ _response, ...rest }) => rest;

await run({
  namespace: administer(async (client) => plain(await client.getNamespaceProperties())),

  queueLife: administer(async (client, { entity: name }) => {
    const before = await client.queueExists(name);
    const created = plain(await client.createQueue(name));
    const got = plain(await client.getQueue(name));
    const runtime = plain(await client.getQueueRuntimeProperties(name));
    const after = await client.queueExists(name);
    const listed = (await all(client.listQueues())).some((queue) => queue.name === name);
    const figures = (await all(client.listQueuesRuntimeProperties())).find((queue) => queue.name === name);
    await client.deleteQueue(name);
    return { before, created, got, runtime, after, listed, figures, gone: await client.queueExists(name) };
  }),

  fullQueue: administer(async (client, { entity: name }) => {
    await client.createQueue(name, FULL_QUEUE);
    return { asked: FULL_QUEUE, got: plain(await client.getQueue(name)) };
  }),

  updateQueue: administer(async (client, { entity: name, changes }) => {
    const before = await client.getQueue(name);
    const answered = plain(await client.updateQueue({ ...before, ...changes }));
    return { answered, got: plain(await client.getQueue(name)) };
  }),

  forwardingQueue: administer(async (client, { entity: name, target, letters }) => {
    const options = { forwardTo: target, forwardDeadLetteredMessagesTo: letters };
    await client.createQueue(name, options);
    return plain(await client.getQueue(name));
  }),

  topicLife: administer(async (client, { entity: name }) => {
    const before = await client.topicExists(name);
    const created = plain(await client.createTopic(name, FULL_TOPIC));
    const got = plain(await client.getTopic(name));
    const runtime = plain(await client.getTopicRuntimeProperties(name));
    const updated = plain(await client.updateTopic({ ...got, status: "Active", userMetadata: "changed", supportOrdering: true }));
    const listed = (await all(client.listTopics())).some((topic) => topic.name === name);
    const figures = (await all(client.listTopicsRuntimeProperties())).find((topic) => topic.name === name);
    await client.deleteTopic(name);
    return { before, asked: FULL_TOPIC, created, got, runtime, updated, listed, figures, gone: await client.topicExists(name) };
  }),

  subscriptionLife: administer(async (client, { topic, entity: name }) => {
    await client.createTopic(topic);
    const before = await client.subscriptionExists(topic, name);
    const created = plain(await client.createSubscription(topic, name, FULL_SUBSCRIPTION));
    const got = plain(await client.getSubscription(topic, name));
    const rules = await all(client.listRules(topic, name));
    const runtime = plain(await client.getSubscriptionRuntimeProperties(topic, name));
    const updated = plain(await client.updateSubscription({ ...got, maxDeliveryCount: 9, status: "Active" }));
    const kept = (await all(client.listRules(topic, name))).map((rule) => rule.name);
    const listed = (await all(client.listSubscriptions(topic))).map((one) => one.subscriptionName);
    const figures = await all(client.listSubscriptionsRuntimeProperties(topic));
    await client.deleteSubscription(topic, name);
    const gone = await client.subscriptionExists(topic, name);
    return { before, asked: FULL_SUBSCRIPTION, created, got, rules, runtime, updated, kept, listed, figures, gone };
  }),

  ruleLife: administer(async (client, { topic, subscription }) => {
    await client.createTopic(topic);
    await client.createSubscription(topic, subscription);
    const made = [];
    for (const [name, filter, action] of [
      ["sql", { sqlExpression: "color = 'blue' AND size > 3" }, { sqlExpression: "SET size = 4" }],
      ["correlation", { correlationId: "c", subject: "s", to: "t", replyTo: "r", replyToSessionId: "rs", sessionId: "id", messageId: "m", contentType: "x/y" }, undefined],
      ["properties", { applicationProperties: { text: "words", number: 1.5, flag: true } }, undefined],
    ]) {
      const rule = await client.createRule(topic, subscription, name, filter, ...(action ? [action] : []));
      made.push(plain(rule));
    }
    const existed = await client.ruleExists(topic, subscription, "sql");
    const got = plain(await client.getRule(topic, subscription, "sql"));
    got.filter.sqlExpression = "size > 5";
    const updated = plain(await client.updateRule(topic, subscription, got));
    const listed = (await all(client.listRules(topic, subscription))).map((rule) => rule.name);
    await client.deleteRule(topic, subscription, "sql");
    const gone = await client.ruleExists(topic, subscription, "sql");
    return { made, existed, updated, listed, gone };
  }),

  parameters: administer(async (client, { topic, subscription }) => {
    await client.createTopic(topic);
    await client.createSubscription(topic, subscription);
    const when = new Date("2000-01-02T03:04:05.678Z");
    const filter = { sqlExpression: "size > @least AND at < @at", sqlParameters: { "@least": 3, "@at": when } };
    const action = { sqlExpression: "SET note = @note", sqlParameters: { "@note": "seen" } };
    await client.createRule(topic, subscription, "bound", filter, action);
    const rule = await client.getRule(topic, subscription, "bound");
    return { ...plain(rule), isDate: rule.filter.sqlParameters["@at"] instanceof Date };
  }),

  pages: administer(async (client, { topic, subscription, size }) => ({
    queues: await paged(client.listQueues(), size, "name"),
    queueFigures: await paged(client.listQueuesRuntimeProperties(), size, "name"),
    topics: await paged(client.listTopics(), size, "name"),
    subscriptions: await paged(client.listSubscriptions(topic), size, "subscriptionName"),
    rules: await paged(client.listRules(topic, subscription), size, "name"),
  })),

  call: administer(async (client, { operation, given }) => {
    const answer = await client[operation](...given);
    return typeof answer === "object" ? plain(answer) : answer;
  }),

  failure: administer(async (client, { operation, given }) => {
    try {
      await client[operation](...given);
    } catch (error) {
      return { name: error.name, code: error.code, status: error.statusCode, text: error.message };
    }
    throw new Error(`${operation} should have failed`);
  }),
});
