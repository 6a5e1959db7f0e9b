"""What each operation does, a file per subject; `millpond.server.routes` lists them.

A handler takes a checked `Call` and gives a response; whatever blocks goes through `call.run`.
"""
