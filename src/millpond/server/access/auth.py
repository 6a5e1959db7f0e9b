"""Who asks: tokens with roles. The server knows only SHA-256 hashes (tokens are random: a fast hash is enough)."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, cast, get_args

from millpond.server.failures import Failure, forbidden
from millpond.support.errors import PondError

Role = Literal["read", "write", "admin"]
_RANK: Final = {role: rank for rank, role in enumerate(get_args(Role))}
_HASHED: Final = re.compile(r"sha256:([0-9a-f]{64})")
_OWNER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
#: A plain token in a file has to be too long to guess.
_SHORTEST: Final = 20


@dataclass(frozen=True)
class Caller:
    """Who asks: the owner's name, '' for the local user of a server without tokens, and what they may do."""

    owner: str
    role: Role

    def may(self, role: Role) -> bool:
        """Whether this caller has that role or a greater one.

        >>> Caller("alice", "write").may("read"), Caller("alice", "write").may("admin")
        (True, False)
        """
        return _RANK[self.role] >= _RANK[role]

    def require(self, role: Role, what: str) -> None:
        """Raises: Failure 403 when the caller has not that role."""
        if not self.may(role):
            raise forbidden(f"{what} needs a token with role '{role}'; this one has '{self.role}'", role=role)


#: Everybody, on a server without tokens, which listens on loopback only.
LOCAL: Final = Caller("", "admin")


class Tokens:
    """The tokens of a server: `role owner sha256:<hash>` a line; a plain token in place of its hash works too.

    Raises: PondError with the line's number when a line is none of that. Tokens never appear in its text.

    >>> tokens = Tokens(["admin alice " + hash_of("a" * 20)])
    >>> tokens.find("Bearer " + "a" * 20)
    Caller(owner='alice', role='admin')
    """

    def __init__(self, lines: Iterable[str], source: str = "the token file") -> None:
        self._known: list[tuple[bytes, Caller]] = []
        for number, line in enumerate(lines, 1):
            words = line.split("#", 1)[0].split()
            if not words:
                continue
            where = f"{source}, line {number}"
            if len(words) != 3:
                raise PondError(f"{where}: expected 'role owner token', as `millpond token` writes it")
            role, owner, token = words
            if role not in _RANK:
                raise PondError(f"{where}: the role is read, write or admin")
            if not _OWNER.fullmatch(owner):
                raise PondError(f"{where}: an owner is 1 to 64 letters, digits and . _ @ -")
            hashed = _HASHED.fullmatch(token)
            if hashed is None and (token.startswith("sha256:") or len(token) < _SHORTEST):
                raise PondError(
                    f"{where}: a token has at least {_SHORTEST} characters, a hash is sha256: and 64 digits"
                )
            digest = bytes.fromhex(hashed[1]) if hashed else _digest(token)
            self._known.append((digest, Caller(owner, cast(Role, role))))
        if not self._known:
            raise PondError(f"{source} holds no token; `millpond token` makes one")

    @staticmethod
    def read(path: str | os.PathLike[str]) -> Tokens:
        """The tokens of a file. Raises: PondError when it cannot be read, is open to others, or is wrong."""
        try:
            text = Path(path).read_text(encoding="utf-8")
            mode = os.stat(path).st_mode
        except (OSError, UnicodeDecodeError) as error:
            raise PondError(f"the token file {path} cannot be read: {error}") from None
        if mode & 0o007:
            raise PondError(f"the token file {path} can be read by everybody; chmod 600 {path}")
        return Tokens(text.splitlines(), str(path))

    def find(self, header: str | None) -> Caller:
        """The caller of an Authorization header.

        Raises: Failure 401, the same whatever is wrong with it. Takes the same time for every token.
        """
        scheme, _, token = (header or "").partition(" ")
        digest = _digest(token.strip())
        found: Caller | None = None
        for known, caller in self._known:
            if hmac.compare_digest(known, digest):
                found = caller
        if found is None or scheme.lower() != "bearer":
            text = "this server needs a token: Authorization: Bearer <token>"
            raise Failure(401, "unauthorized", text, {"WWW-Authenticate": 'Bearer realm="millpond"'})
        return found


def hash_of(token: str) -> str:
    """What a token file holds in place of the token.

    >>> hash_of("a")[:14]
    'sha256:ca97811'
    """
    return f"sha256:{_digest(token).hex()}"


def make_token(role: str, owner: str) -> tuple[str, str]:
    """A new token and its line for the token file.

    Raises: PondError when role or owner are none.
    """
    token = f"mp_{secrets.token_urlsafe(32)}"
    line = f"{role} {owner} {hash_of(token)}"
    if len(line.split()) != 3:
        raise PondError("an owner is 1 to 64 letters, digits and . _ @ -")
    Tokens([line], "the new token")
    return token, line


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
