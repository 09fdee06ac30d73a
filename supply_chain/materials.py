"""Writes a bill of materials: what an installation without extras has, with versions, hashes and licences.

    make sbom                      # build/sbom.json
    make sbom ARGS=FILE

It is CycloneDX in JSON, made of the metadata of the packages that are installed, of the pins and of the packages in the
bundle of the views. It has neither a time nor a random number, so that the same packages give the same file.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path
from typing import Final, NamedTuple

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import hatch_build
from supply_chain.licences import expression_of
from supply_chain.pins import PINS, ROOT, pins_of

__all__ = ["PROJECT", "Material", "bill", "in_the_bundle", "installed", "needed"]

PROJECT: Final = "synergy-nb"


class Material(NamedTuple):
    """A package that an installation has."""

    kind: str  # `pypi` or `npm`
    name: str
    version: str
    licence: str  # an SPDX expression; empty where the package states none that is known
    hashes: tuple[str, ...] = ()  # SHA-256 of the files of its release
    needs: tuple[str, ...] = ()  # names of packages

    @property
    def url(self) -> PackageURL:
        """The package as other tools name it."""
        group, _, name = self.name.rpartition("/")
        return PackageURL(self.kind, group or None, name, self.version)


def needed(project: str = PROJECT) -> dict[str, Distribution]:
    """The installed packages that a project needs on this machine without extras of its own, itself among them."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(project, "")]
    while waiting:
        name, extra = key = waiting.pop()
        if key in seen:
            continue
        seen.add(key)
        found[name] = importlib.metadata.distribution(name)
        for requirement in map(Requirement, found[name].requires or ()):
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                wanted = canonicalize_name(requirement.name)
                waiting += [(wanted, each) for each in ("", *sorted(requirement.extras))]
    return dict(sorted(found.items()))


def installed() -> Iterator[tuple[str, str]]:
    """The names of all installed packages, each with the expression of its licence."""
    for distribution in importlib.metadata.distributions():
        yield canonicalize_name(distribution.name), expression_of(distribution)


def in_the_bundle() -> list[Material]:
    """The packages of JavaScript in the bundle of the views."""
    return [_of_npm(name) for name in hatch_build.packages()]


def _of_npm(name: str) -> Material:
    folder = hatch_build.SOURCES / "node_modules" / name
    stated = json.loads((folder / "package.json").read_text("utf-8"))
    needs = tuple(sorted(each for each in stated.get("dependencies", {}) if not each.startswith("@types/")))
    return Material("npm", name, stated["version"], stated.get("license", ""), needs=needs)


def _of_pypi(packages: dict[str, Distribution]) -> list[Material]:
    hashes = {
        line.partition("==")[0]: tuple(part.split()[0] for part in block.split("--hash=sha256:")[1:])
        for line, block in pins_of((PINS / "base.txt").read_text("utf-8")).items()
    }
    return [
        Material(
            "pypi",
            name,
            package.version,
            expression_of(package),
            hashes.get(name, ()),
            tuple(
                sorted({canonicalize_name(Requirement(each).name) for each in package.requires or ()} & packages.keys())
            ),
        )
        for name, package in packages.items()
    ]


def _name(requirement: str) -> str:
    return canonicalize_name(Requirement(requirement).name)


def bill(materials: list[Material]) -> str:
    """The bill of materials as JSON; the project is among them.

    Raises ``ValueError`` if it is no valid CycloneDX.
    """
    licences = LicenseFactory()
    components = {}
    for material in materials:
        components[material.kind, material.name] = Component(
            type=ComponentType.APPLICATION if material.name == PROJECT else ComponentType.LIBRARY,
            name=material.name,
            version=material.version,
            bom_ref=str(material.url),
            purl=material.url,
            licenses=[licences.make_from_string(material.licence)] if material.licence else None,
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=each) for each in sorted(material.hashes)],
        )
    project = components.pop(("pypi", PROJECT))
    bom = Bom(components=components.values())
    bom.metadata.component = project
    for material in materials:
        itself = components.get((material.kind, material.name), project)
        bom.register_dependency(itself, [components[material.kind, each] for each in material.needs])
    bom.register_dependency(project, [each for (kind, _), each in components.items() if kind == "npm"])
    document = json.loads(JsonV1Dot6(bom).output_as_string())
    del document["serialNumber"], document["metadata"]["timestamp"]
    text = json.dumps(document, indent=2, sort_keys=True) + "\n"
    from cyclonedx.validation.json import JsonStrictValidator  # noqa: PLC0415 - it makes grammars, which takes seconds

    if wrong := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise ValueError(f"the bill is no CycloneDX 1.6: {wrong}")
    return text


def main(arguments: list[str]) -> None:
    """Write the bill of materials."""
    try:
        materials = [*_of_pypi(needed()), *in_the_bundle()]
    except (PackageNotFoundError, FileNotFoundError) as missing:
        raise SystemExit(f"a part of the installation is missing: {missing}; run .ci/setup") from None
    to = Path(arguments[0]) if arguments else ROOT / "build" / "sbom.json"
    text = bill(materials)
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(text, "utf-8")
    print(f"{to}: {len(materials)} packages")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
