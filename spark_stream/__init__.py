"""The data path on Spark: an embedded or a remote Spark Connect server, its sessions, and operators over its streams.

Spark is accessed through Spark Connect only, never through a session in this process. :mod:`spark_stream.java` finds
a Java, :mod:`spark_stream.server` runs a server on this machine, and :mod:`spark_stream.session` opens sessions on it
or on a cluster elsewhere, with the settings of :mod:`spark_stream._settings`.
"""

import warnings

# Warnings of PySpark on import, and when a server is lost: nothing here uses pandas, and a lost server raises an error.
warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
warnings.filterwarnings("ignore", r"\[RETRIES_EXCEEDED\]", UserWarning)
