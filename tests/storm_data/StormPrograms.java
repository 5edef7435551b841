import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.generated.KillOptions;
import org.apache.storm.kafka.spout.FirstPollOffsetStrategy;
import org.apache.storm.kafka.spout.trident.KafkaTridentSpoutConfig;
import org.apache.storm.kafka.spout.trident.KafkaTridentSpoutOpaque;
import org.apache.storm.kafka.spout.trident.KafkaTridentSpoutTransactional;
import org.apache.storm.redis.common.config.JedisPoolConfig;
import org.apache.storm.redis.common.mapper.RedisDataTypeDescription;
import org.apache.storm.redis.trident.state.Options;
import org.apache.storm.redis.trident.state.RedisMapState;
import org.apache.storm.task.IMetricsContext;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.FailedException;
import org.apache.storm.trident.Stream;
import org.apache.storm.trident.TridentTopology;
import org.apache.storm.trident.operation.BaseFunction;
import org.apache.storm.trident.operation.TridentCollector;
import org.apache.storm.trident.operation.builtin.Count;
import org.apache.storm.trident.spout.IOpaquePartitionedTridentSpout;
import org.apache.storm.trident.spout.IPartitionedTridentSpout;
import org.apache.storm.trident.spout.ISpoutPartition;
import org.apache.storm.trident.spout.ITridentDataSource;
import org.apache.storm.trident.spout.ITridentSpout;
import org.apache.storm.trident.state.State;
import org.apache.storm.trident.state.StateFactory;
import org.apache.storm.trident.state.ValueUpdater;
import org.apache.storm.trident.state.map.MapState;
import org.apache.storm.trident.state.snapshot.Snapshottable;
import org.apache.storm.trident.topology.TransactionAttempt;
import org.apache.storm.trident.tuple.TridentTuple;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Values;

/**
 * Word counts into Redis, which leave transactions pending. `record.py` runs it and dumps what they have stored.
 *
 * <p>Arguments: ports of ZooKeeper, Redis and Kafka. Line n of partition p is "w(n mod 3) p(p) all". A batch has two
 * lines of each of the two partitions.
 */
public final class StormPrograms {
    static final int REDIS_TIMEOUT_MILLIS = 2000;
    static final Map<String, CountDownLatch> HUNG = new HashMap<>();
    static int redisPort;
    static int kafkaPort;

    static String line(int partition, long number) {
        return "w" + number % 3 + " p" + partition + " all";
    }

    static Map<String, Object> range(Map<String, Object> last) {
        long from = last == null ? 0 : ((Number) last.get("to")).longValue();
        Map<String, Object> range = new HashMap<>();
        range.put("from", from);
        range.put("to", from + 2);
        return range;
    }

    static void emit(int partition, Map<String, Object> range, TridentCollector collector) {
        for (long number = ((Number) range.get("from")).longValue(); number < ((Number) range.get("to")).longValue(); number++) {
            collector.emit(new Values(line(partition, number)));
        }
    }

    record Part(int number) implements ISpoutPartition, java.io.Serializable {
        @Override
        public String getId() {
            return "part-" + number;
        }
    }

    static List<Part> parts(Object coordinatorsPartitions) {
        List<Part> parts = new ArrayList<>();
        for (int number = 0; number < ((Number) coordinatorsPartitions).intValue(); number++) {
            parts.add(new Part(number));
        }
        return parts;
    }

    static List<Part> share(int task, int tasks, List<Part> all) {
        return all.stream().filter(part -> part.number() % tasks == task).toList();
    }

    static final class Exact implements IPartitionedTridentSpout<Object, Part, Map<String, Object>> {
        private final long last;

        Exact(long last) {
            this.last = last;
        }

        @Override
        public Coordinator<Object> getCoordinator(Map<String, Object> conf, TopologyContext context) {
            return new Coordinator<>() {
                @Override
                public Object getPartitionsForBatch() {
                    return 2;
                }

                @Override
                public boolean isReady(long txid) {
                    return txid <= last;
                }

                @Override
                public void close() {}
            };
        }

        @Override
        public Emitter<Object, Part, Map<String, Object>> getEmitter(Map<String, Object> conf, TopologyContext context) {
            return new Emitter<>() {
                @Override
                public List<Part> getOrderedPartitions(Object allPartitionInfo) {
                    return parts(allPartitionInfo);
                }

                @Override
                public List<Part> getPartitionsForTask(int taskId, int numTasks, List<Part> all) {
                    return share(taskId, numTasks, all);
                }

                @Override
                public void refreshPartitions(List<Part> partitionResponsibilities) {}

                @Override
                public Map<Part, Map<String, Object>> emitBatchNew(
                    TransactionAttempt tx, TridentCollector collector, Set<Part> parts, Map<Part, Map<String, Object>> last) {
                    Map<Part, Map<String, Object>> found = new HashMap<>();
                    for (Part part : parts) {
                        found.put(part, range(last.get(part)));
                        emit(part.number(), found.get(part), collector);
                    }
                    return found;
                }

                @Override
                public void reEmitPartitionBatch(
                    TransactionAttempt tx, TridentCollector collector, Part part, Map<String, Object> meta) {
                    emit(part.number(), meta, collector);
                }

                @Override
                public void close() {}
            };
        }

