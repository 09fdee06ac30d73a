"""The command ``synergy``.

``commands`` declares the commands, with ``options``. ``run_command``, ``replay_command``, ``reproduce_command`` and
``doctor`` execute them, ``input_checks`` refuses wrong input, and ``printing`` and ``console`` print.
"""
