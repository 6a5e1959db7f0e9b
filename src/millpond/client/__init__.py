"""The HTTP client: a pond on another machine with the interface of an open one."""

from millpond.client.remote_pond import RemotePond, connect

__all__ = ["RemotePond", "connect"]
