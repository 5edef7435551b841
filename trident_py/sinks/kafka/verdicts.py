"""The meaning of Kafka's error codes, by the failed call: a table of all codes that the client knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from confluent_kafka import KafkaError

from trident_py.interfaces.verdict import Verdict, unknown_errors


class Call(Enum):
    """The failed call."""

    LEAD = "lead"
    """Making a producer, and making, checking and reading the topic of its token."""

    SEND = "send"
    """Sending the records of a batch, and committing them."""

    READ = "read"
    """Reading topics and offsets, and reading records."""


_NEVER = """
    _AUTHENTICATION _INVALID_TYPE _NOT_CONFIGURED _NOT_IMPLEMENTED _UNKNOWN_PROTOCOL _UNSUPPORTED_FEATURE
    CLUSTER_AUTHORIZATION_FAILED DELEGATION_TOKEN_AUTHORIZATION_FAILED DELEGATION_TOKEN_AUTH_DISABLED
    DELEGATION_TOKEN_EXPIRED DELEGATION_TOKEN_NOT_FOUND DELEGATION_TOKEN_OWNER_MISMATCH
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED GROUP_AUTHORIZATION_FAILED ILLEGAL_SASL_STATE INVALID_CONFIG INVALID_GROUP_ID
    INVALID_PARTITIONS INVALID_PRINCIPAL_TYPE INVALID_REGULAR_EXPRESSION INVALID_REPLICA_ASSIGNMENT INVALID_REQUEST
    INVALID_REQUIRED_ACKS INVALID_SESSION_TIMEOUT INVALID_TRANSACTION_TIMEOUT MISMATCHED_ENDPOINT_TYPE POLICY_VIOLATION
    SASL_AUTHENTICATION_FAILED SECURITY_DISABLED STREAMS_INVALID_TOPOLOGY TOPIC_AUTHORIZATION_FAILED
    TOPIC_DELETION_DISABLED TOPIC_EXCEPTION TRANSACTIONAL_ID_AUTHORIZATION_FAILED UNACCEPTABLE_CREDENTIAL
    UNSUPPORTED_ASSIGNOR UNSUPPORTED_COMPRESSION_TYPE UNSUPPORTED_ENDPOINT_TYPE UNSUPPORTED_FOR_MESSAGE_FORMAT
    UNSUPPORTED_SASL_MECHANISM UNSUPPORTED_VERSION
"""

_COMES_AGAIN = """
    _ALL_BROKERS_DOWN _APPLICATION _ASSIGNMENT_LOST _ASSIGN_PARTITIONS _BAD_COMPRESSION _BAD_MSG _CONFLICT
    _CRIT_SYS_RESOURCE _DESTROY _DESTROY_BROKER _EXISTING_SUBSCRIPTION _FAIL _FATAL _FENCED _FS _GAPLESS_GUARANTEE
    _INCONSISTENT _INTR _IN_PROGRESS _ISR_INSUFF _MAX_POLL_EXCEEDED _MSG_TIMED_OUT _NODE_UPDATE _NOENT _NOOP _NO_OFFSET
    _OUTDATED _PARTIAL _PARTITION_EOF _PREV_IN_PROGRESS _PURGE_INFLIGHT _PURGE_QUEUE _QUEUE_FULL _READ_ONLY _RESOLVE
    _RETRY _REVOKE_PARTITIONS _SSL _STATE _TIMED_OUT _TIMED_OUT_QUEUE _TRANSPORT _UNDERFLOW _UNKNOWN_BROKER
    _UNKNOWN_GROUP _WAIT_CACHE _WAIT_COORD
    BROKER_NOT_AVAILABLE CONCURRENT_TRANSACTIONS COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE
    DUPLICATE_RESOURCE DUPLICATE_SEQUENCE_NUMBER DUPLICATE_VOTER ELECTION_NOT_NEEDED ELIGIBLE_LEADERS_NOT_AVAILABLE
    FEATURE_UPDATE_FAILED FENCED_INSTANCE_ID FENCED_LEADER_EPOCH FENCED_MEMBER_EPOCH FENCED_STATE_EPOCH
    FETCH_SESSION_ID_NOT_FOUND GROUP_ID_NOT_FOUND GROUP_MAX_SIZE_REACHED GROUP_SUBSCRIBED_TO_TOPIC ILLEGAL_GENERATION
    INCONSISTENT_GROUP_PROTOCOL INCONSISTENT_TOPIC_ID INCONSISTENT_VOTER_SET INVALID_COMMIT_OFFSET_SIZE
    INVALID_FETCH_SESSION_EPOCH INVALID_MSG INVALID_PRODUCER_EPOCH INVALID_PRODUCER_ID_MAPPING INVALID_RECORD_STATE
    INVALID_REGISTRATION INVALID_REPLICATION_FACTOR INVALID_SHARE_SESSION_EPOCH INVALID_TXN_STATE INVALID_UPDATE_VERSION
    INVALID_VOTER_KEY KAFKA_STORAGE_ERROR LEADER_NOT_AVAILABLE LISTENER_NOT_FOUND LOG_DIR_NOT_FOUND MEMBER_ID_REQUIRED
    NETWORK_EXCEPTION NON_EMPTY_GROUP NOT_CONTROLLER NOT_COORDINATOR NOT_ENOUGH_REPLICAS
    NOT_ENOUGH_REPLICAS_AFTER_APPEND NOT_LEADER_FOR_PARTITION NO_ERROR NO_REASSIGNMENT_IN_PROGRESS
    OFFSET_METADATA_TOO_LARGE OFFSET_NOT_AVAILABLE OPERATION_NOT_ATTEMPTED OUT_OF_ORDER_SEQUENCE_NUMBER
    PREFERRED_LEADER_NOT_AVAILABLE PRINCIPAL_DESERIALIZATION_FAILURE PRODUCER_FENCED REASSIGNMENT_IN_PROGRESS
    REBALANCE_IN_PROGRESS REBOOTSTRAP_REQUIRED REPLICA_NOT_AVAILABLE REQUEST_TIMED_OUT RESOURCE_NOT_FOUND
    SHARE_SESSION_LIMIT_REACHED SHARE_SESSION_NOT_FOUND STALE_BROKER_EPOCH STALE_CTRL_EPOCH STALE_MEMBER_EPOCH
    STREAMS_INVALID_TOPOLOGY_EPOCH STREAMS_TOPOLOGY_FENCED TELEMETRY_TOO_LARGE THROTTLING_QUOTA_EXCEEDED
    TOPIC_ALREADY_EXISTS TRANSACTION_ABORTABLE TRANSACTION_COORDINATOR_FENCED UNKNOWN UNKNOWN_CONTROLLER_ID
    UNKNOWN_LEADER_EPOCH UNKNOWN_MEMBER_ID UNKNOWN_PRODUCER_ID UNKNOWN_SUBSCRIPTION_ID UNKNOWN_TOPIC_ID
    UNRELEASED_INSTANCE_ID UNSTABLE_OFFSET_COMMIT VOTER_NOT_FOUND
