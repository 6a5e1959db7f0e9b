"""The HTTP server: a pond for many clients. `create_app` gives an ASGI application, `serve` runs one until a signal.

Who may do what is in `auth` and `permissions`, how much in `limits`, what goes over the wire in `encoding`, `decoding`
and `support.wire`; `routes` lists every operation and `openapi` documents exactly that list. Anything here may be
changed without looking elsewhere except paths, media types and headers, which `client` and users rely on.
"""

from millpond.server.app import create_app
from millpond.server.auth import Tokens, make_token
from millpond.server.limits import Limits

__all__ = ["Limits", "Tokens", "create_app", "make_token"]
