// The server for tests in a container, for Testcontainers: image, ports, environment, what to wait for.

import { AbstractStartedContainer, GenericContainer, Wait } from "testcontainers";

import { TestingServer } from "./index.js";

const IMAGE = "partibus:latest";
const AMQP_PORT = 5672;
const CONFIG_PATH = "/etc/partibus/entities.toml";

export class PartibusContainer extends GenericContainer {
  constructor(image = IMAGE) {
    super(image);
    this.withExposedPorts(AMQP_PORT);
    // Emulator mode listens on every interface, with the published key.
    this.withEnvironment({ PARTIBUS_EMULATOR: "true", PARTIBUS_TESTING: "true" });
    this.withWaitStrategy(Wait.forLogMessage(/PARTIBUS READY/));
  }

  /** Entities that every namespace begins with, from a file on this machine. */
  withConfig(file) {
    this.withEnvironment({ PARTIBUS_CONFIG: CONFIG_PATH });
    return this.withCopyFilesToContainer([{ source: file, target: CONFIG_PATH }]);
  }

  async start() {
    return new StartedPartibusContainer(await super.start());
  }
}

export class StartedPartibusContainer extends AbstractStartedContainer {
  /** Of the server's own namespace, as it is reached from here. */
  getConnectionString() {
    const place = `${this.getHost()}:${this.getMappedPort(AMQP_PORT)}`;
    const key = "SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE";
    return `Endpoint=sb://${place};${key};UseDevelopmentEmulator=true;`;
  }

  /** The handle that makes a namespace for each test. */
  server() {
    return new TestingServer(this.getConnectionString());
  }
}
