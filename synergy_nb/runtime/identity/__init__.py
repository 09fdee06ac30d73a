"""Identity of peers, users and sessions: the authority of a cluster, certificates, and where credentials lie."""
