from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as t

from trident_py.errors import TopologyError
from trident_py.rows.ddl import parse_ddl

NAMES = {
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
    "decimal": t.DecimalType(10, 0),
    "dec(5)": t.DecimalType(5, 0),
    "numeric(38, 38)": t.DecimalType(38, 38),
    "array<array<int>>": t.ArrayType(t.ArrayType(t.IntegerType())),
    "map<string, map<int, double>>": t.MapType(t.StringType(), t.MapType(t.IntegerType(), t.DoubleType())),
    "struct<>": t.StructType(),
}

ATOMIC = st.sampled_from(
    [
        t.BooleanType(), t.ByteType(), t.ShortType(), t.IntegerType(), t.LongType(), t.FloatType(), t.DoubleType(),
        t.StringType(), t.BinaryType(), t.DateType(), t.TimestampType(), t.TimestampNTZType(), t.DecimalType(7, 3),
    ]
)  # fmt: skip
FIELD_NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1, max_size=8)


def structs(kinds: st.SearchStrategy[t.DataType]) -> st.SearchStrategy[t.StructType]:
    fields = st.builds(t.StructField, FIELD_NAMES, kinds, st.booleans())
    return st.lists(fields, min_size=1, max_size=4, unique_by=lambda field: field.name).map(t.StructType)


KINDS = st.recursive(
    ATOMIC,
    lambda inner: st.one_of(st.builds(t.ArrayType, inner), st.builds(t.MapType, inner, inner), structs(inner)),
    max_leaves=6,
)


def written(kind: t.DataType) -> str:
    match kind:
        case t.StructType():
            fields = ", ".join(
                f"`{field.name.replace('`', '``')}`: {written(field.dataType)}{'' if field.nullable else ' NOT NULL'}"
                for field in kind.fields
            )
            return f"struct<{fields}>"
        case t.ArrayType():
            return f"array<{written(kind.elementType)}>"
        case t.MapType():
            return f"map<{written(kind.keyType)}, {written(kind.valueType)}>"
    return kind.simpleString()


@pytest.mark.parametrize(("text", "kind"), NAMES.items(), ids=list(NAMES))
def test_every_type_is_known_in_small_and_capital_letters(text: str, kind: t.DataType) -> None:
    assert parse_ddl(f"a {text}") == t.StructType([t.StructField("a", kind)])
    assert parse_ddl(f"a: {text.upper()}") == t.StructType([t.StructField("a", kind)])


def test_a_list_of_fields_is_read_with_names_of_all_kinds() -> None:
    assert parse_ddl(" word string NOT NULL ,\n`odd ``name``` INT, 1st date COMMENT 'the day', date timestamp ") == (
        t.StructType(
            [
                t.StructField("word", t.StringType(), nullable=False),
                t.StructField("odd `name`", t.IntegerType()),
                t.StructField("1st", t.DateType(), metadata={"comment": "the day"}),
                t.StructField("date", t.TimestampType()),
            ]
        )
    )


@given(structs(KINDS))
def test_what_is_written_comes_back(schema: t.StructType) -> None:
    assert parse_ddl(written(schema)) == schema
    assert parse_ddl(written(schema)[len("struct<") : -1]) == schema


WRONG = {
    "": "has no fields",
    "word": "expected a type .* at character 5, found the end",
    "word strin": "expected a type .* at character 6, found 'strin'",
    "word string,": "expected a field name .* at character 13, found the end",
    "word string count bigint": "expected ',' or the end at character 13, found 'count'",
    "my-field int": "expected a type .* at character 3, found '-'",
    "7 int": "expected a field name .* found '7'",
    "a array<int": "expected '>' at character 12, found the end",
    "a array<int, int>": "expected '>' at character 12, found ','",
    "a map<int>": "expected ',' at character 10, found '>'",
    "a struct<b>": "expected a type .* found '>'",
    "a decimal(39, 2)": r"expected decimal\(p, s\) with 0 <= s <= p <= 38 .* at character 10",
    "a decimal(3, 4)": "expected decimal",
    "a decimal(3, 2, 1)": "expected decimal",
    "a decimal(0)": "expected decimal",
    "a decimal(x)": "expected a number at character 11, found 'x'",
    "a int NOT": "expected NULL .* found the end",
    "a int COMMENT b": "expected the comment in quotes",
    "a varchar(3)": "expected a type .* found 'varchar'",
    "a interval": "expected a type",
    "`` int": "expected a field name",
    "a int) b": "expected ',' or the end",
}


@pytest.mark.parametrize(("text", "message"), WRONG.items(), ids=[repr(text) for text in WRONG])
def test_what_does_not_parse_is_named_with_its_place(text: str, message: str) -> None:
    with pytest.raises(TopologyError, match=message) as caught:
        parse_ddl(text)
    assert repr(text) in str(caught.value)


@given(st.text("ab `<>(),:'1-", max_size=20))
def test_no_text_gives_anything_but_a_schema_or_our_error(text: str) -> None:
    try:
        assert parse_ddl(text).fields
    except TopologyError as error:
        assert repr(text) in str(error)  # noqa: PT017 - either outcome is right
