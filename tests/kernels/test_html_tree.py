"""The tree of a page is the one that browsers' rules give, for any markup, and in linear time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.kernels.html_names import NAMES
from dataplane.kernels.html_tree import END, LAST, PARENT, START, TAG, tree

PIECES = [
    *"<div> </div> <p> </p> <li> <ul> </ul> <td> <tr> <table> </table> <script> </script> <title>".split(),
    *"<!-- --> <b </b> <br/> <body> <math>".split(),
    *("<a href='x>", "text ", "中文", "<", ">", "&lt;", "\0"),
]


def outline(html: str) -> str:
    """The tree as S-expressions."""
    data = html.encode()
    rows = tree(np.frombuffer(data, np.uint8), data.count(b"<"))[0].tolist()

    def node(at: int) -> str:
        tag, start, end, last = (rows[at][column] for column in (TAG, START, END, LAST))
        if at and tag == 0:
            return repr(data[start:end].decode())
        children, child = [], at + 1
        while child < last:
            children.append(node(child))
            child = rows[child][LAST]
        return f"({' '.join([NAMES[tag] or 'page', *children])})"

    return node(0)


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<p>a<p>b<div>c</div>", "(page (p 'a') (p 'b') (div 'c'))"),
        ("<ul><li>a<ul><li>b</ul><li>c</ul>d", "(page (ul (li 'a' (ul (li 'b'))) (li 'c')) 'd')"),
        ("<table><tr><td>a<td>b<tr><td>c</table>", "(page (table (tr (td 'a') (td 'b')) (tr (td 'c'))))"),
        ("<td>a</div></td>", "(page (td 'a'))"),
        ("<b>a<div>b</b>c</div>d", "(page (b 'a' (div 'b' 'c') 'd'))"),
        ("<script>if (a<b) '</div>'</script>x", "(page (script \"if (a<b) '</div>'\") 'x')"),
        ("a<!-- <p> -->b<!doctype html>c", "(page 'a' 'b' 'c')"),
        ("3 < 4<br>5<img alt='>'>6", "(page '3 < 4' (br) '5' (img) '6')"),
        ("<svg><path/><path/></svg>x", "(page (svg (?) (?)) 'x')"),
        ("<head><title>t</title><p>x", "(page (head (title 't')) (p 'x'))"),
        ("</p></x>a", "(page 'a')"),
    ],
)
def test_missing_ends_are_filled_in_and_stray_ones_passed_over(html: str, expected: str) -> None:
    assert outline(html) == expected


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_any_markup_is_a_tree_in_document_order(html: str) -> None:
    data = html.encode()
    rows, depth = tree(np.frombuffer(data, np.uint8), data.count(b"<"))
    order = np.arange(len(rows))
    assert (rows[1:, PARENT] < order[1:]).all()
    assert (rows[1:, LAST] > order[1:]).all()
    assert (rows[1:, LAST] <= rows[rows[1:, PARENT], LAST]).all()
    assert (rows[1:, START] <= rows[1:, END]).all()
    assert (np.diff(rows[:, START]) >= 0).all()
    assert (rows[:, END] <= len(data)).all()
    assert 0 <= depth <= data.count(b"<")
