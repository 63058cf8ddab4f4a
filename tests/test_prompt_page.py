"""What the page on the prompt shows is what happens."""

import re
import shlex
from pathlib import Path

from driftbayes.cli.main import build_parser

PAGE = (Path(__file__).parents[1] / "docs" / "prompt.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


def test_the_python_on_the_page_runs(capsys):
    (example,) = blocks("python")
    names = {}
    exec(compile(example, "prompt.md", "exec"), names)
    seen = capsys.readouterr().out
    assert "Trajectories: 20 in 2D, 600 points\n  recorded     every 0.5 d\n" in seen
    assert "Comparison: brownian is the only model considered at tau = 0.5 d\n" in seen
    assert names["table"]["unit"].tolist() == ["km²/d"]


def test_every_conversion_on_the_page_exists():
    import driftbayes

    rows = re.findall(r"^\| `(\w+)` \|(.*)\|(.*)\|(.*)\|$", PAGE, flags=re.MULTILINE)
    assert len(rows) == 4
    for name, *cells in rows:
        for method, cell in zip(("to_dataframe", "to_dataset", "to_datatree"), cells, strict=True):
            assert hasattr(getattr(driftbayes, name), method) == bool(cell.strip())


def test_the_commands_on_the_page_can_be_understood():
    (block,) = blocks("sh")
    for line in block.splitlines():
        words = shlex.split(line.replace("<(", "").replace(")", ""), comments=True)
        words = words[words.index("driftbayes") + 1 :]
        words = words[: words.index(">")] if ">" in words else words
        assert build_parser().parse_known_args(words)[1] == []
