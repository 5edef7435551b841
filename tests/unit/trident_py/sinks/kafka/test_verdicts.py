"""What each error code of Kafka's means to a sink or a spout."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from trident_py.interfaces.verdict import Verdict
from trident_py.sinks.kafka.verdicts import BY_NAME, Call, verdict_of, worst_of

CODES = {
    name: code
    for name in dir(KafkaError)
    if name.lstrip("_").isupper() and isinstance(code := getattr(KafkaError, name), int)
}


def test_the_table_has_each_code_that_the_client_knows() -> None:
    assert len(CODES) > 150
    assert sorted(BY_NAME.keys() ^ CODES.keys()) == []


@pytest.mark.parametrize(
    ("verdict", "names"),
    [
        (Verdict.THIS_BATCH, "INVALID_RECORD INVALID_TIMESTAMP RECORD_LIST_TOO_LARGE MSG_SIZE_TOO_LARGE"),
        (Verdict.NEVER, "INVALID_CONFIG TOPIC_AUTHORIZATION_FAILED UNSUPPORTED_VERSION _AUTHENTICATION"),
        (Verdict.COMES_AGAIN, "_TRANSPORT _TIMED_OUT NOT_ENOUGH_REPLICAS COORDINATOR_NOT_AVAILABLE"),
    ],
)
def test_what_a_record_is_refused_for_is_the_batchs_and_what_no_other_try_mends_stops(
    verdict: Verdict, names: str
) -> None:
    for name in names.split():
        assert verdict_of(Call.SEND, KafkaError(CODES[name])) is verdict, name


def test_records_that_are_gone_stop_a_spout() -> None:
    assert verdict_of(Call.READ, KafkaError(KafkaError.OFFSET_OUT_OF_RANGE)) is Verdict.NEVER


def test_an_error_that_the_table_lacks_comes_again() -> None:
    assert verdict_of(Call.SEND, KafkaError(9999)) is Verdict.COMES_AGAIN


def test_of_several_errors_the_one_counts_that_lasts_longest() -> None:
    purged, large, denied = (
        KafkaError(CODES[name]) for name in ("_PURGE_QUEUE", "MSG_SIZE_TOO_LARGE", "TOPIC_AUTHORIZATION_FAILED")
    )
    assert worst_of(Call.SEND, [purged]) == (Verdict.COMES_AGAIN, purged)
    assert worst_of(Call.SEND, [purged, large]) == (Verdict.THIS_BATCH, large)
    assert worst_of(Call.SEND, [large, purged, denied]) == (Verdict.NEVER, denied)
