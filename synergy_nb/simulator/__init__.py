"""A simulated cluster: whole peers, their data paths and their network in virtual time.

:mod:`.simulation` is its door for notebooks, :mod:`.kernel` the one for protocols without a data path. Flows without
peers, which only experiments use, are in ``synergy_experiments/flows``.
"""
