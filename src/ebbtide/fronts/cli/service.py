"""The proxy as a service of the user: a systemd unit, or a launchd agent on macOS, with a fixed port and a token."""

from __future__ import annotations

import re
import secrets
import sys
import urllib.request
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from xml.sax.saxutils import escape

from ebbtide.config import StartFiles
from ebbtide.fronts.cli.start_files import Change, read

LABEL = "ebbtide-proxy"
_UNIT = """\
# 'ebb uninstall service' removes this file.
[Unit]
Description=Ebbtide proxy on 127.0.0.1:{port}

[Service]
EnvironmentFile={secret}
ExecStart="{python}" -P -m ebbtide proxy --port {port}
Restart=on-failure

[Install]
WantedBy=default.target
"""
_PLIST = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- 'ebb uninstall service' removes this file. -->
<plist version="1.0"><dict>
  <key>Label</key><string>{label}</string>
  <key>ProgramArguments</key><array>
    <string>/bin/sh</string><string>-c</string>
    <string>set -a; . {secret}; exec {python} -P -m ebbtide proxy --port {port}</string>
  </array>
  <key>RunAtLoad</key><true/><key>KeepAlive</key><true/>
</dict></plist>
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The proxy as it was installed."""

    path: Path
    address: str
    token: str = field(repr=False)

    def is_running(self) -> bool:
        """Whether it answers, and takes its token."""
        # Not through a proxy that the environment may name: that one cannot reach this machine.
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with (
            suppress(OSError, ValueError),
            direct.open(f"{self.address}/ebb/t/{self.token}/healthz", timeout=2) as answer,
        ):
            return bool(answer.status == HTTPStatus.OK)
        return False


def plan_service(files: StartFiles, port: int, platform: str = sys.platform) -> tuple[list[Change], str]:
    """Plan the unit and the file with its token, and return the token. One that is there already stays."""
    secret = _secret_file(files)
    before = read(secret)
    token = (before or "").partition("EBB_PROXY_TOKEN=")[2].strip() or secrets.token_urlsafe(24)
    template, path = (
        (_PLIST, _unit_file(files, platform)) if platform == "darwin" else (_UNIT, _unit_file(files, platform))
    )
    names = {"port": port, "secret": str(secret), "python": sys.executable, "label": LABEL}
    values = {key: escape(str(value)) if platform == "darwin" else value for key, value in names.items()}
    unit = Change(path=path, before=read(path), after=template.format(**values))
    return [unit, Change(path=secret, before=before, after=f"EBB_PROXY_TOKEN={token}\n")], token


def plan_removal(files: StartFiles, platform: str = sys.platform) -> list[Change]:
    paths = (_unit_file(files, platform), _secret_file(files))
    return [Change(path=path, before=text, after=None) for path in paths if (text := read(path)) is not None]


def find_service(files: StartFiles, platform: str = sys.platform) -> Service | None:
    """Return the service that is installed; None if there is none."""
    unit = read(_unit_file(files, platform))
    port = re.search(r"--port (\d+)", unit or "")
    if port is None:
        return None
    token = (read(_secret_file(files)) or "").partition("EBB_PROXY_TOKEN=")[2].strip()
    return Service(path=_unit_file(files, platform), address=f"http://127.0.0.1:{port[1]}", token=token)


def commands(platform: str = sys.platform, *, is_removal: bool = False) -> str:
    """What starts it, or stops it before it is removed."""
    if platform == "darwin":
        verb = "bootout" if is_removal else "bootstrap"
        return f"launchctl {verb} gui/$(id -u) ~/Library/LaunchAgents/{LABEL}.plist"
    verb = "disable" if is_removal else "enable"
    return f"systemctl --user {verb} --now {LABEL}"


def _unit_file(files: StartFiles, platform: str) -> Path:
    return files.services / f"{LABEL}.{'plist' if platform == 'darwin' else 'service'}"


def _secret_file(files: StartFiles) -> Path:
    return files.config / "proxy.env"
