// Stands in for testcontainers 12 where no container engine is: a process in place of a container. Has what our
// module uses; what runs is the real server, with the environment that the container would get.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

export const Wait = { forLogMessage: (pattern) => ({ pattern }) };

export class GenericContainer {
  constructor(image) {
    this.image = image;
    this.environment = {};
    this.exposedPorts = [];
    this.files = {};
  }

  withExposedPorts(...ports) {
    this.exposedPorts.push(...ports);
    return this;
  }

  withEnvironment(environment) {
    this.environment = { ...this.environment, ...environment };
    return this;
  }

  withWaitStrategy(strategy) {
    this.waitStrategy = strategy;
    return this;
  }

  withCopyFilesToContainer(files) {
    for (const { source, target } of files) this.files[target] = source;
    return this;
  }

  async start() {
    const inside = Object.entries(this.environment).map(([key, value]) => [key, this.files[value] ?? value]);
    const picked = { PARTIBUS_PORT: "0", PARTIBUS_HTTP_PORT: "0", PARTIBUS_HOST: "127.0.0.1" };
    const env = { ...process.env, ...Object.fromEntries(inside), ...picked };
    const child = spawn("partibus", ["serve"], { env, stdio: ["ignore", "pipe", "ignore"] });
    for await (const line of createInterface({ input: child.stdout })) {
      if (this.waitStrategy.pattern.test(line)) return new Started(child, line, this.exposedPorts);
    }
    throw new Error("the container ended before it was ready");
  }
}

class Started {
  constructor(child, line, ports) {
    this.child = child;
    this.port = Number(/amqp=127\.0\.0\.1:(\d+)/.exec(line)[1]);
    this.ports = ports;
  }

  getHost() {
    return "127.0.0.1";
  }

  getMappedPort(port) {
    if (!this.ports.includes(port)) throw new Error(`port ${port} is not exposed`);
    return this.port;
  }

  async stop() {
    const ended = new Promise((resolve) => this.child.once("exit", resolve));
    this.child.kill("SIGTERM");
    await ended;
  }
}

export class AbstractStartedContainer {
  constructor(started) {
    this.startedTestContainer = started;
  }

  getHost() {
    return this.startedTestContainer.getHost();
  }

  getMappedPort(port) {
    return this.startedTestContainer.getMappedPort(port);
  }

  stop() {
    return this.startedTestContainer.stop();
  }
}
