package benchmarks;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.storm.Config;
import org.apache.storm.ILocalCluster;
import org.apache.storm.LocalCluster;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.trident.TridentTopology;
import org.apache.storm.trident.operation.BaseFunction;
import org.apache.storm.trident.operation.TridentCollector;
import org.apache.storm.trident.operation.builtin.Count;
import org.apache.storm.trident.spout.ITridentSpout;
import org.apache.storm.trident.testing.MemoryMapState;
import org.apache.storm.trident.topology.TransactionAttempt;
import org.apache.storm.trident.tuple.TridentTuple;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Values;

/**
 * Storm's own Trident, counting words into a state in memory, in a LocalCluster.
 *
 * <p>Arguments: seconds to measure, sentences in a batch, max.spout.pending. One JSON object goes to standard output. A
 * transaction's latency is from the emission of its batch to its success. Batches are emitted every millisecond if there
 * is room; Storm's own 500 would measure nothing but the wait.
 */
public final class WordCount {
    static final int WARM_UP_SECONDS = 5;
    static final Measures MEASURES = new Measures();

    private WordCount() {}

    /** What the spout of the running topology sees; in one process with us, since the cluster is local. */
    static final class Measures {
        private final Map<Long, Long> emitted = new ConcurrentHashMap<>();
        private final List<Long> latencies = new ArrayList<>();
        private boolean counting;

        void emit(long txid) {
            emitted.put(txid, System.nanoTime());
        }

        synchronized void success(long txid) {
            Long at = emitted.remove(txid);
            if (counting && at != null) {
                latencies.add(System.nanoTime() - at);
            }
        }

        synchronized void start() {
            latencies.clear();
            counting = true;
        }

        synchronized long[] stop() {
            counting = false;
            emitted.clear();
            return latencies.stream().mapToLong(Long::longValue).sorted().toArray();
        }
    }

    /** Always ready; batch t has the same sentences whenever it is emitted. */
    static final class Sentences implements ITridentSpout<Long> {
        private static final int KNOWN = 100_000;
        private final int size;

        Sentences(int size) {
            this.size = size;
        }

        /** Made beforehand, so that Storm is measured and not the making. */
        private static List<String> made() {
            Random chance = new Random(1);
            List<String> sentences = new ArrayList<>();
            for (int number = 0; number < KNOWN; number++) {
                StringBuilder words = new StringBuilder();
                for (int word = 0; word < 7; word++) {
                    words.append(word == 0 ? "" : " ").append(String.format("word%04d", chance.nextInt(5000)));
                }
                sentences.add(words.toString());
            }
            return sentences;
        }

        @Override
        public BatchCoordinator<Long> getCoordinator(String id, Map<String, Object> conf, TopologyContext context) {
            return new BatchCoordinator<Long>() {
                @Override
                public Long initializeTransaction(long txid, Long previous, Long current) {
                    return txid;
                }

                @Override
                public void success(long txid) {
                    MEASURES.success(txid);
                }

                @Override
                public boolean isReady(long txid) {
                    return true;
                }

                @Override
                public void close() {}
            };
        }

        @Override
        public Emitter<Long> getEmitter(String id, Map<String, Object> conf, TopologyContext context) {
            List<String> sentences = made();
            return new Emitter<Long>() {
                @Override
                public void emitBatch(TransactionAttempt tx, Long metadata, TridentCollector collector) {
                    MEASURES.emit(tx.getTransactionId());
                    for (int number = 0; number < size; number++) {
                        collector.emit(new Values(sentences.get((int) ((metadata * size + number) % KNOWN))));
                    }
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
            return new Fields("sentence");
        }
    }

    /** A tuple for each word. */
    static final class Split extends BaseFunction {
        @Override
        public void execute(TridentTuple tuple, TridentCollector collector) {
            for (String word : tuple.getString(0).split(" ")) {
                collector.emit(new Values(word));
            }
        }
    }

    static String measured(ILocalCluster cluster, int seconds, int size, int pending) throws Exception {
        TridentTopology topology = new TridentTopology();
        topology.newStream("sentences", new Sentences(size))
            .each(new Fields("sentence"), new Split(), new Fields("word"))
            .groupBy(new Fields("word"))
            .persistentAggregate(new MemoryMapState.Factory(), new Count(), new Fields("count"));
        Config config = new Config();
        config.setMaxSpoutPending(pending);
        config.put(Config.TOPOLOGY_TRIDENT_BATCH_EMIT_INTERVAL_MILLIS, 1);
        cluster.submitTopology("words", config, topology.build());
        Thread.sleep(WARM_UP_SECONDS * 1000L);
        long started = System.nanoTime();
        MEASURES.start();
        Thread.sleep(seconds * 1000L);
        long[] latencies = MEASURES.stop();
        double rate = latencies.length / ((System.nanoTime() - started) / 1e9);
        return String.format(
            Locale.ROOT,
            "{\"transactions_per_second\": %.2f, \"sentences_per_second\": %.1f, \"p50_ms\": %.3f, \"p95_ms\": %.3f}",
            rate, rate * size, quantile(latencies, 0.5), quantile(latencies, 0.95));
    }

    static double quantile(long[] sorted, double share) {
        return sorted.length == 0 ? -1 : sorted[(int) (share * (sorted.length - 1))] / 1e6;
    }

    /** Measures and prints; the cluster isn't taken down in order, which takes it seconds. */
    public static void main(String[] arguments) throws Exception {
        int[] numbers = Arrays.stream(arguments).mapToInt(Integer::parseInt).toArray();
        System.out.println(measured(new LocalCluster(), numbers[0], numbers[1], numbers[2]));
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
