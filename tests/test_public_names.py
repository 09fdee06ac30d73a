"""What users import: each name is explained by an example, which runs as a test of its module."""

from __future__ import annotations

import inspect

import pytest

import synergy_nb


@pytest.mark.parametrize("name", synergy_nb.__all__)
def test_each_public_name_has_an_example(name: str) -> None:
    assert ">>> " in (inspect.getdoc(getattr(synergy_nb, name)) or "")
