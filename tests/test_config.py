"""Argument, environment, project file, user file, preset: who is heard, and what is refused."""

import logging
import re
from pathlib import Path

import pytest

from ebbtide.config import context, load_settings
from ebbtide.config_keys import PROJECT_KEYS, parse_tokens
from ebbtide.core.cache.breakpoints import BreakpointSlot
from ebbtide.core.errors import BadConfig
from ebbtide.policy import preset
from ebbtide.policy.adjust import pass_name


@pytest.fixture
def home(tmp_path):
    """A home, a project two levels below it, and the directory that a person works in."""
    (tmp_path / "code" / "tide" / "src").mkdir(parents=True)
    (tmp_path / ".config" / "ebbtide").mkdir(parents=True)
    return tmp_path


def load(home, *, project="", pyproject="", user="", platform="linux", environ=None, **arguments):
    if project:
        (home / "code" / "tide" / "ebbtide.toml").write_text(project)
    if pyproject:
        (home / "code" / "tide" / "pyproject.toml").write_text(pyproject)
    if user:
        (home / ".config" / "ebbtide" / "config.toml").write_text(user)
    cwd = home / "code" / "tide" / "src"
    return load_settings(arguments=arguments, environ=environ or {}, cwd=cwd, home=home, platform=platform)


def test_without_settings_the_default_policy_and_the_platforms_directory_are_used(home):
    settings = load(home)

    assert (settings.preset, settings.window, settings.durable) == ("default", None, True)
    assert settings.store == str(home / ".local" / "share" / "ebbtide")


def test_argument_beats_environment_beats_project_beats_user_beats_preset(home):
    sources = {"project": "window = 30_000", "user": "window = 40_000\nmodel = 'gpt-4o'"}
    environ = {"EBB_WINDOW": "20k"}

    assert load(home, **sources, environ=environ, window=10_000).window == 10_000
    assert load(home, **sources, environ=environ).window == 20_000
    assert load(home, **sources).window == 30_000
    assert load(home, **sources).model == "gpt-4o"
    (home / "code" / "tide" / "ebbtide.toml").unlink()
    assert load(home, user=sources["user"]).window == 40_000


def test_an_argument_that_is_none_says_nothing(home):
    assert load(home, project="window = 30_000", window=None).window == 30_000


def test_the_source_of_a_value_is_reported(home):
    settings = load(home, project="window = 30_000", environ={"EBB_POLICY": "sage"})

    assert settings.origins["window"].endswith("ebbtide.toml")
    assert settings.origins["preset"] == "environment (EBB_*)"


def test_pyproject_is_read_when_there_is_no_ebbtide_file(home):
    assert load(home, pyproject="[tool.ebbtide]\nwindow = '32k'").window == 32_000
    assert load(home, project="window = '64k'").window == 64_000


def test_a_pyproject_without_an_ebbtide_section_is_skipped_and_the_search_continues_upwards(home):
    (home / "code" / "ebbtide.toml").write_text("window = 5000")

    assert load(home, pyproject="[project]\nname = 'ebbtide-user'").window == 5_000


def test_a_broken_pyproject_that_does_not_mention_us_is_not_our_affair(home):
    assert load(home, pyproject="[project\n").window is None


def test_the_search_ends_below_home(home):
    (home / "ebbtide.toml").write_text("window = 5000")

    assert load(home).window is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("windo = 1", "windo: unknown; there are policy, model, window"),
        ("policy = 'claude'", "policy: no policy is called 'claude'"),
        ("window = -1", "window: -1 is not a number of tokens"),
        ("window = true", "window: True is not a number of tokens"),
        ("ttl = '7m'", "ttl: must be 5m or 1h"),
        ("overflow = 'explode'", "overflow: 'explode' is not one of prune, summarize, auto-compact, error"),
        ("levels = 3", "levels: must be a table"),
        ("[levels]\nhigh = 0.5", "levels.high: unknown; there are warning, soft, auto, hard, blocking, low"),
        ("[levels]\nauto = 'much'", "levels.auto: 'much' is neither a share of the window nor tokens"),
        ("[passes.clear]\nkeep_results = 3", "passes.clear: unknown; there are budget_results, clear_again"),
        ("[passes.clear_results]\nkeep = 3", "passes.clear_results.keep: unknown; there are keep_results"),
        ("[passes.clear_results]\nstub = 'x'", "passes.clear_results.stub: unknown"),
        ("[passes.clear_results]\nkeep_results = 1.5", "passes.clear_results.keep_results: must be a whole number"),
        ("[passes.clear_results]\nkeep_results = -1", "passes.clear_results.keep_results: must be a number of 0"),
        ("[passes.clear_results]\nonly = 'bash'", "passes.clear_results.only: must be a list of names"),
        ("[passes.offload_results]\nunit = 'feet'", "passes.offload_results.unit: 'feet' is not one of chars"),
        ("[passes.budget_results]\nloose = [1]", "passes.budget_results.loose: must be a list of two numbers"),
        ("passes = {clear_results = 3}", "passes.clear_results: must be a table"),
        ("[windows]\nopus = 'big'", "windows: 'big' is not a number of tokens"),
        ("window = ", "not TOML"),
    ],
)
def test_a_wrong_setting_is_refused_with_file_key_and_the_right_form(home, text, told):
    with pytest.raises(BadConfig) as refused:
        load(home, project=text)

    assert str(home / "code" / "tide" / "ebbtide.toml") in str(refused.value)
    assert told in str(refused.value)


