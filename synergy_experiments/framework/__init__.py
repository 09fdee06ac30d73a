"""The framework of experiments: parameters, repetitions, intervals, verdicts and figures."""
