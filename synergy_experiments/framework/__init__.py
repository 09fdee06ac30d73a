"""What an experiment is: its parameters, repetitions, intervals, verdicts and figures."""
