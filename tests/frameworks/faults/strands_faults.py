"""What Strands does with our plugin if something is wrong."""

from __future__ import annotations

from strands import Agent, tool
from strands.agent.conversation_manager import SummarizingConversationManager
from strands.models.model import Model

from ebbtide.adapters.strands import Ebbtide
from frameworks.loops.strands_loop import model_of, read_file


def _agent(url: str, options: dict, **more: object) -> Agent:
    more = {"tools": [read_file], "callback_handler": None, **more}
    return Agent(model=model_of("anthropic", url), plugins=[Ebbtide(**options)], **more)


class Local(Model):
    """A model without a client."""

    def update_config(self, **config):
        pass

    def get_config(self):
        return {}

    async def structured_output(self, *args, **more):
        yield {}

    async def stream(self, *args, **more):
        yield {}


def unknown_client(url: str, options: dict) -> str:
    return str(Agent(model=Local(), plugins=[Ebbtide(**options)], callback_handler=None)("Hello"))


def orphan_result(url: str, options: dict) -> str:
    lost = {"toolResult": {"toolUseId": "call_gone", "status": "success", "content": [{"text": "lost"}]}}
    messages = [{"role": "user", "content": [{"text": "Hello"}]}, {"role": "assistant", "content": [{"text": "Hi."}]}]
    return str(_agent(url, options, messages=[*messages, {"role": "user", "content": [lost]}])("Go on."))


def two_compactors(url: str, options: dict) -> str:
    return str(_agent(url, options, conversation_manager=SummarizingConversationManager())("Hello"))


def two_with_a_context_manager(url: str, options: dict) -> str:
    return str(_agent(url, options, context_manager="auto")("Hello"))


def dying_helper(url: str, options: dict) -> str:
    @tool
    def ask_helper(task: str) -> str:
        """Asks a sub-agent to do a task."""
        return str(_agent(url, options, agent_id="helper")(task))

    return str(_agent(url, options, agent_id="mender", tools=[read_file, ask_helper])("Read it."))
