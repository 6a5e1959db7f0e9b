"""The HTTP server: a pond for many clients. `create_app` gives an ASGI application, `serve` runs one until a signal.

Who may do what, and how much, is in `access`, what goes over the wire in `bodies` and `support.wire`, what each
operation does in `handlers`; `routes` lists every operation and `openapi` documents exactly that list. Anything here
may be changed without looking elsewhere except paths, media types and headers, which `client` and users rely on.
"""

from millpond.server.access.auth import Tokens, make_token
from millpond.server.access.limits import Limits
from millpond.server.asgi import create_app

__all__ = ["Limits", "Tokens", "create_app", "make_token"]
