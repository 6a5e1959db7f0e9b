"""The commands: run, sql, status, doctor, demo; serve and token come from `serve`, top from `top`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from millpond.cli import archive_commands, serve_commands, top
from millpond.cli.output import Format, Writer
from millpond.cli.session import (
    FAILED,
    Script,
    announce_start,
    logged,
    opened,
    parse_parameters,
    parse_settings,
    reached,
    reporting,
    say,
)
from millpond.support.errors import PondError

if TYPE_CHECKING:
    from millpond.api.pond import Pond
    from millpond.client.remote_pond import RemotePond

app = typer.Typer(
    name="millpond",
    help="Live streams and their whole past behind one SQL.",
    epilog="Exit status: 0 ok, 1 failed, 2 a wrong statement or a wrong call, 130 stopped by Ctrl-C.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

PondOption = Annotated[
    Path | None,
    typer.Option("--pond", help="The pond's folder; made when missing. Without it: a temporary one.", file_okay=False),
]
FormatOption = Annotated[Format, typer.Option("--format", help="How rows are written to standard output.")]
ParameterOption = Annotated[
    list[str],
    typer.Option(
        "--param", metavar="NAME=VALUE", help="A value for $NAME in the statements: JSON, else a text; several times."
    ),
]
ExecutorOption = Annotated[str, typer.Option("--executor", envvar="MILLPOND_EXECUTOR", hidden=True)]
SettingOption = Annotated[
    list[str], typer.Option("--set", metavar="NAME=VALUE", help="A setting of the pond; may be given several times.")
]


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)] = False,
) -> None:
    if version:
        from importlib.metadata import PackageNotFoundError
        from importlib.metadata import version as installed

        try:
            typer.echo(f"millpond {installed('millpond')}")
        except PackageNotFoundError:
            typer.echo("millpond, not installed")
        raise typer.Exit


@app.command()
@logged()
def run(
    file: Annotated[str, typer.Argument(metavar="FILE.sql", help="The script; - reads standard input.")],
    pond: PondOption = None,
    form: FormatOption = Format.table,
    parameters: ParameterOption = [],  # noqa: B006 - Typer copies it, and reads the type from it
    settings: SettingOption = [],  # noqa: B006 - Typer copies it, and reads the type from it
    executor: ExecutorOption = "spark",
) -> None:
    """Run a script: rows of every SELECT and INVOKE to standard output, messages to standard error."""
    with reporting():
        _execute(Script(_read(file), parse_parameters(parameters)), pond, form, settings, executor)


@app.command()
@logged()
def sql(
    statements: Annotated[
        str | None,
        typer.Argument(
            metavar="[STATEMENTS]", help="One or more statements; without them a prompt, or standard input."
        ),
    ] = None,
    pond: PondOption = None,
    url: Annotated[
        str | None, typer.Option("--url", envvar="MILLPOND_URL", help="A server's address, instead of a folder.")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option("--token", envvar="MILLPOND_TOKEN", help="The server's token; better in the environment."),
    ] = None,
    form: FormatOption = Format.table,
    parameters: ParameterOption = [],  # noqa: B006 - Typer copies it, and reads the type from it
    settings: SettingOption = [],  # noqa: B006 - Typer copies it, and reads the type from it
    executor: ExecutorOption = "spark",
) -> None:
    """Run statements, those of the call or of standard input; on a terminal without any: an interactive prompt."""
    with reporting():
        if url is not None and settings:
            raise typer.BadParameter("--set is for a pond that is opened here; the server has its own settings")
        # A folder that was asked for goes before an address that the environment has.
        there = None if pond is not None else url
        interactive = statements is None and sys.stdin.isatty() and sys.stdout.isatty()
        text = "" if interactive else _read("-") if statements is None else statements
        script = Script(text, parse_parameters(parameters))
        if there is None and not interactive:
            _execute(script, pond, form, settings, executor)
            return
        with reached(pond, there, token, executor, parse_settings(settings)) as handle:
            if interactive:
                from millpond.cli.prompt import interact

                where = there or (f"pond {pond}" if pond is not None else "a temporary pond (--pond DIR keeps one)")
                interact(handle, f"millpond on {where}; \\? helps, \\q leaves", form, _news(handle))
            else:
                _execute_on(handle, script, form)


@app.command()
def status(
    pond: Annotated[Path, typer.Option("--pond", help="The pond's folder.", exists=True, file_okay=False)],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
    executor: Annotated[str, typer.Option("--executor", hidden=True)] = "inline",
) -> None:
    """What a pond holds: its streams with their watermarks, its queries with their windows."""
    from millpond.cli.status import draw
    from millpond.support.texts.json_texts import plain

    with reporting():
        if not (pond / "pond.json").is_file():
            raise PondError(f"there is no pond in {pond}")
        # Inline, because looking runs no epoch and needs no Spark.
        with opened(pond, executor, {}) as handle:
            state = handle.status()
        if as_json:
            typer.echo(json.dumps(plain(state)))
        else:
            draw(state, _console())


@app.command()
def doctor(
    pond: Annotated[Path | None, typer.Option("--pond", help="Where a pond lies or is to lie.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line instead of a table.")] = False,
) -> None:
    """What this machine has of what Millpond needs, and how to mend what is missing; exit status 1 if it cannot run."""
    from millpond.support.doctor import diagnose, render

    with reporting():
        checks = diagnose(pond)
        if as_json:
            for check in checks:
                typer.echo(json.dumps(vars(check)))
        else:
            render(checks, _console())
        if any(check.status == "bad" for check in checks):
            raise typer.Exit(FAILED)


@app.command()
@logged()
def demo(
    pond: Annotated[
        Path, typer.Option("--pond", help="The demo's folder; an earlier demo there is removed.", file_okay=False)
    ] = Path("pond-demo"),
    months: Annotated[int, typer.Option("--months", min=1, max=2, help="How many months of landings to replay.")] = 2,
    speed: Annotated[
        float, typer.Option("--speed", min=0, help="Hours of landings a second; 0 is as fast as it goes.")
    ] = 0,
    settings: SettingOption = [],  # noqa: B006 - Typer copies it, and reads the type from it
    executor: ExecutorOption = "spark",
) -> None:
    """Replay real flights, in the order in which they landed, through standing window queries, and watch."""
    from millpond.cli.demo import run_demo

    with reporting():
        run_demo(pond, months, speed, _console(), executor, parse_settings(settings))


def _console() -> Console:
    # What is not a terminal has no width: 80 columns would be a guess that cuts.
    return Console(highlight=False, width=None if sys.stdout.isatty() else 120)


def _news(handle: Pond | RemotePond) -> Callable[[], list[str]] | None:
    """What the prompt tells of a pond that is open here; of a server's, the server's log does."""
    import millpond

    if not isinstance(handle, millpond.Pond):
        return None
    tell = handle.teller()
    return lambda: tell(False).problems


def _read(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise typer.BadParameter(f"{file} is not UTF-8 text") from None
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}") from None


def _execute(script: Script, pond: Path | None, form: Format, settings: list[str], executor: str) -> None:
    if pond is not None and not (pond / "pond.json").is_file() and not _makes(script):
        raise PondError(f"there is no pond in {pond}; CREATE STREAM … would make one: is this the right folder?")
    with opened(pond, executor, parse_settings(settings)) as handle:
        handle.check(*script)  # before anything is done; Spark starts meanwhile
        announce_start(handle)
        _execute_on(handle, script, form)


def _makes(script: Script) -> bool:
    """Whether a script may have a pond made for it: it creates or sets something, or is wrong in another way."""
    from millpond.language import parse
    from millpond.support.errors import StatementError

    try:
        return any(type(each).__name__.startswith(("Create", "Alter")) for each in parse(script.text))
    except StatementError:
        return True


def _execute_on(pond: Any, script: Script, form: Format) -> None:
    writer = Writer(form, sys.stdout, sys.stderr)
    for result in pond.run(*script):
        if result.table is not None:
            writer.write(result.table)
        if result.message:
            say(result.message)


serve_commands.register(app)
top.register(app)
app.add_typer(archive_commands.commands)


def main() -> Any:
    """The command line; ends the process with an exit status."""
    return app()
