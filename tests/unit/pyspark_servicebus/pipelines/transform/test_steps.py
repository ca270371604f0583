"""Steps as they are written, without Spark."""

import pytest

from pyspark_servicebus.pipelines.run.settings import SettingsError
from pyspark_servicebus.pipelines.transform.steps import spark_words, step_of


def test_a_step_with_options() -> None:
    step = step_of(1, {"stateful": "m:f", "key": ["a", "b"], "arguments": {"x": 1}})
    assert (step.kind, step.value, step.knows_rows) == ("stateful", "m:f", True)
    assert not step_of(1, {"filter": "true"}).knows_rows


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({}, "step 3: it is empty; write one of sql, filter"),
        ({"sq": "x"}, r"step 3: sq: unknown key; did you mean sql\?"),
        (
            {"sql": "x", "filter": "y"},
            "step 3: it has sql and filter; write them as separate steps",
        ),
        ({"sql": ""}, r"step 3 \(sql\): a string is needed"),
        ({"select": "body"}, r"step 3 \(select\): a list of strings is needed, not 'body'"),
        ({"rename": {"a": 1}}, r"step 3 \(rename\): a table of strings is needed"),
        ({"sql": "x", "key": "a"}, r"step 3 \(sql\): key: unknown key"),
        ({"python": "m:f", "argument": {}}, "argument: .*did you mean arguments"),
        ({"stateful": "m:f"}, r"step 3 \(stateful\): key: it is missing"),
        (
            {"stateful": "m:f", "key": "a", "forget_after": "x"},
            "forget_after: 'x' is not a valid duration",
        ),
    ],
)
def test_refused(table: dict[str, object], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        step_of(3, table)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `a` cannot be resolved. "
            "SQLSTATE: 42703; line 1 pos 7;\n'Project ['a]\n",
            "A column with name `a` cannot be resolved. line 1 pos 7.",
        ),
        (
            "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'selec'. SQLSTATE: 42601 (line 1, "
            "pos 0)\n\n== SQL ==\nselec body\n^^^\n",
            "Syntax error at or near 'selec'. (line 1, pos 0).",
        ),
    ],
)
def test_what_spark_says(text: str, words: str) -> None:
    assert spark_words(text) == words
