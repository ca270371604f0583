/** `"7d"`, `"1m30s"`, `"P7D"`, or a number of milliseconds. */
export type Duration = string | number;

/** Properties of an entity, as in a definitions file: `lock_duration: "PT30S"` and so on. */
export type Properties = Record<string, unknown>;

/** The server did not do what was asked; the text is its own, and says what to do. */
export class BusRefused extends Error {
  readonly status: number;
  readonly condition: string;
}

/** The time of a namespace: it runs as the machine's does, and further when it is told to. */
export interface Clock {
  /** Let time pass; all that falls due has happened when the promise is kept. */
  advance(by: Duration): Promise<Date>;
  now(): Promise<Date>;
}

/** A fault that lasts. */
export interface Fault {
  readonly key: string;
  end(): Promise<void>;
}

export interface Lasting {
  /** It ends by itself after so many milliseconds of the namespace's time. */
  forMs?: number;
}

/** Breaks one namespace on purpose; others on the same server notice nothing. */
export interface Faults {
  storeDown(options?: Lasting & { store?: number }): Promise<Fault>;
  storeFull(options?: Lasting & { store?: number }): Promise<Fault>;
  storeSlow(delayMs: number, options?: Lasting & { store?: number }): Promise<Fault>;
  latency(options: Lasting & { rttMs?: number; storeMs?: number }): Promise<Fault>;
  throttle(entity: string, ratePerSecond: number, options?: Lasting): Promise<Fault>;
  /** Answers how many locks were lost. */
  dropLocks(entity: string): Promise<number>;
  /** Answers how many clients were sent away. */
  closeConnections(): Promise<number>;
  standing(): Promise<Record<string, unknown>[]>;
  clear(): Promise<void>;
}

/** Entities, messages, time and faults that no other test sees. */
export class Namespace {
  readonly name: string;
  /** What the program under test connects with. */
  readonly connectionString: string;
  readonly httpUrl: string;
  readonly clock: Clock;
  readonly faults: Faults;
  createQueue(name: string, properties?: Properties): Promise<string>;
  createTopic(name: string, properties?: Properties): Promise<string>;
  /** Answers the path of the subscription. */
  createSubscription(topic: string, name: string, properties?: Properties): Promise<string>;
  deleteEntity(path: string): Promise<void>;
  entities(): Promise<string[]>;
  /** How many messages an entity has: active, dead_letter, scheduled, deferred, ... */
  counts(path: string): Promise<Record<string, number>>;
  /** No entities but those of the server's file, no messages, no faults. */
  reset(): Promise<void>;
  /** The namespace goes with all that is in it; the server's own is emptied. */
  delete(): Promise<void>;
}

/** A test of node:test, as far as it is needed here. */
export interface Test {
  after(callback: () => unknown): void;
}

/** A server that was started with --testing, whoever started it. */
export class TestingServer {
  constructor(connectionString: string, options?: { caFile?: string });
  /** Of the server's own namespace. */
  readonly connectionString: string;
  /** The certificate to trust for TLS; for NODE_EXTRA_CA_CERTS. */
  readonly caFile: string | undefined;
  readonly own: Namespace;
  /** A new namespace, empty but for what the server's file declares. */
  namespace(name?: string): Promise<Namespace>;
  /** A namespace that goes when the test has ended. */
  namespaceFor(test: Test): Promise<Namespace>;
  namespaces(): Promise<string[]>;
  /** Ends the process, if this kit started it. */
  stop(): Promise<void>;
}

export interface StartOptions {
  /** The command to run, `partibus` by default. */
  command?: string;
  /** Entities that every namespace begins with. */
  config?: string;
  /** Further flags of `partibus serve`. */
  flags?: string[];
}

/** Starts `partibus serve --testing` as a child process, on a free port. */
export function startServer(options?: StartOptions): Promise<TestingServer>;

/** The server of PARTIBUS_TEST_CONNECTION_STRING where that is set, else one of our own. */
export function testServer(options?: StartOptions): Promise<TestingServer>;
