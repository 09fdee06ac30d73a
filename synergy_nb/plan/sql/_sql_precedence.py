"""The precedence of IS and of comparisons, as in PostgreSQL and DuckDB, in text that sqlglot is to parse.

sqlglot binds IS closer than a comparison: it reads ``b = c IS NULL`` as ``b = (c IS NULL)``, and its tree does not tell
the two apart. In PostgreSQL, DuckDB and the standard it is ``(b = c) IS NULL``. Engines also differ in
``a = b < c``, which PostgreSQL and DuckDB refuse. So the text is made unambiguous before it is parsed.
"""

from __future__ import annotations

from typing import Final

from synergy_nb.plan.terms.units import WrongValue

_COMPARISONS: Final = frozenset({"EQ", "NEQ", "LT", "LTE", "GT", "GTE"})
_IS: Final = frozenset({"IS", "ISNULL", "NOTNULL"})
_PREDICATES: Final = frozenset({"IN", "BETWEEN", "LIKE"})  # predicates of which NOT is a part if they are negated
_OPENING: Final = frozenset({"L_PAREN", "CASE"})
_CLOSING: Final = frozenset({"R_PAREN", "END"})
#: Words behind which another operand begins.
_BETWEEN_OPERANDS: Final = frozenset({"AND", "OR", "NOT", "COMMA", "WHEN", "THEN", "ELSE"})


class _Operand:
    """The operand of AND, OR, NOT or a list that is being read, at one depth of parentheses.

    ``compared``: whether it has a comparison that no IS has ended; ``between``: whether the next AND belongs to a
    BETWEEN.
    """

    def __init__(self, first: int) -> None:
        self.first = first  # number of its first token
        self.compared = False
        self.between = False


def with_parentheses(text: str) -> str | WrongValue:
    """Write parentheses around a comparison that IS tests; return what is wrong if comparisons are chained.

    Examples
    --------
    >>> with_parentheses("a AND NOT b = c IS NULL")
    'a AND NOT (b = c) IS NULL'
    >>> with_parentheses("a < b < c").expected
    'comparisons that are connected by AND, or parentheses around one of them'
    """
    import sqlglot  # noqa: PLC0415 - takes 0.2 s, and most peers never need it

    tokens = sqlglot.tokenize(text)
    kinds = ["", *(token.token_type.name for token in tokens), ""]  # with a neighbour at either end
    operands = [_Operand(0)]
    added: list[tuple[int, str]] = []
    for number in range(len(tokens)):
        before, kind, after = kinds[number : number + 3]
        current = operands[-1]
        if kind in _OPENING:
            operands.append(_Operand(number + 1))
        elif kind in _CLOSING and len(operands) > 1:
            operands.pop()
        elif kind == "BETWEEN":
            current.between = True
        elif kind == "AND" and current.between:
            current.between = False
        elif kind in _BETWEEN_OPERANDS and not (kind == "NOT" and (before == "IS" or after in _PREDICATES)):
            operands[-1] = _Operand(number + 1)
        elif kind in _COMPARISONS:
            if current.compared:
                return WrongValue(text, "comparisons that are connected by AND, or parentheses around one of them")
            current.compared = True
        elif kind in _IS and current.compared:
            added += [(tokens[current.first].start, "("), (tokens[number - 1].end + 1, ")")]
            current.compared = False
    for place, sign in sorted(added, reverse=True):
        text = text[:place] + sign + text[place:]
    return text
