"""The same with the oldest LiteLLM whose proxy has the guardrail."""

from frameworks.loops.litellm_proxy_loop import run

__all__ = ["run"]
