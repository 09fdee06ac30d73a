"""Editing of plans as text: YAML that is changed in place, operations on it, and its history, as values.

``yaml_text`` changes one value of a YAML text and no other character; ``plan_text`` knows what of it is a plan;
``operations`` are the changes that people make, ``applying`` makes them; ``history`` holds a text with its changes, to
be undone; ``analysis`` says what is known of a text, valid or not; ``forms`` describes the fields of operators for a
form; ``templates`` are plans to start from.
"""

from __future__ import annotations
