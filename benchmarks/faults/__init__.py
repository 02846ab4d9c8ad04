"""The fault campaign: `python -m benchmarks.faults`."""
