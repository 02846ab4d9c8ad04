"""No request goes to another address than without `ebb run`: the law over clients and the settings that they read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import pytest

from ebbtide import BadConfig
from ebbtide.config import load_settings
from ebbtide.fronts.proxy.upstreams import check_upstream, find_target
from ebbtide.fronts.run.clients import plan_launch
from ebbtide.fronts.run.launch import recognize
from ebbtide.fronts.run.messages import describe_start
from ebbtide.fronts.run.plan import PROXY as PROXY_PLACEHOLDER
from ebbtide.fronts.run.plan import LaunchPlan, Surroundings, parse_upstreams
from fronts.run import fake_clients

PROXY = "http://127.0.0.1:4321"
A, B = "https://a.example/x/v1", "https://b.example/llm"

CODEX_PROVIDER = (
    f'model_provider = "own"\n[model_providers.own]\nname = "own"\nbase_url = "{A}"\n'
    f'[model_providers.other]\nname = "other"\nbase_url = "{B}"\n'
)
KIMI = (
    'default_model = "k"\n[models.k]\nprovider = "p"\nmodel = "kimi-k2"\nmax_context_size = 9\n'
    '[providers.p]\ntype = "{kind}"\nbase_url = "https://a.example/x/v1"\napi_key = "k"\n'
)
VIBE = (
    'active_model = "m"\n[[models]]\nname = "m"\nprovider = "own"\n'
    f'[[providers]]\nname = "own"\napi_base = "{A}"\napi_key_env_var = "KEY"\n'
)


def claude_env(**env: str) -> str:
    return json.dumps({"env": env})


def opencode_config(**addresses: str) -> str:
    return json.dumps({"provider": {name: {"options": {"baseURL": address}} for name, address in addresses.items()}})


CASES: Mapping[str, tuple[list[str], dict[str, str], dict[str, str]]] = {
    "claude, nothing set": (["claude"], {}, {}),
    "claude, variable": (["claude", "-p", "hi"], {"ANTHROPIC_BASE_URL": B}, {}),
    "claude, user's settings": (["claude"], {}, {"~/.claude/settings.json": claude_env(ANTHROPIC_BASE_URL=B)}),
    "claude, settings over variable": (
        ["claude"], {"ANTHROPIC_BASE_URL": "https://old.example"}, {"~/.claude/settings.json": claude_env(ANTHROPIC_BASE_URL=B)},
    ),
    "claude, project over user": (
        ["claude"], {}, {"~/.claude/settings.json": claude_env(ANTHROPIC_BASE_URL="https://old.example"), ".claude/settings.json": claude_env(ANTHROPIC_BASE_URL=B)},
    ),
    "claude, local over project": (
        ["claude"], {}, {".claude/settings.json": claude_env(ANTHROPIC_BASE_URL="https://old.example"), ".claude/settings.local.json": claude_env(ANTHROPIC_BASE_URL=B)},
    ),
    "claude, option over files": (
        ["claude", "--settings", claude_env(ANTHROPIC_BASE_URL=B)], {}, {".claude/settings.json": claude_env(ANTHROPIC_BASE_URL="https://old.example")},
    ),
    "claude, option that names a file": (["claude", "--settings", "mine.json"], {}, {"mine.json": claude_env(ANTHROPIC_BASE_URL=B)}),
    "claude, Vertex AI": (["claude"], {"CLAUDE_CODE_USE_VERTEX": "1", "CLOUD_ML_REGION": "europe-west1"}, {}),
    "claude, Vertex AI in settings": (
        ["claude"], {}, {"~/.claude/settings.json": claude_env(CLAUDE_CODE_USE_VERTEX="1", ANTHROPIC_VERTEX_BASE_URL=A)},
    ),
    "claude, Bedrock": (["claude"], {"CLAUDE_CODE_USE_BEDROCK": "1"}, {}),
    "codex, nothing set": (["codex"], {}, {}),
    "codex, ChatGPT login": (["codex", "exec", "hi"], {}, {"~/.codex/auth.json": '{"tokens": {"access_token": "t"}}'}),
    "codex, own address": (["codex"], {}, {"~/.codex/config.toml": f'openai_base_url = "{A}"\n'}),
    "codex, own provider": (["codex"], {}, {"~/.codex/config.toml": CODEX_PROVIDER}),
    "codex, provider by option": (
        ["codex", "-c", 'model_provider="other"', "exec", "hi"], {}, {"~/.codex/config.toml": CODEX_PROVIDER},
    ),
    "codex, address by option": (["codex", "exec", "-c", f'openai_base_url="{A}"', "hi"], {}, {}),
    "codex, profile": (
        ["codex", "-p", "work"], {}, {"~/.codex/config.toml": CODEX_PROVIDER, "~/.codex/work.config.toml": 'model_provider = "other"'},
    ),
    "codex, another home": (["codex"], {"CODEX_HOME": "HOME/elsewhere"}, {"~/elsewhere/config.toml": CODEX_PROVIDER}),
    "opencode, nothing set": (["opencode", "run", "-m", "anthropic/c", "hi"], {}, {}),
    "opencode, user's provider": (
        ["opencode", "-m", "own/m"], {}, {"~/.config/opencode/opencode.json": opencode_config(own=A)},
    ),
    "opencode, project over user": (
        ["opencode", "-m", "anthropic/m"], {}, {"~/.config/opencode/opencode.json": opencode_config(anthropic="https://old.example"), "opencode.json": opencode_config(anthropic=A)},
    ),
    "opencode, variable over files": (
        ["opencode", "-m", "openai/m"], {"OPENCODE_CONFIG_CONTENT": opencode_config(openai=B)}, {"opencode.json": opencode_config(openai=A)},
    ),
    "qwen, settings": (["qwen"], {}, {"~/.qwen/settings.json": json.dumps({"security": {"auth": {"baseUrl": A}}})}),
    "qwen, .env": (["qwen"], {}, {".qwen/.env": f"OPENAI_BASE_URL={A}\n"}),
    "qwen, env of its settings": (["qwen"], {}, {"~/.qwen/settings.json": json.dumps({"env": {"OPENAI_BASE_URL": B}})}),
    "gemini, .env": (["gemini"], {}, {".gemini/.env": f"GOOGLE_GEMINI_BASE_URL={B}\n"}),
    "kimi, settings": (["kimi"], {}, {"~/.kimi/config.toml": KIMI.format(kind="kimi")}),
    "kimi, variable": (["kimi"], {"KIMI_BASE_URL": B}, {"~/.kimi/config.toml": KIMI.format(kind="kimi")}),
    "kimi, another API": (["kimi"], {}, {"~/.kimi/config.toml": KIMI.format(kind="openai_legacy")}),
    "kimi, an API that cannot be led": (["kimi"], {}, {"~/.kimi/config.toml": KIMI.format(kind="anthropic")}),
    "vibe, nothing set": (["vibe"], {}, {}),
    "vibe, own provider": (["vibe"], {}, {"~/.vibe/config.toml": VIBE}),
    "aider, one variable": (["aider"], {"OPENAI_API_BASE": A}, {}),
    "aider, .env over variable": (["aider"], {"OPENAI_API_BASE": B}, {".env": f"OPENAI_API_BASE={A}\n"}),
    "aider, settings": (["aider"], {}, {".aider.conf.yml": f"openai-api-base: {A}\n"}),
}  # fmt: skip
NAMED_BY_MODEL = {
    "aider": ["aider", "--model", "openai/small"],
    "mini-swe-agent": ["mini", "-m", "openai/small", "-t", "x"],
}
LIBRARIES: Mapping[str, Callable[..., str]] = {
    "LiteLLM": fake_clients.litellm, "an SDK": fake_clients.sdk, "an old SDK": fake_clients.old_sdk,
}  # fmt: skip
VARIABLES = (
    {}, {"OPENAI_API_BASE": A}, {"OPENAI_BASE_URL": A}, {"OPENAI_BASE_URL": A, "OPENAI_API_BASE": B},
)  # fmt: skip


@pytest.fixture
def surroundings(tmp_path):
    def make(environ: Mapping[str, str], files: Mapping[str, str], *upstreams: str) -> Surroundings:
        home, cwd = tmp_path / "home", tmp_path / "home" / "work"
        cwd.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            path = home / name[2:] if name.startswith("~/") else cwd / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        own = {name: value.replace("HOME", str(home)) for name, value in environ.items()}
        return Surroundings(environ=own, cwd=cwd, home=home, given=parse_upstreams(upstreams), store=tmp_path / "store")

    return make


def led_to(plan: LaunchPlan, around: Surroundings, client: Callable[..., str]) -> str:
    """Where the client sends as the plan starts it."""
    (around.cwd / "written.json").write_text(plan.file.replace(PROXY_PLACEHOLDER, PROXY))
    environ = dict(around.environ) if plan.direct else plan.environment(around.environ, PROXY)
    return client(environ, plan.command_for(PROXY, "written.json")[1:], around.home, around.cwd)


def destination(plan: LaunchPlan, around: Surroundings, client: Callable[..., str]) -> str:
    """Where the client's request ends: at the proxy's upstream, or where it sends to past the proxy."""
    url = led_to(plan, around, client)
    if not url.startswith(PROXY):
        return url
    upstreams = dict(check_upstream(name, address) for name, address in plan.upstreams.items())
    target = find_target(upstreams | {"another": "https://another.example"}, url.removeprefix(PROXY), {})
    assert target is not None
    return target.url


@pytest.mark.parametrize("case", CASES)
def test_a_request_ends_where_the_clients_own_settings_send_it(case, surroundings):
    command, environ, files = CASES[case]
    around = surroundings(environ, files)
    client = fake_clients.BY_COMMAND[command[0]]
    without = client(dict(around.environ), command[1:], around.home, around.cwd)
    plan = plan_launch(around, recognize(command))

    assert destination(plan, around, client) == without
    assert led_to(plan, around, client).startswith(PROXY) != bool(plan.direct), "it passes the proxy, or is said not to"


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("environ", VARIABLES, ids=lambda environ: "+".join(environ) or "none")
def test_a_library_sends_where_it_would_have_sent_whichever_variable_it_reads(library, environ, surroundings):
    around, client = surroundings(environ, {}), LIBRARIES[library]
    plan = plan_launch(around, recognize(["python", "agent.py"]))

    assert destination(plan, around, client) == client(dict(environ), [], around.home, around.cwd)


def test_an_address_in_a_env_file_that_a_program_loads_itself_is_the_upstream(surroundings):
    around = surroundings({}, {".env": f"OPENAI_BASE_URL='{A}'\n"})
    plan = plan_launch(around, recognize(["python", "agent.py"]))

    assert destination(plan, around, fake_clients.sdk) == A + "/chat/completions"


@pytest.mark.parametrize(
    ("environ", "files", "reason"),
    [
        ({"CLAUDE_CODE_USE_BEDROCK": "1"}, {}, "signs each request (SigV4)"),
        ({}, {"~/.claude/settings.json": claude_env(CLAUDE_CODE_USE_BEDROCK="true")}, "signs each request (SigV4)"),
        ({"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_BEARER_TOKEN_BEDROCK": "t"}, {}, "which Ebbtide does not read"),
        (
            {"CLAUDE_CODE_USE_VERTEX": "1", "CLOUD_ML_REGION": "us-east5", "VERTEX_REGION_CLAUDE_HAIKU_4_5": "europe-west1"},
            {}, "in several regions",
        ),
        ({"ANTHROPIC_BASE_URL": "https://key:word@a.example"}, {}, "is not an address"),
    ],
)  # fmt: skip
def test_what_cannot_be_led_is_started_unchanged_and_the_reason_is_said(environ, files, reason, surroundings):
    plan = plan_launch(surroundings(environ, files), recognize(["claude", "-p", "hi"]))

    assert plan.command == ("claude", "-p", "hi")
    assert reason in plan.direct
    line = describe_start(plan, load_settings(environ={}))
    assert line.startswith("ebb run: claude runs without Ebbtide: ")
    assert "\n" not in line


def test_the_first_line_says_where_requests_go_and_how_large_the_window_is(surroundings):
    settings = load_settings(environ={})

    def line(*command: str, **environ: str) -> str:
        return describe_start(plan_launch(surroundings(environ, {}), recognize(command)), settings)

    assert line("claude") == "ebb run: claude -> ebbtide -> api.anthropic.com, window 200k"
    assert line("claude", ANTHROPIC_BASE_URL=B) == "ebb run: claude -> ebbtide -> b.example, window 200k"
    assert line("npx", "-y", "@openai/codex@latest").startswith("ebb run: codex -> ebbtide -> api.openai.com, window 2")
    assert line("python", "x.py") == "ebb run: python -> ebbtide -> the provider's own address, window by model"
    assert "window as the provider says, else 200k, a guess" in line("qwen", "-m", "qwen3-coder")
    for command in NAMED_BY_MODEL.values():
        assert "-> ebbtide -> b.example, window" in line(*command, OPENAI_API_BASE=B), "not Anthropic's address as well"


@pytest.mark.parametrize(
    ("command", "program"),
    [
        (["/opt/bin/claude"], "claude"),
        (["claude.exe", "-p"], "claude"),
        (["npx", "@anthropic-ai/claude-code", "-p", "hi"], "claude"),
        (["npx", "-y", "--package", "x", "codex", "exec"], "codex"),
        (["npm", "exec", "--", "opencode-ai"], "opencode"),
        (["pnpm", "dlx", "@google/gemini-cli@0.61.0"], "gemini"),
        (["bunx", "@qwen-code/qwen-code"], "qwen"),
        (["uvx", "kimi-cli==1.51.0"], "kimi"),
        (["uvx", "--python", "3.12", "--from", "mistral-vibe", "vibe"], "vibe"),
        (["uv", "tool", "run", "aider-chat@latest"], "aider"),
        (["uv", "run", "--with", "llm", "llm", "hi"], "llm"),
        (["uv", "run", "python", "-m", "aider"], "aider"),
        (["pipx", "run", "llm"], "llm"),
        (["python3.12", "-m", "llm"], "llm"),
        (["node", "/x/node_modules/@openai/codex/bin/codex.js"], "codex"),
        (["python", "claude.py"], ""),
        (["npm", "test"], ""),
        (["npx"], ""),
        (["uv"], ""),
        (["make", "codex"], ""),
    ],
)
def test_the_program_is_recognized_however_it_is_started(command, program):
    launch = recognize(command)

    assert launch.program == program
    assert [*launch.head, *launch.arguments] == command


def test_codex_through_a_runner_gets_its_option_behind_its_own_name(surroundings):
    plan = plan_launch(surroundings({}, {}), recognize(["npx", "-y", "@openai/codex", "exec", "hi"]))

    assert plan.command_for(PROXY) == [
        *("npx", "-y", "@openai/codex", "-c", f'openai_base_url="{PROXY}/openai/v1"', "exec", "hi"),
    ]


def test_an_address_on_the_command_line_overrides_every_setting(surroundings):
    given = "http://127.0.0.1:8080"
    for case, (command, environ, files) in CASES.items():
        around = surroundings(environ, files, given)
        plan = plan_launch(around, recognize(command))
        client = fake_clients.BY_COMMAND[command[0]]
        if not plan.direct:
            assert destination(plan, around, client).startswith(given), case
    with pytest.raises(BadConfig, match="anthropic, openai, gemini, vertex"):
        parse_upstreams(["opnai=https://x.example"])
    with pytest.raises(BadConfig, match="is not an address"):
        parse_upstreams(["openai=localhost"])


def test_settings_that_cannot_be_read_stop_nothing(surroundings):
    files = {"~/.claude/settings.json": "{", "~/.codex/config.toml": "= =", "~/.config/opencode/opencode.json": "[]"}
    around = surroundings({}, files)
    for name in ("claude", "codex", "opencode"):
        assert plan_launch(around, recognize([name])).direct == ""
    broken = surroundings({"OPENCODE_CONFIG_CONTENT": "{ ..."}, {})
    assert "is not JSON" in plan_launch(broken, recognize(["opencode"])).direct


def test_json_with_comments_is_read(surroundings):
    content = (
        '{ // an address\n "provider": {"own": {"options": {"baseURL": "https://a.example/x/v1",}}},\n /* end */ }'
    )
    around = surroundings({}, {"opencode.jsonc": content})

    assert A in plan_launch(around, recognize(["opencode", "-m", "own/m"])).upstreams.values()


def test_the_users_other_settings_of_a_client_stay(surroundings):
    own = {"theme": "tide", "provider": {"anthropic": {"options": {"baseURL": A, "timeout": 9}}}}
    around = surroundings({"OPENCODE_CONFIG_CONTENT": json.dumps(own)}, {})
    content = json.loads(
        plan_launch(around, recognize(["opencode"])).environment(around.environ, PROXY)["OPENCODE_CONFIG_CONTENT"]
    )
    assert (content["theme"], content["provider"]["anthropic"]["options"]["timeout"]) == ("tide", 9)

    flag = {"model": "opus", "permissions": {"allow": ["Bash(ls:*)"], "deny": ["Read(.env)"]}}
    plan = plan_launch(surroundings({}, {}), recognize(["claude", "--settings", json.dumps(flag), "--", "--settings"]))
    settings = json.loads(plan.command[2])
    assert plan.command[3:] == ("--", "--settings")
    assert (settings["model"], settings["permissions"]["deny"]) == ("opus", ["Read(.env)"])
    assert settings["permissions"]["allow"][0] == "Bash(ls:*)"


def test_loopback_is_excepted_from_a_configured_web_proxy(surroundings):
    environ = {"https_proxy": "http://gate.example:3128", "NO_PROXY": "intern.example"}
    led = plan_launch(surroundings(environ, {}), recognize(["claude"])).environment(environ, PROXY)

    assert led["NO_PROXY"] == "intern.example,127.0.0.1,localhost"
    assert led["no_proxy"] == "127.0.0.1,localhost"
    assert "NO_PROXY" not in plan_launch(surroundings({}, {}), recognize(["claude"])).environment({}, PROXY)


def test_no_secret_of_a_settings_file_gets_into_the_command(surroundings):
    secret = json.dumps({"env": {"ANTHROPIC_AUTH_TOKEN": "sk-secret", "ANTHROPIC_BASE_URL": B}})
    around = surroundings({}, {"~/.claude/settings.json": secret, "mine.json": secret})

    assert "sk-secret" not in " ".join(plan_launch(around, recognize(["claude"])).command)
    plan = plan_launch(around, recognize(["claude", "--settings=mine.json", "hi"]))
    assert "sk-secret" not in " ".join(plan.command)
    assert "sk-secret" in plan.file
