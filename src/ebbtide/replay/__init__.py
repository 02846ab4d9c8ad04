"""Replays recorded sessions under policies: what each would have cost and kept. Calls no model and sends nothing."""
