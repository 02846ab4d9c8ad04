"""`ebbtide.wrap` and `ebbtide.session`: keep the official SDKs' clients inside the window. Neither SDK is imported."""

from ebbtide.fronts.sdk.client_wrapper import wrap
from ebbtide.fronts.sdk.sessions import session

__all__ = ["session", "wrap"]
