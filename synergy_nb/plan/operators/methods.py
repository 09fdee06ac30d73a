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

    def filter(self, where: str, **profile: Any) -> Self:
        """Selects the tuples for which ``where`` is true (so not those for which it is NULL).

        Parameters
        ----------
        where
            A condition in SQL.
        profile
            Options ``id``, ``cost``, ``selectivity``, ``at``, ``engine``, ``availability``, see :class:`Stream`.
        """
        return self._then("filter", (), {"where": where}, profile)

    def project(
        self,
        *columns: str | Sequence[str] | Mapping[str, str],
        id: str | None = None,  # noqa: A002 - as everywhere
        cost: Any = None,
        selectivity: float | None = None,
        at: str | None = None,
        engine: str | None = None,
        availability: str | None = None,
        **named: str,
    ) -> Self:
        """Computes new columns.

        Other columns are dropped, except ``time`` and the bounds of windows, which every stream has without stating
        them.

        Parameters
        ----------
        columns, named
            New columns, each with its expression in SQL; a list of names selects these columns.
        id, cost, selectivity, at, engine, availability
            Options, see :class:`Stream`.
        """
        return self._then(
            "project",
            (),
            {"columns": columns_with_expressions(columns, named)},
            without_none(id=id, cost=cost, selectivity=selectivity, at=at, engine=engine, availability=availability),
        )

    def sample(self, fraction: Any, seed: int | None = None, **profile: Any) -> Self:
        """Selects about a fraction of the tuples by their position: the same stream has the same sample on every peer.

        Parameters
        ----------
        fraction
            Share of the tuples to select: ``10 %`` or 0.1.
        seed
            Seed of the selection. Default: 0.
        profile
            Options ``id``, ``cost``, ``selectivity``, ``at``, ``engine``, ``availability``, see :class:`Stream`.
        """
        return self._then("sample", (), {"fraction": fraction, "seed": seed}, profile)

    def delay(self, cost: Any, component: str | None = None, **profile: Any) -> Self:
        """Spends processing time on every tuple and passes it on unchanged, for experiments.

        Parameters
        ----------
        cost
            Processing time per tuple: ``10 us``.
        component
            Name of one of several components with different work: only peers that offer the component ``delay:`` and
            this name execute it, and its stream differs from those of other names. Default: any peer.
        profile
            Options ``id``, ``selectivity``, ``at``, ``engine``, ``availability``, see :class:`Stream`.
        """
        return self._then("delay", (), {"cost": cost, "component": component}, profile)

    def union(self, *others: Self, **profile: Any) -> Self:
        """Merges two or more streams with the same columns in the same order, and equal windows.

        Parameters
        ----------
        others
            Other streams, at least 1.
        profile
            Options ``id``, ``cost``, ``selectivity``, ``at``, ``engine``, ``availability``, see :class:`Stream`.
        """
        return self._then("union", others, {}, profile)

    def join(
        self,
        other: Self,
        on: str | Iterable[str],
        within: Any,
        suffix: str | None = None,
        *,
        how: str | None = None,
        **profile: Any,
    ) -> Self:
        """Pairs tuples of two streams with equal columns and close times; ``time`` is the later one.

        Only a join on ``window_start`` and ``window_end`` preserves windows.

        Parameters
        ----------
        other
            The right stream.
        on
            Columns with equal values on both sides.
        within
            Largest difference between the times of a pair; a difference of exactly that is one, too: ``5 s``.
        suffix
            Suffix of a right column whose name a left column has. Default: ``_right``.
        how
            ``inner``: pairs; ``left``: also the left tuples without a partner, with NULL in the columns of the right;
            ``anti``: only these left tuples. The ``time`` of a tuple without a partner is later by ``within``: the last
            time of a possible partner. Default: ``inner``.
        profile
            Options ``id``, ``cost``, ``selectivity``, ``at``, ``engine``, ``availability``, see :class:`Stream`.
        """
        return self._then(
            "join",
            (other,),
            {"on": column_names(on), "within": within, "suffix": suffix, "how": how},
            profile,
        )

    def aggregate(
        self,
        by: str | Iterable[str] | None = None,
        window: Any = None,
        values: Mapping[str, str] | None = None,
        *,
        half_life: Any = None,
        id: str | None = None,  # noqa: A002 - as everywhere
        cost: Any = None,
        selectivity: float | None = None,
        at: str | None = None,
        engine: str | None = None,
        availability: str | None = None,
        **named: str,
    ) -> Self:
        """Computes aggregates of each group of each window, as one tuple.

        Parameters
        ----------
        by
            Columns to group by. Default: none: one group.
        window
            ``20 min``, ``20 min every 5 min``, ``2 min gap`` or ``1000 rows``: see windows.
        values, named
            New columns, each an aggregate call: ``count(*)``, ``count(x)``, ``count(distinct x)``, ``sum(x)``,
            ``min(x)``, ``max(x)``, ``avg(x)``, ``any_value(x)``, ``count_if(condition)``; also ``sum(x) FILTER (WHERE
            condition)``.
        half_life
            Time after which a tuple counts half in ``sum``, ``count`` and ``avg``: one of age a, by the time of the
            result, counts 0.5 ^ (a / ``half_life``). Sums and counts are then floats. Default: none: all tuples of a
            window have the same weight.
        id, cost, selectivity, at, engine, availability
            Options, see :class:`Stream`.
        """
        return self._then(
            "aggregate",
            (),
            {"by": column_names(by), "window": window, "values": {**(values or {}), **named}, "half_life": half_life},
            without_none(id=id, cost=cost, selectivity=selectivity, at=at, engine=engine, availability=availability),
        )

    def count(self, name: str | None = None, window: Any = None, **profile: Any) -> Self:
        """Counts the tuples of each window; the result is one tuple.

        Parameters
        ----------
        name
            Name of the column with the count. Default: ``n``.
        window
            Needed if the input has no windows, refused if it has: see windows. Default: those of the input.
        profile
            Options ``id``, ``cost``, ``selectivity``, ``at``, ``engine``, ``availability``, see :class:`Stream`.
        """
        return self._then("count", (), {"name": name, "window": window}, profile)

    def sort(self, *by: str, window: Any = None, **profile: Any) -> Self:
        """Orders the tuples of each window; the remaining columns break ties.

        Parameters
        ----------
        by
            Columns, each alone (ascending) or with ``desc``.
        window
            Needed if the input has no windows, refused if it has: see windows. Default: those of the input.
        profile
            Options ``id``, ``cost``, ``selectivity``, ``at``, ``engine``, ``availability``, see :class:`Stream`.
        """
        return self._then("sort", (), {"by": list(by), "window": window}, profile)

    def compare(
        self,
        value: str,
        fraction: Any,
        *,
        by: str | Iterable[str] | None = None,
        count: Self | None = None,
        **profile: Any,
    ) -> Self:
        """Selects the tuples whose column ``value`` is larger than that of more than ``fraction`` of all tuples of
        their window.

        The input must have windows; its order is preserved. A second input, in Python ``count=``, may be a count of the
        same windows, so that they need not be counted again.

        Parameters
        ----------
        value
            A column of type int, float, str or time.
        fraction
            Share of the tuples of the window: ``95 %`` or 0.95.
        by
            Columns that form groups: tuples with equal values are compared; not together with a count. Default: none:
            the whole window.
        count
            Another stream, see above.
        profile
            Options ``id``, ``cost``, ``selectivity``, ``at``, ``engine``, ``availability``, see :class:`Stream`.
        """
        return self._then(
            "compare",
            () if count is None else (count,),
            {"value": value, "fraction": fraction, "by": column_names(by)},
            profile,
        )

    def distinct(self, *on: str, window: Any = None, **profile: Any) -> Self:
        """Selects the first tuple of each window for each combination of values of some columns.

        Parameters
        ----------
        on
            Columns whose values are compared. Default: all but time.
        window
            Needed if the input has no windows, refused if it has: see windows. Default: those of the input.
        profile
            Options ``id``, ``cost``, ``selectivity``, ``at``, ``engine``, ``availability``, see :class:`Stream`.
        """
        return self._then("distinct", (), {"on": list(on) or None, "window": window}, profile)

    def top(self, k: int, *by: str, per: str | Iterable[str] | None = None, window: Any = None, **profile: Any) -> Self:
        """Selects the first ``k`` tuples of each window in the order of some columns; the remaining columns break ties.

        Parameters
        ----------
        k
            Number of tuples to select.
        by
            Columns, each alone (ascending) or with ``desc``.
        per
            Columns that form groups: ``k`` tuples are selected for each combination of their values. Default: none:
            ``k`` tuples of the whole window.
        window
            Needed if the input has no windows, refused if it has: see windows. Default: those of the input.
        profile
            Options ``id``, ``cost``, ``selectivity``, ``at``, ``engine``, ``availability``, see :class:`Stream`.
        """
        return self._then("top", (), {"k": k, "by": list(by), "per": column_names(per), "window": window}, profile)

    def percentile(
        self,
        value: str,
        fraction: Any,
        *,
        by: str | Iterable[str] | None = None,
        name: str | None = None,
        window: Any = None,
        **profile: Any,
    ) -> Self:
        """Computes a percentile of each window, or of each group within it, as one tuple: the least value that is not
        exceeded by ``fraction`` of the values.

        It is one of the values, like ``quantile_disc`` in SQL; it ignores NULLs.

        Parameters
        ----------
        value
            A column of type int, float, str or time.
        fraction
            Share of the values: ``95 %`` or 0.95; 50 % is the median.
        by
            Columns to group by. Default: none: one group.
        name
            Column of the percentile. Default: ``percentile``.
        window
            Needed if the input has no windows, refused if it has: see windows. Default: those of the input.
        profile
            Options ``id``, ``cost``, ``selectivity``, ``at``, ``engine``, ``availability``, see :class:`Stream`.
        """
        return self._then(
            "percentile",
            (),
            {"value": value, "fraction": fraction, "by": column_names(by), "name": name, "window": window},
            profile,
        )

    def encrypt(self, *columns: str, key: str, **profile: Any) -> Self:
        """Encrypts single values with AES-256-GCM, so that peers between this operator and ``decrypt`` cannot read
        them.

        Encrypted columns are of type bytes.

        Parameters
        ----------
        columns
            Columns to encrypt.
        key
            Name of a key; the secret itself is never in a plan (``Cluster(keys={"mine": ...})``, ``synergy run --key
            mine=FILE``).
        profile
            Options ``id``, ``cost``, ``selectivity``, ``at``, ``engine``, ``availability``, see :class:`Stream`.
        """
        return self._then("encrypt", (), {"columns": list(columns), "key": key}, profile)

    def decrypt(self, columns: Mapping[str, str], *, key: str, **profile: Any) -> Self:
        """Decrypts columns of ``encrypt``.

        Parameters
        ----------
        columns
            Column to its type before encryption.
        key
            Name of the key of ``encrypt``.
        profile
            Options ``id``, ``cost``, ``selectivity``, ``at``, ``engine``, ``availability``, see :class:`Stream`.
        """
        return self._then("decrypt", (), {"columns": columns, "key": key}, profile)
