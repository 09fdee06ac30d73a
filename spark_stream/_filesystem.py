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

(:mod:`spark_stream._class_files` puts the two class files together). Nothing in the jars of PySpark 4.3 does it: of
the 27 file systems in them each that is local is Hadoop's, or passes on to it, and it has no setting for that.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from spark_stream._class_files import (
    ALOAD_0,
    DUP,
    ICONST_0,
    INVOKESPECIAL,
    INVOKEVIRTUAL,
    NEW,
    RETURN,
    ClassFile,
)

CLASS: Final = "synergy.FileSystem"
_RAW: Final = "synergy/RawFileSystem"
_LOCAL: Final = "synergy/FileSystem"
_PARENT_OF_RAW: Final = "org/apache/hadoop/fs/RawLocalFileSystem"
_PARENT_OF_LOCAL: Final = "org/apache/hadoop/fs/LocalFileSystem"
_PERMIT: Final = "(Lorg/apache/hadoop/fs/Path;Lorg/apache/hadoop/fs/permission/FsPermission;)V"


def write_classes(folder: Path) -> None:
    """Write the class files below ``folder``, which is to be on the class path."""
    raw = ClassFile(_RAW, _PARENT_OF_RAW)
    raw.add("<init>", "()V", ALOAD_0 + INVOKESPECIAL + raw.method(_PARENT_OF_RAW, "<init>", "()V") + RETURN)
    raw.add("setPermission", _PERMIT, RETURN)
    local = ClassFile(_LOCAL, _PARENT_OF_LOCAL)
    without = (local.method(_LOCAL, name, "(Z)V") for name in ("setWriteChecksum", "setVerifyChecksum"))
    local.add(
        "<init>",
        "()V",
        ALOAD_0
        + (NEW + local.type(_RAW) + DUP + INVOKESPECIAL + local.method(_RAW, "<init>", "()V"))
        + (INVOKESPECIAL + local.method(_PARENT_OF_LOCAL, "<init>", "(Lorg/apache/hadoop/fs/FileSystem;)V"))
        + b"".join(ALOAD_0 + ICONST_0 + INVOKEVIRTUAL + method for method in without)
        + RETURN,
    )
    for made in (raw, local):
        made.write(folder)
