"""The page about the machine shows the tables that the machine runs on."""

from machine_page import PAGE, diagrams, filled, table

from partibus.fragment import machine


def test_the_page_is_made_from_the_tables() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == filled(page), "run: python tools/machine_page.py --write"


def test_the_tables_are_read_whole() -> None:
    assert table("HANDLERS").keys() == {command.__name__ for command in machine.HANDLERS}
    assert table("COMMITS").keys() == {change.__name__ for change in machine.COMMITS}
    assert table("ABORTS").keys() == table("COMMITS").keys()


def test_every_command_is_shown() -> None:
    shown = "\n".join(diagrams().values())
    assert not [name for name in table("HANDLERS") if f"| `{name}` |" not in shown]
    assert "`ClaimMessages` | `claims.behaviour.claim_messages` | `ClaimRenewal`" in shown
