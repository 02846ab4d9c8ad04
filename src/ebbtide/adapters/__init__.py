"""One module for each agent framework. They use the public names of `ebbtide` only, so yours can look the same."""

from __future__ import annotations

import re
from importlib import metadata


def require(package: str, oldest: str) -> None:
    """Raise ImportError that says what to install, unless this version of a package or a later one is there."""
    try:
        version = metadata.version(package)
    except metadata.PackageNotFoundError:
        version = ""
    if not version:
        raise ImportError(f"this adapter needs {package}: pip install '{package}>={oldest}'", name=package)
    if _numbers(version) < _numbers(oldest):
        raise ImportError(
            f"this adapter needs {package} {oldest} or later, and {version} is installed: "
            f"pip install -U '{package}>={oldest}'",
            name=package,
        )


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)[:3]]


def describe_failure(error: BaseException) -> str:
    """Return what a parent session records of a sub-agent that ended with an error."""
    return f"The sub-agent ended with an error and gave no answer: {type(error).__name__}: {str(error)[:500]}"
