"""What is set for whom, and where the proxy sends to."""

from __future__ import annotations

import json

import pytest

from ebbtide import BadConfig
from ebbtide.fronts.run.addresses import plan_routes

PROXY = "http://127.0.0.1:4321"


def test_without_settings_the_proxy_uses_the_providers():
    plan = plan_routes({})
    led = plan.environment({"PATH": "/bin"}, PROXY)

    assert plan.upstreams() == []
    assert led["PATH"] == "/bin"
    assert led["ANTHROPIC_BASE_URL"] == led["ANTHROPIC_API_BASE"] == f"{PROXY}/anthropic"
    assert led["OPENAI_BASE_URL"] == led["OPENAI_API_BASE"] == f"{PROXY}/openai/v1"
    assert led["GOOGLE_GEMINI_BASE_URL"] == f"{PROXY}/gemini"
    assert led["GOOGLE_VERTEX_BASE_URL"] == f"{PROXY}/vertex"


@pytest.mark.parametrize(
    ("own", "upstream", "base"),
    [
        ("https://gate.example/v1/", "openai=https://gate.example/v1", f"{PROXY}/openai/v1"),
        ("https://gate.example/chat", "openai=https://gate.example/chat", f"{PROXY}/openai"),
        ("http://127.0.0.1:8080", "openai=http://127.0.0.1:8080", f"{PROXY}/openai"),
    ],
)
def test_the_users_own_address_becomes_the_upstream_with_its_paths(own, upstream, base):
    environ = {"OPENAI_BASE_URL": own}
    plan = plan_routes(environ)

    assert plan.upstreams() == ["--upstream", upstream]
    assert plan.environment(environ, PROXY)["OPENAI_BASE_URL"] == base
    assert plan.environment(environ, PROXY)["OPENAI_API_BASE"] == base


def test_two_addresses_for_one_provider_are_two_upstreams():
    environ = {"OPENAI_BASE_URL": "https://one.example/v1", "OPENAI_API_BASE": "https://two.example/v1"}
    plan = plan_routes(environ)
    led = plan.environment(environ, PROXY)

    assert plan.upstreams() == [
        *("--upstream", "openai=https://one.example/v1"),
        *("--upstream", "openai-2=https://two.example/v1"),
    ]
    assert led["OPENAI_BASE_URL"] == f"{PROXY}/openai/v1"
    assert led["OPENAI_API_BASE"] == f"{PROXY}/openai-2/v1"


def test_an_address_on_the_command_line_overrides_the_environment():
    environ = {"ANTHROPIC_BASE_URL": "https://old.example"}

    assert plan_routes(environ, ["anthropic=https://new.example"]).upstreams() == [
        *("--upstream", "anthropic=https://new.example"),
    ]
    everything = plan_routes(environ, ["http://127.0.0.1:8080/"])
    assert everything.upstreams()[1::2] == [
        f"{name}=http://127.0.0.1:8080" for name in ("anthropic", "openai", "gemini", "vertex")
    ]
    assert everything.environment(environ, PROXY)["OPENAI_BASE_URL"] == f"{PROXY}/openai/v1"
    with pytest.raises(BadConfig, match="anthropic, openai, gemini, vertex"):
        plan_routes({}, ["opnai=https://x.example"])


def test_vertex_is_asked_where_the_environment_says():
    assert plan_routes({"GOOGLE_CLOUD_LOCATION": "europe-west1"}).upstreams() == [
        *("--upstream", "vertex=https://europe-west1-aiplatform.googleapis.com"),
    ]
    assert plan_routes({"GOOGLE_CLOUD_LOCATION": "global"}).upstreams() == []
    own = {"GOOGLE_CLOUD_LOCATION": "europe-west1", "GOOGLE_VERTEX_BASE_URL": "https://gate.example/"}
    assert plan_routes(own).upstreams() == ["--upstream", "vertex=https://gate.example"]


def test_codex_gets_an_option_before_all_others():
    plan = plan_routes({})

    assert plan.command(["/usr/bin/codex", "exec", "hi"], PROXY) == [
        *("/usr/bin/codex", "-c", f'openai_base_url="{PROXY}/openai/v1"', "exec", "hi"),
    ]
    assert plan.command(["claude", "-p", "codex"], PROXY) == ["claude", "-p", "codex"]


def test_codex_with_a_login_reaches_its_own_path():
    plan = plan_routes({}, ["openai=https://chatgpt.com/backend-api/codex"])

    assert plan.command(["codex"], PROXY)[2] == f'openai_base_url="{PROXY}/openai"'


def test_opencode_keeps_its_settings_and_its_own_addresses_become_upstreams():
    own = {
        "theme": "tide",
        "provider": {"anthropic": {"options": {"baseURL": "https://gate.example/v1", "timeout": 9}}},
    }
    environ = {"OPENCODE_CONFIG_CONTENT": json.dumps(own)}
    plan = plan_routes(environ)
    settings = json.loads(plan.environment(environ, PROXY)["OPENCODE_CONFIG_CONTENT"])

    assert plan.upstreams() == ["--upstream", "opencode-anthropic=https://gate.example/v1"]
    assert settings["theme"] == "tide"
    assert settings["provider"]["anthropic"]["options"] == {"baseURL": f"{PROXY}/opencode-anthropic/v1", "timeout": 9}
    assert settings["provider"]["openai"]["options"] == {"baseURL": f"{PROXY}/openai/v1"}


def test_unreadable_settings_are_left_unchanged():
    environ = {"OPENCODE_CONFIG_CONTENT": "{ // a comment\n}"}

    assert (
        plan_routes(environ).environment(environ, PROXY)["OPENCODE_CONFIG_CONTENT"]
        == environ["OPENCODE_CONFIG_CONTENT"]
    )


def test_loopback_is_excepted_from_a_configured_web_proxy():
    environ = {"https_proxy": "http://gate.example:3128", "NO_PROXY": "intern.example"}
    led = plan_routes(environ).environment(environ, PROXY)

    assert led["NO_PROXY"] == "intern.example,127.0.0.1,localhost"
    assert led["no_proxy"] == "127.0.0.1,localhost"
    assert "NO_PROXY" not in plan_routes({}).environment({}, PROXY)
