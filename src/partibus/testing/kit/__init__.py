"""The test kit behind `partibus.testing`: servers, namespaces, clocks and faults for tests."""
