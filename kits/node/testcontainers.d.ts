import { AbstractStartedContainer, GenericContainer } from "testcontainers";

import { TestingServer } from "./index.js";

/** A server for tests in a container. */
export class PartibusContainer extends GenericContainer {
  constructor(image?: string);
  /** Entities that every namespace begins with, from a file on this machine. */
  withConfig(file: string): this;
  start(): Promise<StartedPartibusContainer>;
}

export class StartedPartibusContainer extends AbstractStartedContainer {
  /** Of the server's own namespace, as it is reached from here. */
  getConnectionString(): string;
  /** The handle that makes a namespace for each test. */
  server(): TestingServer;
}
