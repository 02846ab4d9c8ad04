"""The pure core: values and rules. No I/O, no clock, no randomness, no environment."""