        @Override
        public Map<String, Object> getComponentConfiguration() {
            return null;
        }

        @Override
        public Fields getOutputFields() {
            return new Fields("value");
        }
    }

    static final class Opaque implements IOpaquePartitionedTridentSpout<Object, Part, Map<String, Object>> {
        private final long last;

        Opaque(long last) {
            this.last = last;
        }

        @Override
        public Coordinator<Object> getCoordinator(Map<String, Object> conf, TopologyContext context) {
            return new Coordinator<>() {
                @Override
                public Object getPartitionsForBatch() {
                    return 2;
                }

                @Override
                public boolean isReady(long txid) {
                    return txid <= last;
                }

                @Override
                public void close() {}
            };
        }

        @Override
        public Emitter<Object, Part, Map<String, Object>> getEmitter(Map<String, Object> conf, TopologyContext context) {
            return new Emitter<>() {
                @Override
                public Map<Part, Map<String, Object>> emitBatchNew(
                    TransactionAttempt tx, TridentCollector collector, Set<Part> parts, Map<Part, Map<String, Object>> last) {
                    Map<Part, Map<String, Object>> found = new HashMap<>();
                    for (Part part : parts) {
                        found.put(part, range(last.get(part)));
                        emit(part.number(), found.get(part), collector);
                    }
                    return found;
                }

                @Override
                public void refreshPartitions(List<Part> partitionResponsibilities) {}

                @Override
                public List<Part> getOrderedPartitions(Object allPartitionInfo) {
                    return parts(allPartitionInfo);
                }

                @Override
                public List<Part> getPartitionsForTask(int taskId, int numTasks, List<Part> all) {
                    return share(taskId, numTasks, all);
                }

                @Override
                public void close() {}
            };
        }

        @Override
        public Map<String, Object> getComponentConfiguration() {
            return null;
        }

        @Override
        public Fields getOutputFields() {
            return new Fields("value");
        }
    }

    /** A spout whose coordinator says everything: batch t has the lines after those of the batch before it. */
    static final class Full implements ITridentSpout<Map<String, Object>> {
        private final long last;

        Full(long last) {
            this.last = last;
        }

        @Override
        public BatchCoordinator<Map<String, Object>> getCoordinator(String id, Map<String, Object> conf, TopologyContext context) {
            return new BatchCoordinator<>() {
                @Override
                public Map<String, Object> initializeTransaction(long txid, Map<String, Object> previous, Map<String, Object> current) {
                    return current != null ? current : range(previous);
                }

                @Override
                public void success(long txid) {}

                @Override
                public boolean isReady(long txid) {
                    return txid <= last;
                }

                @Override
                public void close() {}
            };
        }

        @Override
        public Emitter<Map<String, Object>> getEmitter(String id, Map<String, Object> conf, TopologyContext context) {
            return new Emitter<>() {
                @Override
                public void emitBatch(TransactionAttempt tx, Map<String, Object> range, TridentCollector collector) {
                    emit(0, range, collector);
                }

                @Override
                public void success(TransactionAttempt tx) {}

                @Override
                public void close() {}
            };
        }

        @Override
        public Map<String, Object> getComponentConfiguration() {
            return null;
        }

        @Override
        public Fields getOutputFields() {
            return new Fields("value");
        }
    }

    static final class Split extends BaseFunction {
        @Override
        public void execute(TridentTuple tuple, TridentCollector collector) {
            for (String word : tuple.getString(0).split(" ")) {
                collector.emit(new Values(word));
            }
        }
    }

    /** A state of which task 0 hangs in the commit of a transaction: before it writes, or after that. */
    record Hanging(StateFactory factory, String topology, long txid, boolean before) implements StateFactory {
        @Override
        public State makeState(Map<String, Object> conf, IMetricsContext metrics, int partitionIndex, int numPartitions) {
            State state = factory.makeState(conf, metrics, partitionIndex, numPartitions);
            return new HangingState(state, topology, partitionIndex == 0 ? txid : -1, before);
        }
    }

    @SuppressWarnings("unchecked")
    record HangingState(State state, String topology, long at, boolean before) implements MapState<Object>, Snapshottable<Object> {
        private void hangIf(boolean here, Long txid) {
            if (here && txid != null && txid == at) {
                HUNG.get(topology).countDown();
                try {
                    Thread.sleep(Long.MAX_VALUE);
                } catch (InterruptedException error) {
                    throw new FailedException("interrupted");
                }
            }
        }

        @Override
        public void beginCommit(Long txid) {
            hangIf(before, txid);
            state.beginCommit(txid);
        }

        @Override
        public void commit(Long txid) {
            state.commit(txid);
            hangIf(!before, txid);
        }

        @Override
        public List<Object> multiGet(List<List<Object>> keys) {
            return ((MapState<Object>) state).multiGet(keys);
        }

        @Override
        public List<Object> multiUpdate(List<List<Object>> keys, List<ValueUpdater> updaters) {
            return ((MapState<Object>) state).multiUpdate(keys, updaters);
        }

