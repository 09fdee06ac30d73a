"""Editing of plans as text: YAML that is changed in place, operations on it, and its history, as values.

From the bottom up: ``yaml_text`` changes one value of a YAML text and no other character; ``plan_text`` finds the
operators of a plan in it; ``operations`` declares the changes that people make, and ``applying`` makes them;
``history`` undoes and redoes changes; ``analysis`` finds operators, problems, columns and rates of a text, valid or
not; ``sampling`` computes the first rows of a stream; ``forms`` describes the fields of operators; ``templates`` are
plans to start from. ``document`` is the whole: the plan of one editor.
"""

from __future__ import annotations
