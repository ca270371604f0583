"""Rules as they are on the wire: every description under the vendor's own number (AMQ-5)."""

from pathlib import Path

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from proton import Described, int32

from conformance.rest.http_bus import HttpBus
from conformance.settlement.management import Management
from support.management import entry
from support.proton.client import Client
from support.server import ServerProcess

pytestmark = pytest.mark.group("proton")

# Filters have a digit less than rules and actions, in the vendor's clients as on its wire.
RULE, EMPTY_ACTION, SQL_ACTION = range(0x13700000004, 0x13700000007)
SQL, TRUE, FALSE, CORRELATION = range(0x1370000006, 0x137000000A)
CONFIG = """
[[topic]]
name = "wire"

[[topic.subscription]]
name = "sub"

[[topic.subscription.rule]]
name = "sql"
sql_filter = "size > 10"
action = "SET seen = 1"

[[topic.subscription.rule]]
name = "correlation"
correlation_filter = { label = "red", properties = { size = 5 } }

[[topic.subscription.rule]]
name = "everything"
"""
NOTHING = (
    '<RuleDescription><Filter i:type="FalseFilter"><SqlExpression>1=0</SqlExpression></Filter>'
    "<Name>nothing</Name></RuleDescription>"
)


@pytest.mark.rule("AMQ-5")
def test_every_kind_of_filter_and_action(tmp_path: Path) -> None:
    config = tmp_path / "namespace.toml"
    config.write_text(CONFIG, encoding="utf-8")
    with ServerProcess(tmp_path, config) as server, Client(server) as client:
        # Over AMQP clients write the false filter as SQL; the administration has a word for it.
        path = "/wire/Subscriptions/sub/Rules/nothing?api-version=2021-05"
        made = HttpBus(server.ready.http_port).ask("PUT", path, entry(NOTHING))
        assert made.status == 201
        node = Management(client, "wire/Subscriptions/sub")
        answer = node.ask("enumerate-rules", {"top": int32(10), "skip": int32(0)})
        rules = {}
        for item in answer.body["rules"]:
            rule = item["rule-description"]
            assert isinstance(rule, Described)
            assert int(rule.descriptor) == RULE
            fields = list(rule.value)
            rules[fields[2]] = [(int(part.descriptor), part.value) for part in fields[:2]]
    (sql, action), (correlation, none) = rules["sql"], rules["correlation"]
    assert (sql[0], action[0]) == (SQL, SQL_ACTION)
    assert (sql[1][0], action[1][0]) == ("size > 10", "SET seen = 1")
    assert (correlation[0], none[0]) == (CORRELATION, EMPTY_ACTION)
    assert [code for code, _ in rules["everything"]] == [TRUE, EMPTY_ACTION]
    assert [code for code, _ in rules["nothing"]] == [FALSE, EMPTY_ACTION]
