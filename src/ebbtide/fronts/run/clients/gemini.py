"""Gemini CLI: two variables, one for the Gemini API and one for Vertex AI. It reads `.env` files as well."""

from __future__ import annotations

from ebbtide.fronts.run.client_files import folders_up, read_env, read_json, text_at
from ebbtide.fronts.run.launch import Launch
from ebbtide.fronts.run.plan import LaunchPlan, Routes, Surroundings, is_true, option_value

_VARIABLES = {"gemini": "GOOGLE_GEMINI_BASE_URL", "vertex": "GOOGLE_VERTEX_BASE_URL"}
_LOGIN = "with a Google login it asks Google's own service, which Ebbtide does not read"
_LOGINS = ("oauth-personal", "login-with-google", "cloud-shell", "compute-default-credentials")


def plan(around: Surroundings, launch: Launch) -> LaunchPlan:
    env = read_environment(around, ".gemini")
    settings = read_json(around.home / ".gemini" / "settings.json")
    chosen = text_at(settings, "security", "auth", "selectedType") or text_at(settings, "selectedAuthType")
    command = (*launch.head, *launch.arguments)
    if is_true(env.get("GOOGLE_GENAI_USE_GCA", "")) or chosen in _LOGINS:
        return LaunchPlan(program=launch.label, command=command, direct=_LOGIN)
    routes = Routes(around)
    uses_vertex = chosen == "vertex-ai" or is_true(env.get("GOOGLE_GENAI_USE_VERTEXAI", ""))
    order = ("vertex", "gemini") if uses_vertex else ("gemini", "vertex")
    variables = {name: routes.add(name, provider, _address(env, provider)) for provider, name in
                 ((provider, _VARIABLES[provider]) for provider in order)}  # fmt: skip
    model = option_value(launch.arguments, "-m", "--model") or env.get("GEMINI_MODEL", "")
    return LaunchPlan(
        program=launch.label,
        command=command,
        variables=variables,
        upstreams=routes.upstreams,
        sets=routes.sets,
        main=routes.main,
        model=model or text_at(settings, "model", "name") or "gemini",
        # Its file tools read the workspace alone.
        recall="tool",
    )


def _address(env: dict[str, str], provider: str) -> str:
    if provider == "vertex" and not env.get(_VARIABLES["vertex"]):
        return vertex_address(env.get("GOOGLE_CLOUD_LOCATION", ""))
    return env.get(_VARIABLES[provider], "")


def vertex_address(location: str) -> str:
    """Return the address of a location; empty for `global`, the provider's own."""
    return f"https://{location}-aiplatform.googleapis.com" if location not in ("", "global") else ""


def read_environment(around: Surroundings, folder: str) -> dict[str, str]:
    """Return the environment with the first `.env` file that the client looks for, which overrides nothing.

    It looks in its own folder and then beside it, from here upwards, and last in the user's.
    """
    for parent in (*folders_up(around.cwd, around.home), around.home):
        for path in (parent / folder / ".env", parent / ".env"):
            if path.is_file():
                return {**read_env(path), **around.environ}
    return dict(around.environ)
