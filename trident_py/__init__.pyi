from coordinators.backends.coordination import Coordination as Coordination
from coordinators.backends.zookeeper.access import ZooKeeperTLS as ZooKeeperTLS
from coordinators.record.parking import Parked as Parked
from coordinators.record.wishes import Outcome as Outcome
from coordinators.status.listener import CommittedEvent as CommittedEvent
from coordinators.status.listener import EmittedEvent as EmittedEvent
from coordinators.status.listener import EndedEvent as EndedEvent
from coordinators.status.listener import FailedEvent as FailedEvent
from coordinators.status.listener import LeadingEvent as LeadingEvent
from coordinators.status.listener import ParkedEvent as ParkedEvent
from coordinators.status.listener import ProcessedEvent as ProcessedEvent
from coordinators.status.listener import ResidentTasksEvent as ResidentTasksEvent
from coordinators.status.listener import StandstillEvent as StandstillEvent
from coordinators.status.listener import SucceededEvent as SucceededEvent
from coordinators.status.listener import TopologyEvent as TopologyEvent
from coordinators.status.listener import TransactionEvent as TransactionEvent
from coordinators.status.listener import TridentListener as TridentListener
from coordinators.status.listener import WishedEvent as WishedEvent
from coordinators.status.listener import Work as Work
from coordinators.status.listener import WorkEvent as WorkEvent
from coordinators.status.status import SourceStatus as SourceStatus
from coordinators.status.status import TopologyStatus as TopologyStatus
from coordinators.status.status import TransactionStatus as TransactionStatus
from coordinators.values.attempt import TransactionAttempt as TransactionAttempt
from coordinators.values.secret import Secret as Secret
from trident_py.errors import ConfigError as ConfigError
from trident_py.errors import CoordinationLost as CoordinationLost
from trident_py.errors import CounterError as CounterError
from trident_py.errors import FailedException as FailedException
from trident_py.errors import FencedError as FencedError
from trident_py.errors import MetadataError as MetadataError
from trident_py.errors import PoisonBatchError as PoisonBatchError
from trident_py.errors import RequestError as RequestError
from trident_py.errors import SinkError as SinkError
from trident_py.errors import SparkLost as SparkLost
from trident_py.errors import SpoutError as SpoutError
from trident_py.errors import StateError as StateError
from trident_py.errors import StoreBusyException as StoreBusyException
from trident_py.errors import TopologyError as TopologyError
from trident_py.errors import TridentError as TridentError
from trident_py.interfaces.collector import TridentCollector as TridentCollector
from trident_py.interfaces.config import RetryPolicy as RetryPolicy
from trident_py.interfaces.config import TridentConfig as TridentConfig
from trident_py.interfaces.context import Metrics as Metrics
from trident_py.interfaces.context import TopologyContext as TopologyContext
from trident_py.operations import *
from trident_py.query import TridentQuery as TridentQuery
from trident_py.query import active as active
from trident_py.rows.row import Row as Row
from trident_py.sinks import *
from trident_py.spouts import *
from trident_py.states import *
from trident_py.streams.stream import GroupedStream as GroupedStream
from trident_py.streams.stream import Stream as Stream
from trident_py.streams.stream import TridentState as TridentState
from trident_py.testing import *
from trident_py.topology import TridentTopology as TridentTopology
from trident_py.windows import *
from trident_py.worker.counters import Counter as Counter
from trident_py.worker.counters import counter as counter

__version__: str
