"""The notebooks of tutorials/notebooks run from the first cell to the last (pip install -r tutorials/notebooks/requirements.txt)."""

import pathlib

import pytest

import heddle

nbformat = pytest.importorskip("nbformat")
execute = pytest.importorskip("nbconvert.preprocessors")
for needed in ("ipykernel", "matplotlib"):
    pytest.importorskip(needed)

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tutorials" / "notebooks"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_runs(path, monkeypatch):
    monkeypatch.setenv("HEDDLE_TUTORIAL_SECONDS", "3")
    monkeypatch.setenv("PYTHONPATH", str(pathlib.Path(heddle.__file__).absolute().parents[1]))
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    book = nbformat.read(path, as_version=4)
    lessons = FOLDER.parent / f"{path.stem}.cpp"
    assert lessons.exists(), "a notebook has the name of its lesson in C++"
    execute.ExecutePreprocessor(timeout=120).preprocess(book, {"metadata": {"path": str(FOLDER)}})
    shown = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    pictures = sum("image/png" in output.get("data", {}) for output in shown)
    asked = sum(".plot(" in cell.source for cell in book.cells if cell.cell_type == "code")
    assert pictures == asked > 0
