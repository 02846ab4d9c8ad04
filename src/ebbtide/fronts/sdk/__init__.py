"""`ebbtide.wrap` and `ebbtide.session`: the official SDKs' clients, kept inside the window. Neither SDK is imported."""

from ebbtide.fronts.sdk.lanes import session
from ebbtide.fronts.sdk.wrapping import wrap

__all__ = ["session", "wrap"]
