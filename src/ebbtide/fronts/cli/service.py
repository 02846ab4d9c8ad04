"""The proxy as a service of the user: a systemd unit, or a launchd agent on macOS, with a fixed port and a token."""

from __future__ import annotations

import secrets
import sys
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
