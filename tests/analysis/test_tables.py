import re
import xml.etree.ElementTree as ET

import pytest

from solar_tf.analysis.tables import Table

TABLE = Table("A & B", ["model", "P@1"], [["a_b|c", "43.12"], ["<x> 5 %", "-"]], ["See §3."], "t")


def test_markdown_has_a_title_a_row_each_and_notes():
    text = TABLE.markdown(3)
    lines = text.split("\n")
    assert lines[0] == "### A & B"
    assert lines[2:5] == [
        "| model   |   P@1 |", "|---------|------:|", "| a_b\\|c  | 43.12 |",
    ]  # fmt: skip
    assert text.endswith("See §3.\n")


def test_latex_escapes_what_latex_would_read():
    text = TABLE.latex()
    assert r"\begin{tabular}{lr}" in text
    assert r"a\_b\textbar{}c & 43.12 \\" in text
    assert r"\textless{}x\textgreater{} 5 \% & - \\" in text
    assert r"\caption{A \& B. See \S{}3.}" in text
    assert not re.search(r"(?<!\\)[%#_]", text.replace("tab:t", ""))


def test_html_is_well_formed_and_escaped():
    root = ET.fromstring(f"<div>{TABLE.html()}</div>".replace("class=scroll", 'class="scroll"')
                         .replace("class=note", 'class="note"'))  # fmt: skip
    cells = [cell.text for cell in root.iter("td")]
    assert cells == ["a_b|c", "43.12", "<x> 5 %", "-"]
    assert [cell.get("class") for cell in root.iter("td")] == [None, "n", None, "n"]


def test_a_row_of_another_length_is_refused():
    with pytest.raises(ValueError, match="a row of 1 cells"):
        Table("t", ["a", "b"], [["only one"]])


def test_a_table_without_rows_says_so():
    assert "(nothing)" in Table("t", ["a"], []).markdown()
    assert "(nothing)" in Table("t", ["a"], []).text()
