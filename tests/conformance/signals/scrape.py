"""A scrape as Prometheus makes it, read with Prometheus' own parser."""

import http.client

from prometheus_client.parser import text_string_to_metric_families

from support.server import ServerProcess


def read(server: ServerProcess, headers: dict[str, str] | None = None) -> tuple[int, str]:
    ready = server.ready
    connection = http.client.HTTPConnection(ready.http_host, ready.http_port, timeout=60)
    try:
        connection.request("GET", "/metrics", headers=headers or {})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


class Scrape:
    """The samples of one scrape."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self._samples = [s for family in self.families.values() for s in family.samples]

    def value(self, name: str, **labels: str) -> float:
        """The sum over all series that have these labels."""
        found = [
            s.value for s in self._samples if s.name == name and labels.items() <= s.labels.items()
        ]
        assert found, f"{name} {labels} is not there"
        return sum(found)

    def labels(self, name: str, label: str) -> set[str]:
        return {s.labels[label] for s in self._samples if s.name == name}


def scrape(server: ServerProcess) -> Scrape:
    status, text = read(server)
    assert status == 200, text
    return Scrape(text)
