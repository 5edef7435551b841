"""A parser of schemas as text, so that a topology is declared without a Spark session.

The language is that of Spark's column lists (SqlBaseParser.g4, ``colTypeList``), as far as rows can carry the types
to Python and back::

    word string, at timestamp NOT NULL, tags array<string>, `odd name` struct<a: int, b: decimal(9, 2)>
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn

from attrs import define, field, frozen
from pyspark.sql import types as t

from trident_py.errors import TopologyError

_TOKEN = re.compile(
    r"""\s*(?: (?P<quoted> `(?:[^`]|``)+` )
             | (?P<text> '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" )
             | (?P<word> \w+ )
             | (?P<mark> \S ) )""",
    re.VERBOSE,
)

_ATOMIC: dict[str, t.DataType] = {
    "boolean": t.BooleanType(),
    "tinyint": t.ByteType(),
    "byte": t.ByteType(),
    "smallint": t.ShortType(),
    "short": t.ShortType(),
    "int": t.IntegerType(),
    "integer": t.IntegerType(),
    "bigint": t.LongType(),
    "long": t.LongType(),
    "float": t.FloatType(),
    "real": t.FloatType(),
    "double": t.DoubleType(),
    "string": t.StringType(),
    "binary": t.BinaryType(),
    "date": t.DateType(),
    "timestamp": t.TimestampType(),
    "timestamp_ltz": t.TimestampType(),
    "timestamp_ntz": t.TimestampNTZType(),
}
_DECIMAL = ("decimal", "dec", "numeric")
_PRECISION_MAX = 38
_KNOWN = "boolean, tinyint, smallint, int, bigint, float, double, decimal(p, s), string, binary, date, timestamp, \
timestamp_ntz, array<…>, map<…, …>, struct<name: type, …>"


def parse_ddl(text: str) -> t.StructType:
    """Return the fields that ``text`` lists; ``struct<…>`` around the list is allowed.

    Raises:
        TopologyError: it doesn't parse; the message has the text, the place and the expected token.
    """
    return _Parser(text, [*_tokens(text), _Token("end", "the end", len(text))]).schema()


@frozen
class _Token:
    kind: str
    text: str
    position: int

    @property
    def lower(self) -> str:
        return self.text.lower() if self.kind == "word" else ""


def _tokens(text: str) -> list[_Token]:
    return [
        _Token(str(found.lastgroup), found[str(found.lastgroup)], found.start(str(found.lastgroup)))
        for found in _TOKEN.finditer(text)
    ]


@define
class _Parser:
    _text: str
    _tokens: list[_Token]
    _at: int = field(default=0, init=False)

    def schema(self) -> t.StructType:
        if self._token.kind == "end":
            raise TopologyError(f"schema {self._text!r} has no fields; write them as in 'word string, count bigint'")
        wrapped = self._token.lower == "struct" and self._tokens[self._at + 1].text == "<"
        self._at += wrapped
        found = self._struct() if wrapped else self._fields()
        if self._token.kind != "end":
            self._fail("',' or the end")
        return found

    def _fields(self) -> t.StructType:
        return t.StructType(self._list(self._field))

    def _field(self) -> t.StructField:
        name = self._name()
        self._skip(":")
        kind = self._type()
        nullable = True
        if self._token.lower == "not":
            self._next()
            if self._token.lower != "null":
                self._fail("NULL")
            self._next()
            nullable = False
        return t.StructField(name, kind, nullable, self._comment())

    def _name(self) -> str:
        token = self._token
        if token.kind == "quoted":
            return self._next().text[1:-1].replace("``", "`")
        if token.kind != "word" or token.text.isdecimal():
            self._fail("a field name (in backquotes if it has other characters than letters, digits and '_')")
        return self._next().text

    def _comment(self) -> dict[str, Any] | None:
        if self._token.lower != "comment":
            return None
        self._next()
        if self._token.kind != "text":
            self._fail("the comment in quotes")
        return {"comment": self._next().text[1:-1]}

    def _type(self) -> t.DataType:
        name = self._token.lower
        if name in _ATOMIC:
            self._next()
            return _ATOMIC[name]
        nested: dict[str, Callable[[], t.DataType]] = {
            **dict.fromkeys(_DECIMAL, self._decimal),
            "array": self._array,
            "map": self._map,
            "struct": self._struct,
        }
        if name not in nested:
            self._fail(f"a type ({_KNOWN})")
        self._next()
        return nested[name]()

    def _decimal(self) -> t.DataType:
        if self._token.text != "(":
            return t.DecimalType()
        place = self._next()
        numbers = self._list(self._number)
        self._expect(")")
        precision, scale = [*numbers, 0][:2]
        if len(numbers) > 2 or not 0 <= scale <= precision or not 1 <= precision <= _PRECISION_MAX:
            self._fail(f"decimal(p, s) with 0 <= s <= p <= {_PRECISION_MAX} and p >= 1", place)
        return t.DecimalType(precision, scale)

    def _number(self) -> int:
        if not self._token.text.isdecimal():
            self._fail("a number")
        return int(self._next().text)

    def _array(self) -> t.DataType:
        self._expect("<")
        element = self._type()
        self._expect(">")
        return t.ArrayType(element)

    def _map(self) -> t.DataType:
        self._expect("<")
        key = self._type()
        self._expect(",")
        value = self._type()
        self._expect(">")
        return t.MapType(key, value)

    def _struct(self) -> t.StructType:
        self._expect("<")
        fields = t.StructType() if self._token.text == ">" else self._fields()
        self._expect(">")
        return fields

    def _list(self, item: Callable[[], Any]) -> list[Any]:
        items = [item()]
        while self._skip(","):
            items.append(item())
        return items

    @property
    def _token(self) -> _Token:
        return self._tokens[self._at]

    def _next(self) -> _Token:
        token = self._token
        self._at += 1
        return token

    def _skip(self, mark: str) -> bool:
        found = self._token.kind == "mark" and self._token.text == mark
        self._at += found
        return found

    def _expect(self, mark: str) -> None:
        if not self._skip(mark):
            self._fail(repr(mark))

    def _fail(self, expected: str, place: _Token | None = None) -> NoReturn:
        token = place or self._token
        found = token.text if token.kind == "end" else repr(token.text)
        raise TopologyError(
            f"schema {self._text!r}: expected {expected} at character {token.position + 1}, found {found}"
        )
