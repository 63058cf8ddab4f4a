"""What the page on the prompt shows is what happens."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[1] / "docs" / "prompt.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


def test_the_python_on_the_page_runs(capsys):
    example = blocks("python")[-1]
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
