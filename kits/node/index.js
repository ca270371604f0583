// Tests against Partibus, for node:test or any other runner: a server as a child process, a
// namespace for each test, its time and its faults. Nothing but the standard library is used.

import { spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { createInterface } from "node:readline";

const PREFIX = "/$partibus";
const TOKEN_SECONDS = 300;
const START_MS_MAX = 60_000;
const READY = /^PARTIBUS READY .* ca=(\S+) connection-string=(.*)$/;

/** The server did not do what was asked; the text is its own, and says what to do. */
export class BusRefused extends Error {
  constructor(text, status, condition) {
    super(text);
    this.name = "BusRefused";
    this.status = status;
    this.condition = condition;
  }
}

function parse(connectionString) {
  const fields = {};
  for (const part of connectionString.split(";")) {
    const at = part.indexOf("=");
    if (at > 0) fields[part.slice(0, at).trim().toLowerCase()] = part.slice(at + 1).trim();
  }
  const endpoint = fields.endpoint ?? "";
  const authority = endpoint.replace(/^\w+:\/\//, "").replace(/\/$/, "");
  if (!authority || !fields.sharedaccesskeyname || !fields.sharedaccesskey) {
    throw new TypeError("the connection string needs Endpoint, SharedAccessKeyName and SharedAccessKey");
  }
  const isPlain = (fields.usedevelopmentemulator ?? "").toLowerCase() === "true";
  return { authority, keyName: fields.sharedaccesskeyname, key: fields.sharedaccesskey, isPlain };
}

function write({ authority, keyName, key, isPlain }) {
  const plain = isPlain ? "UseDevelopmentEmulator=true;" : "";
  return `Endpoint=sb://${authority};SharedAccessKeyName=${keyName};SharedAccessKey=${key};${plain}`;
}

/** The administration of one namespace: signed JSON over HTTP. */
class Control {
  constructor(place) {
    this.place = place;
    this.url = `${place.isPlain ? "http" : "https"}://${place.authority}`;
  }

  async ask(method, path, body, query = {}) {
    const address = new URL(this.url + PREFIX + path.split("/").map(encodeURIComponent).join("/"));
    for (const [name, value] of Object.entries(query)) address.searchParams.set(name, value);
    const response = await fetch(address, {
      method,
      headers: { authorization: this.#token() },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    let answer;
    try {
      answer = JSON.parse(text);
    } catch {
      throw new BusRefused(`${this.url} answers ${response.status}: ${text.trim()}`, response.status, "");
    }
    if (response.ok) return answer;
    throw new BusRefused(answer.error?.text ?? text, response.status, answer.error?.condition ?? "");
  }

  #token() {
    const resource = encodeURIComponent(`${this.url}/`);
    const expires = Math.floor(Date.now() / 1000) + TOKEN_SECONDS;
    const signature = createHmac("sha256", this.place.key).update(`${resource}\n${expires}`).digest("base64");
    const name = encodeURIComponent(this.place.keyName);
    return `SharedAccessSignature sr=${resource}&sig=${encodeURIComponent(signature)}&se=${expires}&skn=${name}`;
  }
}

/** The time of a namespace: it runs as the machine's does, and further when it is told to. */
class Clock {
  #control;

  constructor(control) {
    this.#control = control;
  }

  /** Let time pass; all that falls due has happened when the promise is kept. */
  async advance(by) {
    const spoken = typeof by === "number" ? `${Math.round(by)}ms` : by;
    return new Date((await this.#control.ask("POST", "/clock/advance", { by: spoken })).now_ms);
  }

  async now() {
    return new Date((await this.#control.ask("GET", "/clock")).now_ms);
  }
}

/** Breaks one namespace on purpose; what was asked for holds when the promise is kept. */
class Faults {
  #control;

  constructor(control) {
    this.#control = control;
  }

  storeDown({ store = 0, forMs } = {}) {
    return this.#begin(`store ${store}`, { kind: "store", store, mode: "down" }, forMs);
  }

  storeFull({ store = 0, forMs } = {}) {
    return this.#begin(`store ${store}`, { kind: "store", store, mode: "full" }, forMs);
  }

  storeSlow(delayMs, { store = 0, forMs } = {}) {
    return this.#begin(`store ${store}`, { kind: "store", store, mode: "slow", delay_ms: delayMs }, forMs);
  }

  latency({ rttMs = 0, storeMs = 0, forMs } = {}) {
    return this.#begin("latency", { kind: "latency", rtt_ms: rttMs, store_ms: storeMs }, forMs);
  }

  throttle(entity, ratePerSecond, { forMs } = {}) {
    return this.#begin(`throttle ${entity}`, { kind: "throttle", entity, rate_per_s: ratePerSecond }, forMs);
  }

  async dropLocks(entity) {
    return (await this.#control.ask("POST", "/faults", { kind: "locks", entity })).count;
  }

  async closeConnections() {
    return (await this.#control.ask("POST", "/faults", { kind: "connections" })).count;
  }

  async standing() {
    return (await this.#control.ask("GET", "/faults")).faults;
  }

  async clear() {
    await this.#control.ask("DELETE", "/faults");
  }

  async #begin(key, fault, forMs) {
    await this.#control.ask("POST", "/faults", forMs === undefined ? fault : { ...fault, for_ms: forMs });
    return { key, end: () => this.#control.ask("DELETE", "/faults", undefined, { key }).then(() => undefined) };
  }
}

/** Entities, messages, time and faults that no other test sees. */
export class Namespace {
  #control;
  #owner;

  constructor(place, owner) {
    this.#control = new Control(place);
    this.#owner = owner;
    this.name = place.keyName;
    this.connectionString = write(place);
    this.httpUrl = this.#control.url;
    this.clock = new Clock(this.#control);
    this.faults = new Faults(this.#control);
  }

  async createQueue(name, properties = {}) {
    return this.#create("queue", name, properties);
  }

  async createTopic(name, properties = {}) {
    return this.#create("topic", name, properties);
  }

  async createSubscription(topic, name, properties = {}) {
    return this.#create("subscription", `${topic}/subscriptions/${name}`, properties);
  }

  async deleteEntity(path) {
    await this.#control.ask("DELETE", `/entities/${path}`);
  }

  async entities() {
    return (await this.#control.ask("GET", "/entities")).entities.map((entity) => entity.name);
  }

  async counts(path) {
    return (await this.#control.ask("GET", `/entities/${path}`)).totals;
  }

  /** No entities but those of the server's file, no messages, no faults. */
  async reset() {
    await this.#control.ask("POST", "/reset");
  }

  /** The namespace goes with all that is in it; the server's own is emptied. */
  async delete() {
    if (this.#owner === undefined) await this.reset();
    else await this.#owner.ask("DELETE", `/namespaces/${this.name}`);
  }

  async #create(kind, name, properties) {
    return (await this.#control.ask("POST", "/entities", { name, kind, properties })).name;
  }
}

/** A server that was started with --testing, whoever started it. */
export class TestingServer {
  #control;
  #child;

  constructor(connectionString, { caFile, child } = {}) {
    const place = parse(connectionString);
    this.connectionString = connectionString;
    this.caFile = caFile;
    this.own = new Namespace(place);
    this.#control = new Control(place);
    this.#child = child;
  }

  /** A new namespace, empty but for what the server's file declares. */
  async namespace(name) {
    const made = await this.#control.ask("POST", "/namespaces", name === undefined ? {} : { name });
    return new Namespace({ ...this.#control.place, keyName: made.key_name, key: made.key }, this.#control);
  }

  /** A namespace that goes when the test of node:test has ended. */
  async namespaceFor(test) {
    const namespace = await this.namespace();
    test.after(() => namespace.delete());
    return namespace;
  }

  async namespaces() {
    return (await this.#control.ask("GET", "/namespaces")).namespaces.map((namespace) => namespace.name);
  }

  /** Ends the process, if this kit started it. */
  async stop() {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined || child.exitCode !== null) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGTERM");
    await ended;
  }
}

/** Starts `partibus serve --testing` as a child process, on a free port. */
export async function startServer({ command = "partibus", config, flags = [] } = {}) {
  const words = ["serve", "--testing", "--port", "0", "--tls-port", "none", "--http-port", "none"];
  if (config !== undefined) words.push("--config", config);
  const child = spawn(command, [...words, ...flags], { stdio: ["ignore", "pipe", "pipe"] });
  const [, caFile, connectionString] = await ready(child);
  return new TestingServer(connectionString, { caFile, child });
}

/** The READY line of a server, or an error that says what it said instead. */
function ready(child) {
  let said = "";
  child.stderr.on("data", (data) => (said = (said + data).slice(-4000)));
  return new Promise((resolve, reject) => {
    const failed = (why) => {
      clearTimeout(late);
      child.kill("SIGKILL");
      reject(new Error(`partibus did not start: ${why}\n${said}`));
    };
    const late = setTimeout(() => failed("no READY line in time"), START_MS_MAX);
    child.once("error", (error) => failed(error.message));
    child.once("exit", (code) => failed(`exit code ${code}`));
    createInterface({ input: child.stdout }).on("line", (line) => {
      const match = READY.exec(line);
      if (match === null) return;
      clearTimeout(late);
      child.removeAllListeners("exit");
      resolve(match);
    });
  });
}

/** The server of PARTIBUS_TEST_CONNECTION_STRING where that is set, else one of our own. */
export async function testServer(options = {}) {
  const running = process.env.PARTIBUS_TEST_CONNECTION_STRING;
  if (!running) return startServer(options);
  return new TestingServer(running, { caFile: process.env.PARTIBUS_TEST_CA_FILE });
}
