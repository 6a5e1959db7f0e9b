"""`(FORMAT csv, DELIMITER ';', HEADER false)`: how COPY writes a file, as DuckDB's users say it."""

from __future__ import annotations

from sqlglot.tokenizer_core import Token, TokenType

from millpond.language.statement_parts import StatementParts
from millpond.language.syntax.source_text import nearest
from millpond.support.file_forms import COPY_OPTIONS, FORMATS, OTHER_NAMES, CopyOption, FileForm, Value, format_named
from millpond.support.file_names import FILE_ENDINGS, packing

_TRUE, _FALSE = ("TRUE", "1", "ON"), ("FALSE", "0", "OFF")


def read_form(parts: StatementParts, path: str, at: Token) -> FileForm:
    """How a file is written: what stands in parentheses behind its name, where it does, and what the name says.

    Arguments:
        at: where the name stands.
    Raises: StatementError for options that there are not, or that do not go with the file.
    """
    return _FormReader(parts, path, at).form()


class _FormReader:
    def __init__(self, parts: StatementParts, path: str, at: Token) -> None:
        self.parts, self.path, self.at = parts, path, at
        self.format = format_named(path)
        self.found: dict[str, tuple[Token, Value]] = {}

    def form(self) -> FileForm:
        """What the options say."""
        self._options()
        if "FORMAT" in self.found:
            self._take_format(*self.found.pop("FORMAT"))
        elif not self.format:
            works = f"{', '.join(FILE_ENDINGS)}, or (FORMAT csv)"
            self.parts.fail(f"the format of '{self.path}' cannot be told from its name", self.at, works)
        for name, (token, value) in self.found.items():
            self._check(name, token, value)
        return FileForm(self.path, self.format, {n: v for n, (_, v) in self.found.items()})

    def _options(self) -> None:
        with_ = self.parts.take("WITH")
        if not self.parts.take("("):
            if with_:
                self.parts.unexpected("(FORMAT …, …)")
            return
        while True:
            token = self.parts.token
            name = self._name()
            if name in self.found:
                self.parts.fail(f"{name} is given twice", token)
            self.found[name] = token, self._value(name)
            if self.parts.take(")"):
                return
            if not self.parts.take(","):
                self.parts.unexpected("',' or ')'")

    def _name(self) -> str:
        word = OTHER_NAMES.get(self.parts.word(), self.parts.word())
        known = ["FORMAT", *COPY_OPTIONS]
        if word not in known:
            if not self.parts.token:
                self.parts.unexpected(", ".join(known))
            like = nearest(word, [*known, *OTHER_NAMES])
            self.parts.fail(f"COPY has no option '{self.parts.token.text}'", expected=", ".join(known), like=like)
        self.parts.parser._advance()
        return word

    def _value(self, name: str) -> Value:
        """The value of an option; a flag alone is true."""
        kind = "text" if name == "FORMAT" else COPY_OPTIONS[name].kind
        token = self.parts.token
        if kind == "flag" and self.parts.word() not in (*_TRUE, *_FALSE) and not _is_text(token):
            return True
        if kind == "columns":
            return self._columns()
        text = token is not None and (_is_text(token) or token.token_type == TokenType.NUMBER or self.parts.word())
        if token is None or not text or token.text in (",", ")"):
            self.parts.unexpected(f"a value for {name}")
        self.parts.parser._advance()
        value = token.text
        match kind:
            case "flag":
                if value.upper() not in (*_TRUE, *_FALSE):
                    self.parts.fail(f"{name} is true or false", token)
                return value.upper() in _TRUE
            case "count":
                if not value.isdigit():
                    self.parts.fail(f"{name} is a whole number", token)
                return int(value)
            case "character":
                return self._character(name, token)
            case _:
                return value if _is_text(token) and name != "COMPRESSION" else value.lower()

    def _character(self, name: str, token: Token) -> str:
        value = "\t" if token.text == r"\t" else token.text
        most = 4 if name == "DELIMITER" else 1
        if not 1 <= len(value.encode()) <= most or "\n" in value or "\r" in value:
            what = "one to four characters" if most > 1 else "one character"
            self.parts.fail(f"{name} is {what}", token, f"{name} ';'" if most > 1 else f"{name} '\"'")
        return value

    def _columns(self) -> Value:
        if self.parts.take("*"):
            return ()
        if not self.parts.take("("):
            self.parts.unexpected("* or (column, …)")
        names = []
        while True:
            names.append(self.parts.name("a column"))
            if self.parts.take(")"):
                return tuple(names)
            if not self.parts.take(","):
                self.parts.unexpected("',' or ')'")

    def _take_format(self, token: Token, value: Value) -> None:
        wanted = str(value).lower()
        if wanted not in FORMATS:
            self.parts.fail(f"COPY does not write '{value}'", token, ", ".join(FORMATS), nearest(wanted, FORMATS))
        if self.format and wanted != self.format:
            what = f"a file that is called '{self.path}' is read as {self.format}"
            self.parts.fail(what, token, f"{self.format}, or another name")
        self.format = wanted

    def _check(self, name: str, token: Token, value: Value) -> None:
        """Refuse an option that the format has not, or that would make a file that nobody can read by its name."""
        option: CopyOption = COPY_OPTIONS[name]
        if self.format not in option.formats:
            self.parts.fail(f"{name} is for {' and '.join(option.formats)}, and this is {self.format}", token)
        choices = option.choices and option.choices[self.format]
        if choices and value not in choices:
            message = f"{self.format} cannot be compressed by '{value}'"
            self.parts.fail(message, token, ", ".join(choices), nearest(str(value), choices))
        said = packing(self.path)
        if (
            name == "COMPRESSION"
            and self.format != "parquet"
            and format_named(self.path)
            and value not in (said, "auto")
        ):
            ending = {"gzip": ".gz", "zstd": ".zst"}.get(str(value), "")
            plain = self.path.removesuffix(".gz").removesuffix(".zst")
            how = "as it is" if said == "none" else f"by {said}"
            self.parts.fail(f"a file that is called '{self.path}' is read {how}", token, f"'{plain}{ending}'")


def _is_text(token: Token | None) -> bool:
    return token is not None and token.token_type == TokenType.STRING


__all__ = ["read_form"]
