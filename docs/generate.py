"""Writes what follows from other texts: from the declarations of operators tables of docs/plans.md and the methods of
streams, and from NEXMark's queries in SQL their plan files.

    .venv/bin/python -m docs.generate

Tests hold that all are current (tests/plan/test_plan_page.py, tests/dataflow/test_nexmark.py).
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from synergy_experiments import nexmark
from synergy_nb import source, sql
from synergy_nb.plan.operators.catalogue import KINDS
from synergy_nb.plan.operators.declaration import REQUIRED, Declaration, Parameter
from synergy_nb.plan.operators.engines import off_spark
from synergy_nb.plan.operators.sources import CONNECTORS, NEXMARK
from synergy_nb.plan.terms.units import format_duration

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "plans.md"
METHODS: Final = ROOT / "synergy_nb" / "plan" / "operators" / "methods.py"
_PROFILE: Final = ("id", "cost", "selectivity", "at", "engine", "availability")
_WIDTH: Final = 120
_AGREEMENT: Final = """
Active replicas of an operator receive the same tuples in different orders. Most operators emit the same tuples
nevertheless. The others *sort* their input: they hold each tuple until a punctuation promises that no earlier one
follows, and read the tuples ordered by time and, among equal times, by the order of a `sort` or `top` before them, and
then by all columns. So do all operators with windows of rows, and an operator with backups that reads active replicas,
so that its backup repeats what it did. No sort is needed by an operator that reads a source, a `distinct` of all
columns, and a `sample` of everything. In Python, `synergy_nb.plan.derived.replica_agreement.agreement_text(plan)` says
for each operator of a plan whether its replicas sort, and why.
"""

# -- the page --------------------------------------------------------------------------------------------------------


def page(text: str) -> str:
    """The page with all that is between its marks written anew."""
    parts = {
        "operators": [overview(), *(section(each) for each in KINDS.values() if each.kind != "source")],
        **{f"parameters of {connector}": [table(parameters)] for connector, parameters in CONNECTORS.items()},
    }
    for name, blocks in parts.items():
        mark = f"<!-- {name}: written by docs/generate.py -->\n"
        before, found, rest = text.partition(mark)
        _, end, after = rest.partition("<!-- end -->")
        if not found or not end:
            raise ValueError(f"docs/plans.md: no mark {mark.strip()!r} with an end")
        text = before + mark + "\n".join(blocks) + end + after
    return text


def overview() -> str:
    """The table of all kinds of operators with their default profiles."""
    lines = ["| operator | cost a tuple | selectivity | keeps | active replicas | on Spark |"]
    lines += ["|---|---|---|---|---|---|"]
    for each in KINDS.values():
        if each.kind == "source":
            continue
        cost = "as stated" if each.cost_from else format_duration(each.cost)
        share = "by its parameters" if each.output_rate is not None else f"{each.selectivity:g}"
        keeps = {"": "nothing", "tuples": "tuples", "groups": "a tuple a group", "table": "its table"}[each.state]
        agree = f"sort: {each.needs_order}" if each.needs_order else f"agree: {each.agrees}"
        spark = off_spark(each.kind, {})
        lines += [f"| `{each.kind}` | {cost} | {share} | {keeps} | {agree} | {f'no: {spark}' if spark else 'yes'} |"]
    return "\n".join(lines) + "\n\n" + _wrapped(_AGREEMENT.strip()) + "\n"


def section(each: Declaration) -> str:
    """The section of the page about a kind of operator."""
    code = [f"    {line}" for line in (*each.python, *each.yaml)]
    blocks = [f"### {each.kind}\n{_wrapped(each.help)}", table(each.parameters).rstrip() if each.parameters else ""]
    blocks += ["\n".join(code), _wrapped(each.note)]
    return "\n\n".join(block for block in blocks if block) + "\n"


def table(parameters: Mapping[str, Parameter]) -> str:
    """The table of parameters, with their meanings and defaults."""
    lines = ["| parameter | meaning | default |", "|---|---|---|"]
    lines += [f"| `{name}` | {each.help} | {each.default_text} |" for name, each in parameters.items()]
    return "\n".join(lines) + "\n"


def _wrapped(text: str) -> str:
    return "\n".join(textwrap.wrap(text, 150, break_long_words=False, break_on_hyphens=False))


# -- the methods -----------------------------------------------------------------------------------------------------

_HEAD: Final = '''\
"""Methods of streams, one for each kind of operator: docs/generate.py writes them from the declarations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from synergy_nb.plan.operators.method_arguments import column_names, columns_with_expressions, without_none

