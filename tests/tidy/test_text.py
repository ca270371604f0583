"""Rules about all text of the repository: nothing about how it came to be, nothing unfinished.

The patterns are spelt so that this file does not match itself.
"""

import re
import stat
from pathlib import Path

from rulebook import rule_ids

from support.repository import ROOT, name_of, repository_files, text_files

FILE_BYTES_MAX = 256 * 1024

CODE = text_files(".py", ".mjs", ".toml", ".sh", ".yaml", ".yml", "")
DOCUMENTS = text_files(".md")

MACHINE_PATHS = re.compile(r"(?<![\w.])/(?:wor[k]|roo[t]|op[t]|hom[e])/")
PROCESS_WORDS = re.compile(
    r"\b(?:issue [#]?\d+|sub-?agen[t]s?|A[I]-(?:generated|written)|la[n]guage model|cha[t]bot)\b",
    re.IGNORECASE,
)
UNFINISHED = re.compile(r"\b(?:TO[D]O|FIX[M]E|XX[X]|HA[C]K)\b")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
MODULE = re.compile(r"`[A-Za-z_][\w/]*\.py`")
CITATION = re.compile(r"\b([A-Z]{3,4})-(\d+)\b")


def found(pattern: re.Pattern[str], paths: list[Path]) -> list[tuple[str, str]]:
    """Every match, with the file it stands in."""
    return [
        (name_of(path), match.group())
        for path in paths
        for match in pattern.finditer(path.read_text(encoding="utf-8"))
    ]


def test_text_does_not_speak_of_machines_or_process() -> None:
    assert not found(MACHINE_PATHS, CODE + DOCUMENTS)
    assert not found(PROCESS_WORDS, CODE + DOCUMENTS)


def test_code_is_finished() -> None:
    assert not found(UNFINISHED, CODE)


def test_links_between_documents_lead_somewhere() -> None:
    broken = [
        (name_of(path), target)
        for path in DOCUMENTS
        for target in LINK.findall(path.read_text(encoding="utf-8"))
        if "://" not in target and not (path.parent / target).exists()
    ]
    assert not broken


def test_modules_that_pages_on_the_internals_name_exist() -> None:
    """Records of decisions speak of their time; the other pages of the present."""
    modules = [name_of(path) for path in CODE]
    pages = [path for path in DOCUMENTS if "docs/internals/" in name_of(path)]
    gone = [
        (name, module)
        for name, module in found(MODULE, pages)
        if not any(f"/{each}".endswith(f"/{module.strip('`')}") for each in modules)
    ]
    assert not gone


def test_cited_rules_exist() -> None:
    known = rule_ids()
    prefixes = {rule.split("-")[0] for rule in known}
    unknown = [
        (name, citation)
        for name, citation in found(CITATION, CODE + DOCUMENTS)
        if citation.split("-")[0] in prefixes and citation not in known
    ]
    assert not unknown


def test_only_scripts_are_executable() -> None:
    wrong = [
        name_of(path)
        for path in repository_files()
        if bool(path.stat().st_mode & stat.S_IXUSR) != path.read_bytes().startswith(b"#!")
    ]
    assert not wrong


def test_no_file_is_large() -> None:
    large = [name_of(p) for p in repository_files() if p.stat().st_size > FILE_BYTES_MAX]
    assert not large


def test_the_lock_file_names_no_private_registry() -> None:
    lock = (ROOT / "tests" / "conformance" / "js" / "package-lock.json").read_text(encoding="utf-8")
    hosts = set(re.findall(r'"resolved": "https?://([^/"]+)', lock))
    assert hosts <= {"registry.npmjs.org"}
