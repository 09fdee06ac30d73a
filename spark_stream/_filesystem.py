"""A local file system for the server that starts no process for each file that it makes.

Hadoop's own starts ``chmod`` for every file and every checksum beside it, where its native library is absent, as it is
in PySpark; a micro-batch makes some ten such files, and these processes were a large part of its time (see
:mod:`spark_stream._settings` for the numbers). Only the user of the server has access to its folder, so ``chmod`` is
not needed. In Java, this is

    public class RawFileSystem extends org.apache.hadoop.fs.RawLocalFileSystem {
        public void setPermission(Path path, FsPermission permission) {}
    }

    public class FileSystem extends org.apache.hadoop.fs.LocalFileSystem {
        public FileSystem() { super(new RawFileSystem()); setWriteChecksum(false); setVerifyChecksum(false); }
    }

and as there is no compiler where there is only a Java runtime, the two class files are put together here, which takes
less than it would to carry a compiled library along: neither has a branch, so neither needs more than its constants and
a dozen instructions (The Java Virtual Machine Specification, chapter 4). Nothing in the jars of PySpark 4.3 does
it: of the 27 file systems in them each that is local is Hadoop's, or passes on to it, and it has no setting for that.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

CLASS: Final = "synergy.FileSystem"
_RAW: Final = "synergy/RawFileSystem"
_LOCAL: Final = "synergy/FileSystem"
_PARENT_OF_RAW: Final = "org/apache/hadoop/fs/RawLocalFileSystem"
_PARENT_OF_LOCAL: Final = "org/apache/hadoop/fs/LocalFileSystem"
_PERMIT: Final = "(Lorg/apache/hadoop/fs/Path;Lorg/apache/hadoop/fs/permission/FsPermission;)V"

_VERSION: Final = 52  # version of class files: Java 8, so that any Java reads them
_PUBLIC: Final = 0x0001
_SUPER: Final = 0x0020
_ALOAD_0: Final = b"\x2a"
_ICONST_0: Final = b"\x03"
_NEW: Final = b"\xbb"
_DUP: Final = b"\x59"
_INVOKESPECIAL: Final = b"\xb7"
_INVOKEVIRTUAL: Final = b"\xb6"
_RETURN: Final = b"\xb1"


def write_classes(folder: Path) -> None:
    """Write the class files below ``folder``, which is to be on the class path."""
    raw = _ClassFile(_RAW, _PARENT_OF_RAW)
    raw.add("<init>", "()V", _ALOAD_0 + _INVOKESPECIAL + raw.method(_PARENT_OF_RAW, "<init>", "()V") + _RETURN)
    raw.add("setPermission", _PERMIT, _RETURN)
    local = _ClassFile(_LOCAL, _PARENT_OF_LOCAL)
    without = (local.method(_LOCAL, name, "(Z)V") for name in ("setWriteChecksum", "setVerifyChecksum"))
    local.add(
        "<init>",
        "()V",
        _ALOAD_0
        + (_NEW + local.type(_RAW) + _DUP + _INVOKESPECIAL + local.method(_RAW, "<init>", "()V"))
        + (_INVOKESPECIAL + local.method(_PARENT_OF_LOCAL, "<init>", "(Lorg/apache/hadoop/fs/FileSystem;)V"))
        + b"".join(_ALOAD_0 + _ICONST_0 + _INVOKEVIRTUAL + method for method in without)
        + _RETURN,
    )
    for made, name in ((raw, _RAW), (local, _LOCAL)):
        path = folder / f"{name}.class"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(made.data())


class _ClassFile:
    """A class file of a public class with public methods; constants get numbers from 1 at their first use."""

    def __init__(self, name: str, parent: str) -> None:
        self._constants: dict[bytes, int] = {}
        self._methods: list[bytes] = []
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
        name_and_type = self._constant(b"\x0c" + self.text(name) + self.text(signature))
        return self._constant(b"\x0a" + self.type(owner) + name_and_type)

    def add(self, name: str, signature: str, code: bytes) -> None:
        """Define a method, whose code needs at most four places on the stack and has at most two arguments."""
        attribute = _u2(4) + _u2(3) + _u4(len(code)) + code + _u2(0) + _u2(0)
        head = _u2(_PUBLIC) + self.text(name) + self.text(signature) + _u2(1)
        self._methods.append(head + self.text("Code") + _u4(len(attribute)) + attribute)

    def data(self) -> bytes:
        """The class file."""
        head = b"\xca\xfe\xba\xbe" + _u2(0) + _u2(_VERSION) + _u2(len(self._constants) + 1) + b"".join(self._constants)
        body = _u2(_PUBLIC | _SUPER) + self._names + _u2(0) + _u2(0)  # no interfaces, no fields
        return head + body + _u2(len(self._methods)) + b"".join(self._methods) + _u2(0)

    def _constant(self, data: bytes) -> bytes:
        return _u2(self._constants.setdefault(data, len(self._constants) + 1))


def _u2(number: int) -> bytes:
    return number.to_bytes(2)


def _u4(number: int) -> bytes:
    return number.to_bytes(4)
