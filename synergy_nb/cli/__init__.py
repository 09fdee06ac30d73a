"""The command ``synergy``.

``commands`` says what there is, ``running`` and ``doctor`` do it, ``showing`` and ``console`` print.
"""
