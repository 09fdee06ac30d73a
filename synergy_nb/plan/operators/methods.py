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

    def unnest(self, column: str, **profile: Any) -> Self:
        """Takes a column of lists or structs apart.

        Each element of a list becomes a tuple, with the other columns as they are; a tuple whose list is empty or NULL
        has none. The fields of a struct become columns in its place; those of a NULL are NULL.

        Parameters
        ----------
        column
            A column of lists or structs.
        profile
            Options ``id``, ``cost``, ``selectivity``, ``at``, ``engine``, ``availability``, see :class:`Stream`.
        """
        return self._then("unnest", (), {"column": column}, profile)

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

    def asof(
        self,
        other: Self,
        on: str | Iterable[str],
        within: Any,
        suffix: str | None = None,
        *,
        how: str | None = None,
        **profile: Any,
    ) -> Self:
        """Pairs each tuple with the latest tuple of another stream that has equal columns, at its ``time``.

        It waits until the other stream has promised that none of this time will follow.

        Parameters
        ----------
        other
            The right stream.
        on
            Columns with equal values on both sides.
        within
            Largest age of the other tuple at the time of the tuple: ``1 min``.
        suffix
            Suffix of a right column whose name a left column has. Default: ``_right``.
        how
            ``inner``: only tuples that have another one; ``left``: all tuples, with NULL in the columns of the right.
            Default: ``inner``.
        profile
            Options ``id``, ``cost``, ``selectivity``, ``at``, ``engine``, ``availability``, see :class:`Stream`.
        """
        return self._then(
            "asof",
            (other,),
            {"on": column_names(on), "within": within, "suffix": suffix, "how": how},
            profile,
        )

    def lookup(
        self,
        table: Any,
        on: str | Iterable[str] | Mapping[str, str],
        *,
        how: str | None = None,
        valid_from: str | None = None,
        prefix: str | None = None,
        **profile: Any,
    ) -> Self:
        """Adds the columns of a table to each tuple: those of the row whose key equals columns of the tuple.

        NULL equals nothing. The table is read where the plan is made, and its content is part of the name of the
        stream.

        Parameters
        ----------
        table
            Table: a data frame, the path of a CSV or Parquet file, or DuckDB file and query.
        on
            Columns of the key: one, several, or a mapping of columns of the stream to columns of the table.
        how
            ``inner``: only tuples that have a row; ``left``: all tuples, with NULL in the columns of the table.
            Default: ``inner``.
        valid_from
            Column of the table with the time from which on a row is valid, until the next one of its key. Default:
            none: a key has one row.
        prefix
            Beginning of the names of the columns that are added. Default: none.
        profile
            Options ``id``, ``cost``, ``selectivity``, ``at``, ``engine``, ``availability``, see :class:`Stream`.
        """
        return self._then(
            "lookup",
            (),
            {"table": table, "on": on, "how": how, "valid_from": valid_from, "prefix": prefix},
            profile,
        )

    def aggregate(
        self,
        by: str | Iterable[str] | None = None,
        window: Any = None,
        values: Mapping[str, str] | None = None,
        *,
        half_life: Any = None,
        having: str | None = None,
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
            ``20 min``, ``20 min every 5 min``, ``2 min gap`` or ``1000 rows``: see windows. Default: those of the
            input, which then needs windows.
        values, named
            New columns, each an expression over aggregate calls, such as ``sum(bytes)`` or ``sum(bytes) / count(*)``.
        half_life
            Time after which a tuple counts half in ``sum``, ``count`` and ``avg``: one of age a, by the time of the
            result, counts 0.5 ^ (a / ``half_life``). Sums and counts are then floats. Default: none: all tuples of a
            window have the same weight.
        having
            A condition in SQL on the columns of the result, such as ``n > 10``: other groups have no result, as with a
            ``filter`` behind it, which has the same stream. Default: all groups.
        id, cost, selectivity, at, engine, availability
            Options, see :class:`Stream`.
        """
        return self._then(
            "aggregate",
            (),
            {
                "by": column_names(by),
                "window": window,
                "values": {**(values or {}), **named},
                "half_life": half_life,
                "having": having,
            },
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

    def over(
        self,
        by: str | Iterable[str] | None = None,
        window: Any = None,
        values: Mapping[str, str] | None = None,
        *,
        order: str | Iterable[str] | None = None,
        id: str | None = None,  # noqa: A002 - as everywhere
        cost: Any = None,
        selectivity: float | None = None,
        at: str | None = None,
        engine: str | None = None,
        availability: str | None = None,
        **named: str,
    ) -> Self:
        """Adds columns to the tuples of each window that are computed over the tuples of their key in order: the value
        before, differences, running totals, numbers and ranks.

        As window functions of SQL with ``PARTITION BY`` the key.

        Parameters
        ----------
        by
            Columns of the key. Default: none: all tuples of the window have one key.
        window
            Needed if the input has no windows, refused if it has: see windows. Default: those of the input.
        order
            Columns, each alone (ascending) or with ``desc``, in whose order the tuples of a key are; event time and
            arrival break ties. Default: event time, then arrival.
        values, named
            New columns, each an expression of columns and of calls on tuples in order, such as ``bytes - lag(bytes)``.
        id, cost, selectivity, at, engine, availability
            Options, see :class:`Stream`.
        """
        return self._then(
            "over",
            (),
            {"by": column_names(by), "window": window, "order": order, "values": {**(values or {}), **named}},
            without_none(id=id, cost=cost, selectivity=selectivity, at=at, engine=engine, availability=availability),
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
            Name of a [secret](sources.md#secrets) of at least 16 bytes.
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
            Name of the secret of ``encrypt``.
        profile
            Options ``id``, ``cost``, ``selectivity``, ``at``, ``engine``, ``availability``, see :class:`Stream`.
        """
        return self._then("decrypt", (), {"columns": columns, "key": key}, profile)

    def apply(
        self,
        function: Any,
        *,
        columns: Mapping[str, str] | None = None,
        needs: str | Iterable[str] | None = None,
        keep: bool | None = None,
        errors: str | None = None,
        deterministic: bool | None = None,
        timeout: Any = None,
        memory: Any = None,
        **profile: Any,
    ) -> Self:
        """Applies a function of your own to batches of tuples, or a coroutine function to each tuple.

        Parameters
        ----------
        function
            Function, as its decorator returns it; in a file ``package.module:name``, installed at the peers.
        columns
            Columns that it returns, with their types; needed in a file. Default: those of its declaration.
        needs
            Columns of the input that it gets, beside ``time``; fewer are faster. Default: as its declaration says, or
            else all.
        keep
            Whether the columns of the input stay, before the new ones. Default: false.
        errors
            Effect of an exception: the application fails, or the tuple goes on with NULL in all its new columns, and
            the reason in the column ``error``, which is NULL for others. Default: ``fail``.
        deterministic
            Whether equal tuples give equal results; active replicas need that. Default: as its declaration says.
        timeout
            Longest time of one call; then the application fails. Default: 1 min.
        memory
            Most memory of its process, beside that of the platform; it is part of the memory of the operator. Default:
            1 GB, or what the operator may use if that is less.
        profile
            Options ``id``, ``cost``, ``selectivity``, ``at``, ``engine``, ``availability``, see :class:`Stream`.
        """
        return self._then(
            "apply",
            (),
            {
                "function": function,
                "columns": columns,
                "needs": column_names(needs),
                "keep": keep,
                "errors": errors,
                "deterministic": deterministic,
                "timeout": timeout,
                "memory": memory,
            },
            profile,
        )

    def apply_windows(
        self,
        function: Any,
        window: Any = None,
        *,
        by: str | Iterable[str] | None = None,
        columns: Mapping[str, str] | None = None,
        needs: str | Iterable[str] | None = None,
        deterministic: bool | None = None,
        timeout: Any = None,
        memory: Any = None,
        **profile: Any,
    ) -> Self:
        """Applies a function of your own to the tuples of each window, or of each group within it.

        Parameters
        ----------
        function
            Function, as its decorator returns it; in a file ``package.module:name``, installed at the peers.
        window
            Needed if the input has no windows, refused if it has: see windows. Default: those of the input.
        by
            Columns to group by. Default: none: one group.
        columns
            Columns that it returns, with their types; needed in a file. Default: those of its declaration.
        needs
            Columns of the input that it gets, beside ``time``; fewer are faster. Default: as its declaration says, or
            else all.
        deterministic
            Whether equal tuples give equal results; active replicas need that. Default: as its declaration says.
        timeout
            Longest time of one call; then the application fails. Default: 1 min.
        memory
            Most memory of its process, beside that of the platform; it is part of the memory of the operator. Default:
            1 GB, or what the operator may use if that is less.
        profile
            Options ``id``, ``cost``, ``selectivity``, ``at``, ``engine``, ``availability``, see :class:`Stream`.
        """
        return self._then(
            "apply_windows",
            (),
            {
                "function": function,
                "window": window,
                "by": column_names(by),
                "columns": columns,
                "needs": column_names(needs),
                "deterministic": deterministic,
                "timeout": timeout,
                "memory": memory,
            },
            profile,
        )

    def apply_keyed(
        self,
        function: Any,
        key: str | Iterable[str],
        *,
        columns: Mapping[str, str] | None = None,
        needs: str | Iterable[str] | None = None,
        expires: Any = None,
        timers: bool | None = None,
        deterministic: bool | None = None,
        timeout: Any = None,
        memory: Any = None,
        **profile: Any,
    ) -> Self:
        """Passes the tuples of each key to an object of a class of your own, which keeps the state of that key.

        Parameters
        ----------
        function
            Function, as its decorator returns it; in a file ``package.module:name``, installed at the peers.
        key
            Columns of the key.
        columns
            Columns that it returns, with their types; needed in a file. Default: those of its declaration.
        needs
            Columns of the input that it gets, beside ``time``; fewer are faster. Default: as its declaration says, or
            else all.
        expires
            Event time without tuples after which the state of a key ends. Default: as its declaration says, or else
            with the stream.
        timers
            Whether its class has ``on_time``. Default: as its declaration says.
        deterministic
            Whether equal tuples give equal results; active replicas need that. Default: as its declaration says.
        timeout
            Longest time of one call; then the application fails. Default: 1 min.
        memory
            Most memory of its process, beside that of the platform; it is part of the memory of the operator. Default:
            1 GB, or what the operator may use if that is less.
        profile
            Options ``id``, ``cost``, ``selectivity``, ``at``, ``engine``, ``availability``, see :class:`Stream`.
        """
        return self._then(
            "apply_keyed",
            (),
            {
                "function": function,
                "key": column_names(key),
                "columns": columns,
                "needs": column_names(needs),
                "expires": expires,
                "timers": timers,
                "deterministic": deterministic,
                "timeout": timeout,
                "memory": memory,
            },
            profile,
        )
