"""The second half of the story: what Spark makes of the traffic, with the ready-made pipelines.

Owns one Spark session and the settings of the three runs: capture, analytics, triage. A person
would run each with a verb of `partibus pipeline`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark_servicebus.pipelines.analytics import AnalyticsSettings, analytics
from pyspark_servicebus.pipelines.analytics.report import TrafficReport
from pyspark_servicebus.pipelines.capture import CaptureReport, CaptureSettings, capture
from pyspark_servicebus.pipelines.deadletters import DeadLetterSettings, deadletters
from pyspark_servicebus.pipelines.deadletters.report import DeadLetterReport
from pyspark_servicebus.pipelines.run.place import BusPlace
from pyspark_servicebus.pipelines.run.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BILLING: Final = "orders/Subscriptions/billing"
RULES: Final = Path(__file__).with_name("rules.toml")


class Lake:
    """Spark on this machine, beside the bus."""

    def __init__(self, connection_string: str, directory: Path) -> None:
        self._bus = BusPlace(connection_string=connection_string)
        self._directory = directory
        self.captured_at = directory / "captured"
        self.spark: SparkSession = spark_session(
            "partibus-demo", "local[2,4]", log_file=directory / "spark.log"
        )

    def capture(self) -> CaptureReport:
        """Everything that has passed through billing since the last time, to Parquet."""
        settings = CaptureSettings(
            bus=self._bus, entity=BILLING, target=str(self.captured_at), starting="earliest"
        )
        return capture(self.spark, settings)

    def captured(self) -> "DataFrame":
        """The captured messages."""
        reader = self.spark.read.option("recursiveFileLookup", "true")
        return reader.parquet(str(self.captured_at))

    def analyse(self, output: Path) -> TrafficReport:
        """What the captured traffic looks like, as a report with plots."""
        settings = AnalyticsSettings.from_table(
            {"captured": str(self.captured_at), "output": str(output), "window": "1s"}
        )
        return analytics(self.spark, settings)

    def triage(self, output: Path) -> DeadLetterReport:
        """Find out why orders died, and do what the rules say."""
        settings = DeadLetterSettings(bus=self._bus, rules=str(RULES), output=str(output))
        return deadletters(self.spark, settings)

    def close(self) -> None:
        self.spark.stop()
