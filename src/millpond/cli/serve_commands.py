"""The commands around the server: serve, token."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from millpond.cli.session import logged, opened, parse_pairs, parse_settings, reporting, say
from millpond.support.errors import PondError
from millpond.support.event_log import event_log, is_json
from millpond.types.options import OptionFault

LOG = event_log(__name__)


def serve(
    pond: Annotated[Path, typer.Option("--pond", help="The pond's folder; made when missing.", file_okay=False)] = Path(
        "pond"
    ),
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="The port; 0: any free one.", min=0, max=65535)] = 7474,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", help="Tokens, one a line; needed beyond loopback.", envvar="MILLPOND_TOKEN_FILE"),
    ] = None,
    limit: Annotated[
        list[str], typer.Option("--limit", metavar="NAME=VALUE", help="A limit; may be given several times.")
    ] = [],  # noqa: B006 - Typer copies it, and reads the type from it
    settings: Annotated[
        list[str],
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of the pond; may be given several times."),
    ] = [],  # noqa: B006 - Typer copies it, and reads the type from it
    executor: Annotated[str, typer.Option("--executor", envvar="MILLPOND_EXECUTOR", hidden=True)] = "spark",
) -> None:
    """Serve a pond over HTTP until Ctrl-C or SIGTERM; its address goes to standard error."""
    from millpond.server import Limits, Tokens
    from millpond.server.serve import is_loopback
    from millpond.server.serve import serve as run

    with reporting():
        try:
            limits = Limits.of(parse_pairs(limit))
        except OptionFault as fault:
            raise typer.BadParameter(str(fault)) from None
        tokens = Tokens.read(token_file) if token_file is not None else None
        if tokens is None and not is_loopback(host):
            # Before the pond is opened, which takes a while with Spark.
            raise PondError(
                f"on {host} others can reach this server: it needs tokens. `millpond token --owner NAME --role admin "
                "--file tokens` makes one; then add --token-file tokens"
            )
        with opened(pond, executor, parse_settings(settings)) as handle:
            run(handle, host, port, tokens, limits, announce=lambda url: _announce(pond, url))
        if not is_json():
            say("stopped")


def _announce(pond: Path, url: str) -> None:
    if is_json():
        LOG.info("serving", pond=str(pond), url=url)
    else:
        say(f"millpond serves {pond} on {url}")


def token(
    owner: Annotated[str, typer.Option("--owner", help="Who will use it; limits are per owner.")],
    role: Annotated[str, typer.Option("--role", help="read, write or admin.")] = "read",
    file: Annotated[
        Path | None, typer.Option("--file", help="The token file to add it to; made when missing.", dir_okay=False)
    ] = None,
) -> None:
    """Make a token: it goes to standard output, once; the token file only ever holds its hash."""
    from millpond.server import make_token

    with reporting():
        secret, line = make_token(role, owner)
        if file is None:
            say(f"for the token file: {line}")
        else:
            try:
                descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
                with os.fdopen(descriptor, "a", encoding="utf-8") as out:
                    out.write(line + "\n")
            except OSError as error:
                raise PondError(f"{file} cannot be written: {error.strerror}") from None
            say(f"added to {file}")
        typer.echo(secret)


def register(app: Any) -> None:
    """Add these commands to the command line."""
    app.command()(logged("info")(serve))
    app.command()(token)
