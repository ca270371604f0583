"""`partibus pipeline ...`: ready-made Spark pipelines over the bus.

Owns only the group. Each verb is a separate module beside this one and imports Spark when it runs,
so that the table is read without it.
"""

import typer

from partibus.cli.verbs.pipeline import analytics as pipeline_analytics
from partibus.cli.verbs.pipeline import capture as pipeline_capture
from partibus.cli.verbs.pipeline import deadletters as pipeline_deadletters
from partibus.cli.verbs.pipeline import replay as pipeline_replay
from partibus.cli.verbs.pipeline import run as pipeline_run
from partibus.cli.verbs.pipeline import status as pipeline_status
from partibus.cli.verbs.pipeline import transform as pipeline_transform

app = typer.Typer(
    help="Ready-made Spark pipelines: capture, replay and more. They need"
    " `pip install 'partibus[spark]'` and Java 17.",
    no_args_is_help=True,
)


app.add_typer(pipeline_capture.app, name="capture")
app.command("replay")(pipeline_replay.replay)
app.command("deadletters")(pipeline_deadletters.deadletters)
app.command("analytics")(pipeline_analytics.analytics)
app.command("transform")(pipeline_transform.transform)
app.command("run")(pipeline_run.run)
app.command("check")(pipeline_run.check)
app.command("status")(pipeline_status.status)