def test_bytes_that_are_not_text_and_files_that_are_too_large_are_refused(home):
    path = home / "code" / "tide" / "ebbtide.toml"
    for raw in (b"model = '\xff'", b"# " + b"x" * (1 << 20)):
        path.write_bytes(raw)
        with pytest.raises(BadConfig, match=r"ebbtide\.toml"):
            load(home)


@pytest.mark.parametrize("line", ["store = '/elsewhere'", "durable = false"])
def test_a_project_may_not_choose_where_conversations_are_written(home, line):
    """Reliability 24: a repository is somebody else's."""
    with pytest.raises(BadConfig, match="a project may not set this"):
        load(home, project=line)

    (home / "code" / "tide" / "ebbtide.toml").unlink()
    assert load(home, user=line).origins


@pytest.mark.parametrize("line", ["upstream = 'http://evil'", "api_key = 'k'", "hooks = ['rm']"])
def test_upstreams_keys_and_hooks_are_no_keys_of_a_project(home, line):
    """Reliability 8."""
    with pytest.raises(BadConfig, match="unknown"):
        load(home, project=line)


def test_the_keys_a_project_may_set_are_listed():
    assert PROJECT_KEYS == ("policy", "model", "window", "windows", "levels", "passes", "overflow", "ttl")


def test_tables_of_two_files_are_merged_and_the_project_wins(home):
    settings = load(
        home,
        project="[passes.clear_results]\nkeep_results = 5\n[levels]\nauto = 0.7",
        user="[passes.clear_results]\nkeep_results = 9\nmin_tokens = 50\n[levels]\nauto = 0.6\nlow = 0.3",
    )

    assert settings.passes == {"clear_results": {"keep_results": 5, "min_tokens": 50}}
    assert settings.levels == {"auto": 0.7, "low": 0.3}


def test_a_number_of_a_pass_reaches_the_pass(home):
    default = load(home).policy()
    policy = load(home, project="[passes.clear_results]\nkeep_results = 5\nonly = ['bash']").policy()

    (clear,) = [one for one in policy.pressure if pass_name(one) == "clear_results"]
    assert clear.keywords == {"telling": 0.4, "keep_results": 5, "only": frozenset({"bash"})}
    assert len(policy.pressure) == len(default.pressure)
    assert policy.last_resort == default.last_resort


def test_settings_reach_passes_inside_conditions_and_in_step(home):
    policy = load(home, policy="mini-claude", project="[passes.budget_results]\nloose = [0.4, 9000]").policy()
    budget = policy.always[0].passes[0]

    assert budget.keywords == {"loose": (0.4, 9000)}
    assert policy.always[0].passes[1:] == load(home, policy="mini-claude").policy().always[0].passes[1:]

    policy = load(home, policy="opencode", project="[passes.prune_results]\nmin_saved = 7").policy()
    assert policy.always[0].propose.keywords == {"min_saved": 7}


def test_a_compaction_pass_is_configured_like_any_pass(home):
    """R284: 2,000 to see it happen in a short session."""
    policy = load(home, policy="learn-v5", project="[passes.summarize]\nmin_savings = 2_000").policy()

    assert policy.folds[0].keywords["min_savings"] == 2_000
    assert policy.folds[0].keywords["keep_messages"] == 5


def test_per_tool_limits_are_a_table(home):
    policy = load(home, policy="claude-code", project="[passes.offload_results.per_tool]\nBash = 30_000").policy()

    assert policy.arrival[0].keywords["per_tool"] == {"Bash": 30_000}
    assert policy.arrival[0].keywords["limit"] == 400_000


