"""Exit codes: 0 done, 1 something given cannot be used, or a failure, 2 wrong usage, 130 interrupted."""

FAILED, INTERRUPTED = 1, 130