__all__ = ["Methods"]


class Methods:
    """Methods that add an operator that reads a stream."""

    __slots__ = ()

    def _then(self, kind: str, others: Sequence[Self], params: Mapping[str, Any], profile: Mapping[str, Any]) -> Self:
        """Return the stream of an operator that reads this stream and others."""
        raise TypeError(f"{kind}: {self!r}; expected a stream")
'''


def methods() -> str:
    """The module with the methods of streams."""
    kinds = [each for each in KINDS.values() if each.kind not in ("source", "sink")]
    return _HEAD + "".join(f"\n{method(each)}" for each in kinds)


def method(each: Declaration) -> str:
    """The method for a kind of operator."""
    named = any(parameter.spelling in ("columns", "values") for parameter in each.parameters.values())
    free, keyword, values, documented = _arguments(each)
    if named:
        profile = ["id: str | None = None,  # noqa: A002 - as everywhere", "cost: Any = None"]
        profile += ["selectivity: float | None = None", "at: str | None = None", "engine: str | None = None"]
        profile.append("availability: str | None = None")
        keyword += [*profile, "**named: str"]
        documented.append((", ".join(_PROFILE), "Options, see :class:`Stream`."))
        handed = f"without_none({', '.join(f'{name}={name}' for name in _PROFILE)})"
    else:
        keyword.append("**profile: Any")
        said = ", ".join(f"`{name}`" for name in _PROFILE if name != each.cost_from)
        documented.append(("profile", f"Options {said}, see :class:`Stream`."))
        handed = "profile"
    if any(not argument.startswith("**") for argument in keyword) and not any(each.startswith("*") for each in free):
        free.append("*")
    arguments = ["self", *free, *keyword]
    comments = any("#" in argument for argument in arguments)
    lines = [f"    def {each.kind}({', '.join(arguments)}) -> Self:"]
    if comments or len(lines[0]) > _WIDTH:
        each_line = (one if "#" in one else f"{one}," for one in arguments)
        lines = [f"    def {each.kind}(", *(f"        {one}" for one in each_line), "    ) -> Self:"]
    pairs = [f'"{name}": {value}' for name, value in values.items()]
    given = f"{{{', '.join(pairs)}}}"
    if len(given) > _WIDTH - 13:
        given = "\n".join(["{", *(f"                {pair}," for pair in pairs), "            }"])
    called = [f'"{each.kind}"', _others(each), given, handed]
    call = f"        return self._then({', '.join(called)})"
    lines += [*_docstring(each, documented), call]
    if len(call) > _WIDTH:
        lines[-1:] = ["        return self._then(", *(f"            {one}," for one in called), "        )"]
    return "\n".join([*lines, ""])


def _arguments(each: Declaration) -> tuple[list[str], list[str], dict[str, str], list[tuple[str, str]]]:
    """Positional arguments, and others; values of parameters; the description of each argument."""
    least, most = each.inputs
    free: list[str] = []
    keyword: list[str] = []
    values: dict[str, str] = {}
    documented: list[tuple[str, str]] = []
    if most is None:
        free.append(f"*{each.ports[0]}: Self")
        documented.append((each.ports[0], f"Other streams, at least {least - 1}."))
    elif least > 1:
        free += [f"{port}: Self" for port in each.ports]
        documented += [(port, "The right stream.") for port in each.ports]
    optional = False
    for name, parameter in each.parameters.items():
        annotation, needed = parameter.type.annotation, parameter.default is REQUIRED
        optional = optional or not needed
        may = annotation if annotation == "Any" else f"{annotation} | None"
        plain = f"{name}: {may} = None" if optional else f"{name}: {annotation}"
        told, label = parameter.help, name
        value = f"column_names({name})" if parameter.type.name == "columns" else name
        match parameter.spelling:
            case "many":
                free.append(f"*{name}: str")
                optional = True
                value = f"list({name})" if needed else f"list({name}) or None"
            case "columns":
                free.append(f"*{name}: str | Sequence[str] | Mapping[str, str]")
                value, label = f"columns_with_expressions({name}, named)", f"{name}, named"
                optional = True
            case "values":
                free.append(f"{name}: Mapping[str, str] | None = None")
                value, label = f"{{**({name} or {{}}), **named}}", f"{name}, named"
            case "keyword":
                keyword.append(plain if not needed else f"{name}: {annotation}")
            case _:
                (keyword if any(one.startswith("*") for one in free) else free).append(plain)
        values[name] = value
        default = "" if needed else f" Default: {parameter.default_text}."
        documented.append((label, f"{told[0].upper()}{told[1:]}.{default}"))
    if most is not None and least == 1 and most > 1:
        keyword += [f"{port}: Self | None = None" for port in each.ports]
        documented += [(port, "Another stream, see above.") for port in each.ports]
    return free, keyword, values, documented


def _others(each: Declaration) -> str:
    least, most = each.inputs
    if most is None:
        return each.ports[0]
    if most == 1:
        return "()"
    if least > 1:
        return f"({', '.join(each.ports)},)" if len(each.ports) == 1 else f"({', '.join(each.ports)})"
    return f"() if {each.ports[0]} is None else ({each.ports[0]},)"


def _docstring(each: Declaration, documented: Iterable[tuple[str, str]]) -> list[str]:
    first, _, rest = each.help.partition(". ")
    summary = f'"""{first}{"." if rest or not first.endswith(".") else ""}'
    lines = [*_lines(summary, 8), ""]
    if rest:
        lines += [*_lines(rest, 8), ""]
    lines += ["        Parameters", "        ----------"]
    for name, told in documented:
        lines += [f"        {name}", *_lines(told, 12)]
    return [*lines, '        """']


def _lines(text: str, indent: int) -> list[str]:
    return textwrap.wrap(
        _plain(text), _WIDTH, initial_indent=" " * indent, subsequent_indent=" " * indent,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _plain(text: str) -> str:
    """Markdown as reStructuredText."""
    text = re.sub(r"\[([^\]]+)\]\(#[^)]*\)", r"\1", text)
    return re.sub(r"(?<!:)`([^`]+)`", r"``\1``", text)


# -- NEXMark ---------------------------------------------------------------------------------------------------------


def nexmark_plan(name: str, text: str) -> str:
    """The plan file of a query of NEXMark, with the comments of its text in SQL."""
    streams = {table: source("nexmark", table=table, id=table) for table in NEXMARK}
    plan = sql(text, sources=streams, tables={"side_input": str(nexmark.SIDE_INPUT)}).sink(name)
    written = re.sub(
        r"(?m)^    table:\n      path: .*\n(      .*\n)+", f"    table: {nexmark.SIDE_INPUT.name}\n", plan.to_yaml()
    )
    comments = "".join(f"#{line[2:]}\n" for line in text.splitlines() if line.startswith("--"))
    return comments + written


def nexmark_plans() -> dict[Path, str]:
    """The plan files of all queries that are written in SQL."""
    texts = {name: nexmark.sql_text(name) for name in nexmark.NAMES}
    return {
        nexmark.FOLDER / f"{name}.yaml": nexmark_plan(name, text) for name, text in texts.items() if text is not None
    }


def main() -> None:
    """Write all of them."""
    for file, text in nexmark_plans().items():
        file.write_text(text, encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    METHODS.write_text(methods(), encoding="utf-8")


if __name__ == "__main__":
    main()
