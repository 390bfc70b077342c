"""LaTeX becomes what a reader of the document reads, in linear time."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.registry import operator_class
from dataplane.testing import Example, conformance
from dataplane.transforms.latex_text import LatexText, plain_text

TEX = {"mime": "text/x-tex"}


def test_it_is_registered_and_conforms() -> None:
    assert operator_class("latex_text") is LatexText
    conformance(LatexText, examples=[Example(r"\emph{A} $x$ % no", columns=TEX), Example(r"\emph{A}", columns={"mime": None})])


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"\emph{words} and \textbf{bold \textit{both}}", "words and bold both"),
        ("50\\% of % a comment\n  the text", "50% of the text"),
        (r"let $x_1 \in \mathbb{R}$ and \(y\)", r"let $x_1 \in \mathbb{R}$ and \(y\)"),
        ("a\n\\begin{equation}\n  x % no\n\\end{equation}\nb", "a\n\n\\begin{equation}\n  x \\end{equation}\n\nb"),
        (r"\section{One}\label{s} text \subsection*{Two} more", "## One\n\ntext\n\n### Two\n\nmore"),
        (r"\begin{itemize}\item one \item[x] two\end{itemize}", "- one\n- two"),
        (r"as in \cite[p.~3]{key} and Figure~\ref{f}", "as in and Figure"),
        (r"Erd\H{o}s, G\"odel, na\"{\i}ve, \c{c}a, \'Etude", "Erdős, Gödel, naïve, ça, Étude"),
        ("``quoted'' --- 1--2 \\& co\\ldots{} end", "“quoted” — 1–2 & co… end"),
        ("\\begin{verbatim}\nx = 1 % 2 \\emph{no}\n\\end{verbatim}", "x = 1 % 2 \\emph{no}"),
        (r"\href{http://h.test}{label} \textcolor{red}{seen}", "label seen"),
        (r"\newcommand{\sys}{Our System\xspace}\sys{} runs; \system stays", "Our System runs; stays"),
        (r"\begin{tabular}{lr} a & b \\ c & d \end{tabular}", "a | b\nc | d"),
        (r"costs \$5 and \$6", "costs $5 and $6"),
        (r"word\footnote{a note} next", "word (a note) next"),
        ("中文\\textbf{字}，$a$", "中文字，$a$"),
    ],
)
def test_markup_becomes_text(latex: str, text: str) -> None:
    assert plain_text(latex) == text


def test_the_preamble_goes_and_the_title_stays() -> None:
    latex = (
        "\\documentclass[a4paper]{article}\n\\usepackage{x}\n\\title{On \\emph{Things}}\n\\author{Nobody}\n"
        "\\begin{document}\n\\maketitle\n\\begin{abstract}Short.\\end{abstract}\nLong.\n\\end{document}\nafter"
    )
    assert plain_text(latex) == "# On Things\n\nShort.\n\nLong."


@given(st.text(st.sampled_from("\\{}[]$%&~ \nbeginend*a中"), max_size=80))
def test_anything_is_read(latex: str) -> None:
    assert "\x00" not in plain_text(latex)


@pytest.mark.parametrize(
    "piece", ["{", "}", "\\begin{a}", "$", "\\[", "\\begin{verbatim}", "\\footnote{", "%", "\\title{", "\\newcommand\\a{"]
)
def test_time_is_linear(piece: str) -> None:
    start = time.perf_counter()
    plain_text(piece * 40_000)
    assert time.perf_counter() - start < 4
