"""`partibus cluster init` and `join`: certificates that the nodes of one cluster take from each
other."""

import ssl
from pathlib import Path

import pytest
from typer.testing import CliRunner

from partibus.cli.verb_table import command_tree
from partibus.cluster.peer_certificates import CA_FILE, CA_KEY_FILE, peer_context


def cluster(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(command_tree(["cluster"]), ["cluster", *arguments])
    return result.exit_code, result.stdout + result.stderr


def test_a_cluster_and_a_further_node(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert cluster("init", str(first), "--name", "alpha")[0] == 0
    code, _ = cluster("join", str(second), "--authority", str(first), "--name", "beta")
    assert code == 0
    assert (first / CA_FILE).read_bytes() == (second / CA_FILE).read_bytes()
    # Only who made the cluster can add nodes.
    assert (first / CA_KEY_FILE).exists() and not (second / CA_KEY_FILE).exists()
    assert (first / CA_KEY_FILE).stat().st_mode & 0o077 == 0
    for directory in (first, second):
        peer_context(directory, ssl.Purpose.CLIENT_AUTH)


def test_an_authority_is_never_replaced(tmp_path: Path) -> None:
    assert cluster("init", str(tmp_path))[0] == 0
    before = (tmp_path / CA_FILE).read_bytes()
    code, text = cluster("init", str(tmp_path))
    assert code == 2 and "already holds the authority" in text
    assert (tmp_path / CA_FILE).read_bytes() == before


def test_a_script_may_ask_for_an_authority_again_and_again(tmp_path: Path) -> None:
    assert cluster("init", str(tmp_path), "--if-absent")[0] == 0
    before = (tmp_path / CA_FILE).read_bytes()
    code, text = cluster("init", str(tmp_path), "--if-absent")
    assert code == 0 and "already exists" in text
    assert (tmp_path / CA_FILE).read_bytes() == before


def test_what_is_missing_or_wrong_is_named(tmp_path: Path) -> None:
    code, text = cluster("join", str(tmp_path / "b"), "--authority", str(tmp_path), "--name", "b")
    assert code == 2 and "partibus cluster init" in text
    code, text = cluster("init", str(tmp_path / "c"), "--name", "Not a name")
    assert code != 0 and "is not a valid node name" in text


def test_a_token_is_printed_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The log of the process belongs to pytest here.
    monkeypatch.setattr("partibus.ops.logging.configure_logging", lambda level: None)
    assert cluster("init", str(tmp_path))[0] == 0
    words = ("admit", "--authority", str(tmp_path), "--host", "127.0.0.1", "--minutes", "0")
    code, text = cluster(*words)
    assert code == 0 and text.startswith("partibus-join-")
    node = str(tmp_path / "node")
    code, told = cluster("join", node, "--name", "b", "--token", text.split()[0])
    assert code != 0 and "The token has expired" in told
    code, told = cluster("join", node, "--name", "b")
    assert code == 2 and "either --authority or --token" in told
