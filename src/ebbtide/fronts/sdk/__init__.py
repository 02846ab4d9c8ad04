"""`ebbtide.wrap` and `ebbtide.session`: the official SDKs' clients, kept inside the window. Neither SDK is imported."""

from ebbtide.fronts.sdk.client_wrapper import wrap
from ebbtide.fronts.sdk.lanes import session

__all__ = ["session", "wrap"]
