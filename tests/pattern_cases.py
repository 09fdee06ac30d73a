"""Regular expressions, drawn at random, and texts for them."""

from __future__ import annotations

from hypothesis import strategies as st

TEXTS = ["", "a", "b", "ab", "aab", "abc", "b a", "a_1", "12", "-", "a-b", "x.y", "[a]", "a\nb", "ab\n", "é", "A", "()"]

_atoms = st.sampled_from(
    [
        "a",
        "b",
        "1",
        ".",
        r"\d",
        r"\w",
        r"\s",
        r"\D",
        r"\W",
        r"\S",
        "[ab]",
        "[^a]",
        r"[\d_-]",
        "[a-c]",
        r"\.",
        r"\[",
        "é",
    ]
)
PATTERNS = st.recursive(
    st.one_of(_atoms, st.sampled_from(["^", "$", r"\b", r"\B", ""])),
    lambda inner: st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds("{}|{}".format, inner, inner),
        st.builds("({})".format, inner),
        st.builds("(?:{}){}".format, inner, st.sampled_from(["*", "+", "?", "*?", "+?", "{2}", "{1,2}", "{0,}"])),
    ),
    max_leaves=6,
)