        @Override
        public void multiPut(List<List<Object>> keys, List<Object> vals) {
            ((MapState<Object>) state).multiPut(keys, vals);
        }

        @Override
        public Object get() {
            return ((Snapshottable<Object>) state).get();
        }

        @Override
        public Object update(ValueUpdater updater) {
            return ((Snapshottable<Object>) state).update(updater);
        }

        @Override
        public void set(Object value) {
            ((Snapshottable<Object>) state).set(value);
        }
    }

    static JedisPoolConfig redis(int database) {
        return new JedisPoolConfig.Builder()
            .setHost("127.0.0.1").setPort(redisPort).setDatabase(database).setTimeout(REDIS_TIMEOUT_MILLIS).build();
    }

    static <T> Options<T> hash(String name) {
        Options<T> options = new Options<>();
        options.dataTypeDescription = new RedisDataTypeDescription(RedisDataTypeDescription.RedisDataType.HASH, name);
        return options;
    }

    static ITridentDataSource kafka(boolean exact) {
        Properties more = new Properties();
        more.put(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, 4);
        KafkaTridentSpoutConfig<String, String> config = KafkaTridentSpoutConfig.builder("127.0.0.1:" + kafkaPort, "storm-lines")
            .setProp(ConsumerConfig.GROUP_ID_CONFIG, "storm")
            .setProp(more)
            .setRecordTranslator(record -> new Values(record.value()), new Fields("value"))
            .setFirstPollOffsetStrategy(FirstPollOffsetStrategy.UNCOMMITTED_EARLIEST)
            .build();
        return exact ? new KafkaTridentSpoutTransactional<>(config) : new KafkaTridentSpoutOpaque<>(config);
    }

    static void run(LocalCluster cluster, String name, ITridentDataSource spout, int tasks, StateFactory counts,
                    StateFactory total, StateFactory plain, BooleanSupplier done) throws Exception {
        TridentTopology topology = new TridentTopology();
        Stream words = topology.newStream(name, spout).each(new Fields("value"), new Split(), new Fields("word"));
        words.groupBy(new Fields("word")).persistentAggregate(counts, new Count(), new Fields("count")).parallelismHint(tasks);
        if (total != null) {
            words.persistentAggregate(total, new Count(), new Fields("total"));
            words.groupBy(new Fields("word")).persistentAggregate(plain, new Count(), new Fields("plain"));
        }
        Config config = new Config();
        config.setMaxSpoutPending(3);
        config.setMessageTimeoutSecs(600);
        config.put(Config.TOPOLOGY_TRIDENT_BATCH_EMIT_INTERVAL_MILLIS, 20);
        cluster.submitTopology(name, config, topology.build());
        while (!done.getAsBoolean()) {
            Thread.sleep(100);
        }
        Thread.sleep(3000);
        dumped(name + " active");
        cluster.deactivate(name);
        Thread.sleep(2000);
        dumped(name + " inactive");
        KillOptions now = new KillOptions();
        now.set_wait_secs(0);
        cluster.killTopologyWithOpts(name, now);
        Thread.sleep(6000);
        dumped(name + " killed");
    }

    /** Tells the program that dumps, and waits until it has. */
    static void dumped(String what) throws Exception {
        System.out.println("DUMP " + what);
        System.out.flush();
        System.in.read();
    }

    static BooleanSupplier hung(String name) {
        HUNG.put(name, new CountDownLatch(1));
        return () -> HUNG.get(name).getCount() == 0;
    }

    public static void main(String[] arguments) throws Exception {
        redisPort = Integer.parseInt(arguments[1]);
        kafkaPort = Integer.parseInt(arguments[2]);
        LocalCluster cluster = new LocalCluster("127.0.0.1", Long.parseLong(arguments[0]));
        String name = "storm-exact";
        BooleanSupplier done = hung(name);
        run(cluster, name, new Exact(5), 1,
            new Hanging(RedisMapState.transactional(redis(0), hash(name)), name, 3, false), null, null, done);
        name = "storm-opaque";
        done = hung(name);
        run(cluster, name, new Opaque(5), 2,
            new Hanging(RedisMapState.opaque(redis(1), new Options<>()), name, 3, true), null, null, done);
        name = "storm-full";
        long until = System.currentTimeMillis() + 15_000;
        run(cluster, name, new Full(4), 1, RedisMapState.opaque(redis(0), hash(name)),
            RedisMapState.transactional(redis(0), hash(name + "-total")),
            RedisMapState.nonTransactional(redis(2), new Options<>()), () -> System.currentTimeMillis() > until);
        if (kafkaPort > 0) {
            name = "storm-kafka-exact";
            done = hung(name);
            run(cluster, name, kafka(true), 1,
                new Hanging(RedisMapState.transactional(redis(0), hash(name)), name, 3, false), null, null, done);
            name = "storm-kafka-opaque";
            done = hung(name);
            run(cluster, name, kafka(false), 1,
                new Hanging(RedisMapState.opaque(redis(0), hash(name)), name, 3, false), null, null, done);
        }
        Runtime.getRuntime().halt(0);
    }
}
