"""The data path on Spark: an embedded or a remote Spark Connect server, its sessions, and operators over its streams.

Spark is spoken to through Spark Connect only, never as a session within this process. :mod:`spark_stream.java` finds a
Java, :mod:`spark_stream.server` runs a server on this machine, and :mod:`spark_stream.session` opens sessions on it or
on a cluster elsewhere, with the settings of :mod:`spark_stream.settings`.
"""

import warnings

# What PySpark says when it is imported, and when a server is lost: nothing here passes through pandas, and whoever has
# lost a server gets an error.
warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
warnings.filterwarnings("ignore", r"\[RETRIES_EXCEEDED\]", UserWarning)