def test_a_pass_that_this_policy_does_not_have_is_no_error(home):
    policy = load(home, policy="sage", user="[passes.clear_to_target]\ntarget = 1").policy()

    assert policy == preset("sage")


def test_levels_are_shares_of_the_window_or_tokens_and_low_stays_below_auto(home):
    at = load(home, project="[levels]\nauto = 0.3\nhard = '90k'").policy().levels(100_000, 1_000)

    assert (at.auto, at.hard, at.low) == (30_000, 90_000, 30_000)


def test_a_variable_of_claude_code_beats_the_levels_of_a_file(home):
    """Environment before project."""
    environ = {"CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "80"}
    settings = load(home, policy="claude-code", project="[levels]\nauto = 0.4", environ=environ)

    assert settings.policy().levels(200_000, 1_000).auto == 160_000


def test_under_the_default_policy_the_reference_agents_variables_do_nothing(home):
    environ = {"DISABLE_COMPACT": "1", "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "x"}

    assert load(home, environ=environ).policy() == load(home).policy()


@pytest.mark.parametrize(("value", "warned"), [("x", 1), ("nan", 1), ("80", 0), ("500", 0)])
def test_a_malformed_variable_is_ignored_with_one_warning(home, value, warned, caplog):
    with caplog.at_level(logging.WARNING, logger="ebbtide"):
        settings = load(home, policy="claude-code", environ={"CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": value})
        settings.policy()
        settings.policy()

    assert len(caplog.records) == warned


def test_a_malformed_variable_of_our_own_is_refused(home):
    with pytest.raises(BadConfig, match=r"environment \(EBB_\*\): window: 'lots'"):
        load(home, environ={"EBB_WINDOW": "lots"})


@pytest.mark.parametrize(
    ("platform", "environ", "data", "config"),
    [
        ("linux", {}, ".local/share/ebbtide", ".config/ebbtide/config.toml"),
        (
            "linux",
            {"XDG_DATA_HOME": "rel", "XDG_CONFIG_HOME": "rel"},
            ".local/share/ebbtide",
            ".config/ebbtide/config.toml",
        ),
        ("darwin", {}, "Library/Application Support/ebbtide", "Library/Application Support/ebbtide/config.toml"),
        ("win32", {}, "AppData/Local/ebbtide", "AppData/Roaming/ebbtide/config.toml"),
    ],
)
def test_each_platform_has_its_places(home, platform, environ, data, config):
    (home / config).parent.mkdir(parents=True, exist_ok=True)
    (home / config).write_text("window = 77")

    settings = load(home, platform=platform, environ=environ)

    assert settings.store == str(home / data)
    assert settings.window == 77


def test_absolute_places_of_the_environment_are_used(home):
    environ = {"XDG_DATA_HOME": str(home / "d"), "XDG_CONFIG_HOME": str(home / "c")}
    (home / "c" / "ebbtide").mkdir(parents=True)
    (home / "c" / "ebbtide" / "config.toml").write_text("window = 78")

    settings = load(home, environ=environ)

    assert (settings.store, settings.window) == (str(home / "d" / "ebbtide"), 78)


def test_the_store_is_the_argument_else_ebb_home_else_the_users_file(home):
    user, environ = "store = '/u'", {"EBB_HOME": "/e"}

    assert load(home, user=user, environ=environ, store="/a").store == "/a"
    assert load(home, user=user, environ=environ).store == "/e"
    assert load(home, user=user).store == "/u"


def test_a_file_named_by_the_environment_must_exist(home):
    (home / "mine.toml").write_text("window = 79")

    assert load(home, environ={"EBB_CONFIG": str(home / "mine.toml")}).window == 79
    for nothing in ("no.toml", "x" * 300):
        with pytest.raises(BadConfig, match="EBB_CONFIG"):
            load(home, environ={"EBB_CONFIG": str(home / nothing)})


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (200_000, 200_000),
        ("200k", 200_000),
        ("1M", 1_000_000),
        ("1.5m", 1_500_000),
        ("200_000", 200_000),
        (" 8 K ", 8_000),
        (4096.0, 4_096),
    ],
)
def test_sizes_are_read_as_people_write_them(value, wanted):
    assert parse_tokens(value) == wanted


@pytest.mark.parametrize(
    "value", ["", "k", "-1", "1.5", "1e5", "200kb", "nan", 0, -4, True, None, [], "9" * 500, float("inf")]
)
def test_an_invalid_size_is_refused(value):
    with pytest.raises(BadConfig, match="200k"):
        parse_tokens(value)