"""

_BY_CALL = """
    name                        lead         send        read
    _AUTO_OFFSET_RESET          comes-again  comes-again never
    _INVALID_ARG                never        this-batch  never
    _INVALID_DIFFERENT_RECORD   comes-again  this-batch  comes-again
    _KEY_DESERIALIZATION        comes-again  comes-again this-batch
    _KEY_SERIALIZATION          never        this-batch  comes-again
    _LOG_TRUNCATION             comes-again  comes-again never
    _UNKNOWN_PARTITION          comes-again  this-batch  comes-again
    _UNKNOWN_TOPIC              comes-again  never       comes-again
    _VALUE_DESERIALIZATION      comes-again  comes-again this-batch
    _VALUE_SERIALIZATION        never        this-batch  comes-again
    INVALID_MSG_SIZE            never        this-batch  comes-again
    INVALID_RECORD              never        this-batch  comes-again
    INVALID_TIMESTAMP           never        this-batch  comes-again
    MSG_SIZE_TOO_LARGE          never        this-batch  never
    OFFSET_OUT_OF_RANGE         comes-again  comes-again never
    RECORD_LIST_TOO_LARGE       never        this-batch  comes-again
    UNKNOWN_TOPIC_OR_PART       comes-again  never       comes-again
"""


def _table() -> dict[str, Mapping[Call, Verdict]]:
    found: dict[str, Mapping[Call, Verdict]] = {}
    found |= dict.fromkeys(_NEVER.split(), dict.fromkeys(Call, Verdict.NEVER))
    found |= dict.fromkeys(_COMES_AGAIN.split(), dict.fromkeys(Call, Verdict.COMES_AGAIN))
    for line in _BY_CALL.strip().splitlines()[1:]:
        name, *verdicts = line.split()
        found[name] = {call: Verdict(each.replace("-", " ")) for call, each in zip(Call, verdicts, strict=True)}
    return found


BY_NAME = _table()
"""The verdict of each code, by call."""

_BY_CODE = {getattr(KafkaError, name): name for name in BY_NAME if hasattr(KafkaError, name)}


def verdict_of(call: Call, error: KafkaError) -> Verdict:
    """Return the verdict of an error; an error that the table lacks is retried."""
    name = _BY_CODE.get(error.code())
    if name is None:
        unknown_errors.came(("kafka", error.code()), shown_error(error))
        return Verdict.COMES_AGAIN
    return BY_NAME[name][call]


def worst_of(call: Call, errors: Sequence[KafkaError]) -> tuple[Verdict, KafkaError]:
    """Return the verdict of the errors of one call, and the error that decides it: the first that is not temporary."""
    verdicts = [(verdict_of(call, error), error) for error in errors]
    lasting = [each for each in verdicts if each[0] is not Verdict.COMES_AGAIN]
    return next((each for each in lasting if each[0] is Verdict.NEVER), (lasting or verdicts)[0])


def shown_error(error: KafkaError) -> str:
    """Return an error in Kafka's words, with its code."""
    return f"{error.str()} ({error.name()})"
