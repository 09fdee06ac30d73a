"""Functions of one's own, executed: what an operator asks of its function, wherever it runs.

``calls`` is the door. A peer executes them in processes of their own
(:mod:`synergy_nb.runtime.data.function_processes`), simulations and tests in their own process.
"""