def test_windows_by_model_exact_name_first_then_pattern_then_the_built_in_table(home):
    settings = load(home, project="[windows]\n'qwen*' = '32k'\n'qwen3-coder' = '256k'")

    assert [settings.window_for(model) for model in ("qwen3-coder", "qwen2", "gpt-4o")] == [256_000, 32_000, 128_000]
    assert load(home, project="window = 9000\n[windows]\n'q*' = 1").window_for("q") == 9_000


def test_sage_is_set_for_the_model(home):
    assert load(home, policy="sage", model="gpt-4o").policy().estimator.per_message == 8


@pytest.mark.parametrize(
    ("client", "asked", "given"), [(3600.0, None, 300.0), (3600.0, "1h", 3600.0), (300.0, "1h", 300.0)]
)
def test_added_breakpoints_use_the_configured_ttl_if_the_clients_earlier_breakpoint_allows_it(
    home, client, asked, given
):
    """TTLs may not rise along a request (A48), and the client's own mark is not ours to lengthen."""
    places = [
        BreakpointSlot(
            section="messages",
            index=n,
            tokens_before=5_000 * (n + 1),
            has_breakpoint=n == 0,
            ttl=300.0 if n else client,
        )
        for n in range(4)
    ]

    marks = load(home, ttl=asked).policy().marks(places, model="gpt")

    assert {place.ttl for place in marks} == {given}


def test_overflow_is_applied(home):
    policy = load(home, environ={"EBB_OVERFLOW": "error"}).policy()

    assert (policy.overflow, policy.pressure) == ("error", ())


def test_settings_make_a_context(home):
    settings = load(home, store=str(home / "s"), policy="claude-code", model="claude-opus-4-5", window="50k")
    ctx = settings.context(session="one")
    ctx.prepare({"model": "claude-opus-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]})

    assert ctx.window == 50_000
    assert list((home / "s").glob("projects/*/one.jsonl"))


def test_a_context_of_the_process_reads_its_environment(home, monkeypatch):
    monkeypatch.chdir(home / "code" / "tide" / "src")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("EBB_HOME", str(home / "here"))
    monkeypatch.setenv("EBB_WINDOW", "12k")

    assert context(session="x").window == 12_000
    ctx = context(session="y", window="13k")
    ctx.prepare({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]})
    assert ctx.window == 13_000
    assert list((home / "here").glob("projects/*/y.jsonl"))


DOCS = Path(__file__).resolve().parents[1] / "docs" / "reference"


def test_the_example_file_of_the_reference_is_accepted(home):
    (example,) = re.findall(r"```toml\n(.*?)```", (DOCS / "configuration.md").read_text(), re.DOTALL)

    assert load(home, project=example).policy().levels(200_000, 0).auto == 150_000


def test_the_proxys_table_is_the_users_alone_and_checked(tmp_path):
    """Keys are sent to its upstreams: a repository must not name one."""
    user = tmp_path / "config.toml"
    user.write_text('[proxy]\nport = 0\n[proxy.upstreams]\nanthropic = "http://127.0.0.1:1"\n')
    environ = {"EBB_CONFIG": str(user), "EBB_PROXY_TOKEN": "a-long-token-of-mine"}
    settings = load_settings(environ=environ, cwd=tmp_path, home=tmp_path)

    assert settings.proxy == {
        "upstreams": {"anthropic": "http://127.0.0.1:1"}, "port": 0, "token": "a-long-token-of-mine",
    }  # fmt: skip
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "ebbtide.toml").write_text('[proxy.upstreams]\nanthropic = "http://evil.example"\n')
    with pytest.raises(BadConfig, match="a project may not set this"):
        load_settings(environ={}, cwd=tmp_path / "repo", home=tmp_path)


@pytest.mark.parametrize(
    ("told", "wrong"),
    [("prot = 1", "proxy.prot: unknown"), ("port = 70000", "proxy.port"), ("recall = 3", "not one of path, tool, off")],
)
def test_an_invalid_setting_in_the_proxys_table_is_refused(tmp_path, told, wrong):
    user = tmp_path / "config.toml"
    user.write_text(f"[proxy]\n{told}\n")

    with pytest.raises(BadConfig, match=wrong):
        load_settings(environ={"EBB_CONFIG": str(user)}, cwd=tmp_path, home=tmp_path)


def test_a_number_with_more_digits_than_can_be_read_is_refused_by_the_files_name(home):
    with pytest.raises(BadConfig, match=r"ebbtide\.toml: not TOML"):
        load(home, project=f"window = {'9' * 5000}")
