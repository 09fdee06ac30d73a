"""Class files of Java without a branch, put together from constants and instructions.

There is no compiler where there is only a Java runtime, and this takes less than it would to carry a compiled library
along: without a branch a class needs no more than its constants and some instructions (The Java Virtual Machine
Specification, chapter 4).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_VERSION: Final = 52  # version of class files: Java 8, so that any Java reads them
_PUBLIC: Final = 0x0001
_STATIC: Final = 0x0008
_SUPER: Final = 0x0020
ALOAD_0: Final = b"\x2a"
ALOAD_1: Final = b"\x2b"
ASTORE_1: Final = b"\x4c"
ICONST_0: Final = b"\x03"
ICONST_1: Final = b"\x04"
LDC: Final = b"\x13"  # ldc_w, whose constants have numbers of two bytes
GETSTATIC: Final = b"\xb2"
NEW: Final = b"\xbb"
DUP: Final = b"\x59"
POP: Final = b"\x57"
INVOKESPECIAL: Final = b"\xb7"
INVOKESTATIC: Final = b"\xb8"
INVOKEVIRTUAL: Final = b"\xb6"
RETURN: Final = b"\xb1"


class ClassFile:
    """A class file of a public class with public methods; constants get numbers from 1 at their first use."""

    def __init__(self, name: str, parent: str) -> None:
        self._constants: dict[bytes, int] = {}
        self._methods: list[bytes] = []
        self._name = name
        self._names = self.type(name) + self.type(parent)

    def text(self, text: str) -> bytes:
        """Number of the constant for ``text``, as all numbers of constants in two bytes."""
        data = text.encode("ascii")
        return self._constant(b"\x01" + _u2(len(data)) + data)

    def type(self, name: str) -> bytes:
        """Number of the constant for a class."""
        return self._constant(b"\x07" + self.text(name))

    def method(self, owner: str, name: str, signature: str) -> bytes:
        """Number of the constant for a method."""
        return self._constant(b"\x0a" + self.type(owner) + self._named(name, signature))

    def field(self, owner: str, name: str, kind: str) -> bytes:
        """Number of the constant for a field."""
        return self._constant(b"\x09" + self.type(owner) + self._named(name, kind))

    def string(self, text: str) -> bytes:
        """Number of the constant for a string."""
        return self._constant(b"\x08" + self.text(text))

    def integer(self, number: int) -> bytes:
        """Number of the constant for an integer."""
        return self._constant(b"\x03" + _u4(number))

    def add(self, name: str, signature: str, code: bytes, *, static: bool = False) -> None:
        """Define a method, whose code needs at most four places on the stack and three for variables."""
        attribute = _u2(4) + _u2(3) + _u4(len(code)) + code + _u2(0) + _u2(0)
        head = _u2(_PUBLIC | (_STATIC if static else 0)) + self.text(name) + self.text(signature) + _u2(1)
        self._methods.append(head + self.text("Code") + _u4(len(attribute)) + attribute)

    def data(self) -> bytes:
        """The class file."""
        head = b"\xca\xfe\xba\xbe" + _u2(0) + _u2(_VERSION) + _u2(len(self._constants) + 1) + b"".join(self._constants)
        body = _u2(_PUBLIC | _SUPER) + self._names + _u2(0) + _u2(0)  # no interfaces, no fields
        return head + body + _u2(len(self._methods)) + b"".join(self._methods) + _u2(0)

    def write(self, folder: Path) -> None:
        """Write the class file below ``folder``, which is to be on the class path."""
        path = folder / f"{self._name}.class"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(self.data())

    def _named(self, name: str, kind: str) -> bytes:
        return self._constant(b"\x0c" + self.text(name) + self.text(kind))

    def _constant(self, data: bytes) -> bytes:
        return _u2(self._constants.setdefault(data, len(self._constants) + 1))


def _u2(number: int) -> bytes:
    return number.to_bytes(2)


def _u4(number: int) -> bytes:
    return number.to_bytes(4)
