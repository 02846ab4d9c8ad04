"""Ebbtide keeps an LLM agent's conversation inside the model's window, at the lowest bill, and loses nothing."""
