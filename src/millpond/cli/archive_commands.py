"""`millpond archive check | backup | restore`: what lies on disk, beside a pond that runs or rests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from millpond.cli.session import FAILED, reporting, say

commands = typer.Typer(name="archive", help="Check, back up and restore what a pond has on disk.", no_args_is_help=True)

FolderOption = Annotated[Path, typer.Option("--pond", help="The pond's folder.", exists=True, file_okay=False)]


@commands.command()
def check(
    pond: FolderOption,
    streams: Annotated[list[str] | None, typer.Argument(metavar="[STREAM|TABLE]...", help="Without any: all.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Read every file of archives and copies, and the versions of tables that epochs name: readable, counted, in order,
    statistics true. Exit status 1 if not."""
    from millpond.archive.upkeep.checking import check_archives

    faults = 0
    with reporting():
        for found in check_archives(str(pond), streams or ()):
            faults += len(found.faults)
            if as_json:
                typer.echo(json.dumps(vars(found)))
                continue
            what = f"{'table ' if found.kind == 'table' else ''}{found.stream} {found.copy}".strip()
            state = "ok" if not found.faults else f"{len(found.faults)} faults"
            typer.echo(f"{what}: {found.files:,} files, {found.rows:,} rows, {found.bytes:,} bytes: {state}")
            for fault in found.faults:
                typer.echo(f"  {fault}")
        if faults:
            raise typer.Exit(FAILED)


@commands.command()
def backup(
    pond: FolderOption,
    target: Annotated[Path, typer.Argument(help="The backup's folder; one that is there is renewed.")],
) -> None:
    """Make a backup of the whole pond as of its last published epoch, or renew one; the pond may be running."""
    from millpond.archive.upkeep.backup import backup as make

    with reporting():
        made = make(str(pond), str(target))
        say(
            f"backup of {pond} as of epoch {made.epoch} in {target}: {made.files:,} files of tables with"
            f" {made.bytes:,} bytes, {made.new:,} of them new"
        )


@commands.command()
def restore(
    source: Annotated[Path, typer.Argument(metavar="BACKUP", help="The backup's folder.", exists=True)],
    pond: Annotated[Path, typer.Option("--pond", help="Where the pond is to lie; a new folder.", file_okay=False)],
) -> None:
    """Make a pond from a backup."""
    from millpond.archive.upkeep.backup import restore as make

    with reporting():
        epoch = make(str(source), str(pond))
        say(f"pond {pond} as of epoch {epoch}; open it, and it goes on from there")
