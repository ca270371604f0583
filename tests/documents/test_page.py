"""How a page is read: its blocks, their names, and the signs before them."""

from pathlib import Path

from documents.page import groups_of, read_page

PAGE = """# A page

Save this one as `bus.toml`:

```toml
[[queue]]
```

<!-- not run: needs a certificate -->
```sh
partibus serve
```

<!-- terminal: ready. -->
<!-- group: proton -->
```sh
python worker.py
```

<!-- not run: this sign stands too far away -->

Prose between them.

```js
x();
```

<!-- output varies -->
```sh
partibus pipeline capture orders lake
```
"""


def test_the_blocks_of_a_page(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(PAGE, encoding="utf-8")
    config, serve, worker, script, capture = read_page(path)
    assert (config.language, config.saved_as, config.line) == ("toml", "bus.toml", 5)
    assert (serve.is_run, serve.not_run) == (False, "needs a certificate")
    assert (worker.ready_words, worker.group) == ("ready.", "proton")
    assert (script.is_run, script.group) == (True, "javascript")
    assert (capture.group, capture.is_exact) == ("spark", False)
    assert groups_of([config, serve, worker, script, capture]) == ["javascript", "proton", "spark"]


def test_the_cells_of_a_notebook_are_run_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("<!-- notebook: tests/spark/test_x.py -->\n\n```python\nx = 1\n```\n", "utf-8")
    (cell,) = read_page(path)
    assert cell.not_run == "a cell, which tests/spark/test_x.py runs"
