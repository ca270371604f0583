// The generic AMQP client rhea: settle modes, credit, drain and outcomes on the raw protocol.

import rhea from "rhea";
import { run } from "./scenario.mjs";

function connected({ port, policy, key }) {
  return new Promise((resolve, reject) => {
    const container = rhea.create_container();
    // A test ends with its connection; nothing here wants to reconnect.
    const connection = container.connect({
      host: "localhost",
      port,
      username: policy,
      password: key,
      reconnect: false,
    });
    connection.once("connection_open", () => resolve(connection));
    for (const event of ["connection_error", "disconnected", "protocol_error"]) {
      connection.once(event, (context) =>
        reject(connection.get_error() ?? connection.error ?? context?.error ?? new Error(event)),
      );
    }
  });
}

async function withConnection(input, work) {
  const connection = await connected(input);
  try {
    return await work(connection);
  } finally {
    connection.close();
  }
}

const once = (emitter, name) => new Promise((resolve) => emitter.once(name, resolve));

function openSender(connection, options) {
  return new Promise((resolve, reject) => {
    const sender = connection.open_sender(options);
    sender.once("sender_error", () => reject(sender.error));
    sender.once("sendable", () => resolve(sender));
  });
}

// Sends all bodies without waiting in between; resolves when each is accepted (or, pre-settled, sent).
async function send(connection, queue, bodies, options = {}) {
  const sender = await openSender(connection, { target: queue, ...options });
  const settled = options.snd_settle_mode === 1;
  let accepted = 0;
  const all = new Promise((resolve) => {
    sender.on("accepted", () => {
      accepted += 1;
      if (accepted === bodies.length) resolve();
    });
  });
  for (const body of bodies) {
    while (!sender.sendable()) await once(sender, "sendable");
    sender.send({ body });
  }
  if (!settled) await all;
  sender.close();
  await once(sender, "sender_close");
}

// Opens a receiver without credit; `arrived` fills as messages come.
async function openReceiver(connection, queue, options = {}) {
  const receiver = connection.open_receiver({
    source: queue,
    credit_window: 0,
    autoaccept: false,
    autosettle: false,
    ...options,
  });
  const arrived = [];
  const waiting = [];
  receiver.on("message", ({ message, delivery }) => {
    arrived.push({ message, delivery });
    for (const check of waiting) check();
  });
  receiver.waitFor = (count) =>
    new Promise((resolve) => {
      const check = () => {
        if (arrived.length >= count) resolve(arrived);
      };
      waiting.push(check);
      check();
    });
  receiver.arrived = arrived;
  await once(receiver, "receiver_open");
  return receiver;
}

const RECEIVE_AND_DELETE = { snd_settle_mode: 1, rcv_settle_mode: 0, autosettle: true };

async function take(connection, queue, count) {
  const receiver = await openReceiver(connection, queue, RECEIVE_AND_DELETE);
  receiver.add_credit(count);
  const arrived = await receiver.waitFor(count);
  receiver.close();
  return arrived.map(({ message }) => message.body);
}

await run({
  sendAndTake: (input) =>
    withConnection(input, async (connection) => {
      await send(connection, input.queue, input.bodies);
      return take(connection, input.queue, input.bodies.length);
    }),

  preSettled: (input) =>
    withConnection(input, async (connection) => {
      await send(connection, input.queue, input.bodies, { snd_settle_mode: 1 });
      return take(connection, input.queue, input.bodies.length);
    }),

  credit: (input) =>
    withConnection(input, async (connection) => {
      await send(connection, input.queue, [0, 1, 2, 3, 4]);
      const receiver = await openReceiver(connection, input.queue);
      receiver.add_credit(2);
      await receiver.waitFor(2);
      // A round trip on the same connection: what was sent before it would have arrived.
      await send(connection, input.queue, ["round trip"]);
      return receiver.arrived.map(({ message }) => message.body);
    }),

  drain: (input) =>
    withConnection(input, async (connection) => {
      await send(connection, input.queue, ["one", "two"]);
      const receiver = await openReceiver(connection, input.queue);
      receiver.drain = true;
      const drained = once(receiver, "receiver_drained");
      receiver.add_credit(5);
      await drained;
      return { bodies: receiver.arrived.map(({ message }) => message.body), credit: receiver.credit };
    }),

  outcomes: (input) =>
    withConnection(input, async (connection) => {
      await send(connection, input.queue, ["one"]);
      const receiver = await openReceiver(connection, input.queue, { rcv_settle_mode: 0 });
      const counts = [];
      for (const [number, outcome] of input.outcomes.entries()) {
        receiver.add_credit(1);
        const { message, delivery } = (await receiver.waitFor(number + 1))[number];
        counts.push(message.delivery_count ?? 0);
        if (outcome === "released") delivery.release();
        else if (outcome === "modified") delivery.modified({ delivery_failed: true, undeliverable_here: false });
        else delivery.accept();
      }
      return counts;
    }),

  missingQueue: (input) =>
    withConnection(input, async (connection) => {
      const sender = connection.open_sender({ target: input.queue });
      await once(sender, "sender_error");
      return sender.error.condition;
    }),

  connect: (input) => withConnection(input, async () => "connected"),
});
