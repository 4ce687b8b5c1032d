import java.io.FileOutputStream;
import java.io.FileDescriptor;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A member of several groups with Kafka's own client: a thread for each group. The Python members say more. */
public final class GroupMember implements ConsumerRebalanceListener, Runnable {
    private static final Duration POLL = Duration.ofMillis(200);
    private static final String NEW_PROTOCOL = "consumer-";
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        "sticky", "org.apache.kafka.clients.consumer.StickyAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");
    private static final OutputStream OUT = new FileOutputStream(FileDescriptor.out);

    private static volatile boolean stopping;

    private final String group;
    private final String topic;
    private final KafkaConsumer<String, String> consumer;
    private final Map<TopicPartition, OffsetAndMetadata> uncommitted = new HashMap<>();

    private GroupMember(String bootstrap, String topic, String group, String strategy) {
        this.group = group;
        this.topic = topic;
        this.consumer = new KafkaConsumer<>(
            settings(bootstrap, group, strategy), new StringDeserializer(), new StringDeserializer());
    }

    private static Properties settings(String bootstrap, String group, String strategy) {
        var settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("fetch.max.wait.ms", "200");
        settings.put("max.poll.records", "1");
        settings.put("default.api.timeout.ms", "5000");
        settings.put("request.timeout.ms", "4000");
        settings.put("reconnect.backoff.max.ms", "500");
        if (strategy.startsWith(NEW_PROTOCOL)) {
            settings.put("group.protocol", "consumer");
            settings.put("group.remote.assignor", strategy.substring(NEW_PROTOCOL.length()));
        } else {
            settings.put("partition.assignment.strategy", ASSIGNORS.get(strategy));
            settings.put("session.timeout.ms", "10000");
            settings.put("heartbeat.interval.ms", "500");
        }
        return settings;
    }

    @Override
    public void run() {
        consumer.subscribe(List.of(topic), this);
        while (!stopping) {
            for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                say("read", "\"partition\":%d,\"offset\":%d,\"value\":\"%s\"".formatted(
                    record.partition(), record.offset(), record.value()));
                uncommitted.put(new TopicPartition(topic, record.partition()), new OffsetAndMetadata(record.offset() + 1));
            }
            commit();
        }
        consumer.close();
    }

    /** What is refused in the middle of a rebalance, or while there is no broker, comes again. */
    private void commit() {
        if (uncommitted.isEmpty()) {
            return;
        }
        try {
            consumer.commitSync(uncommitted);
            say("committed", uncommitted.entrySet().stream()
                .map(each -> "\"%d\":%d".formatted(each.getKey().partition(), each.getValue().offset()))
                .collect(Collectors.joining(",", "\"offsets\":{", "}")));
            uncommitted.clear();
        } catch (KafkaException refused) {
            say("trouble", "\"error\":\"%s\"".formatted(refused.getClass().getSimpleName()));
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        say("assigned", numbers(partitions));
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        commit();
        onPartitionsLost(partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        say("revoked", numbers(partitions));
        partitions.forEach(uncommitted::remove);
    }

    private static String numbers(Collection<TopicPartition> partitions) {
        return partitions.stream()
            .map(each -> String.valueOf(each.partition()))
            .collect(Collectors.joining(",", "\"partitions\":[", "]"));
    }

    /** Times are those of Python's time.monotonic_ns(); one write keeps the lines of threads apart. */
    private void say(String what, String facts) {
        var line = "{\"group\":\"%s\",\"what\":\"%s\",\"at_ns\":%d,%s}\n".formatted(group, what, System.nanoTime(), facts);
        try {
            OUT.write(line.getBytes(StandardCharsets.UTF_8));
        } catch (IOException gone) {
            throw new IllegalStateException(gone);
        }
    }

    public static void main(String[] arguments) throws Exception {
        JsonNode orders = new ObjectMapper().readTree(arguments[0]);
        List<Thread> threads = new ArrayList<>();
        for (Map.Entry<String, JsonNode> each : orders.get("groups").properties()) {
            threads.add(new Thread(new GroupMember(
                orders.get("bootstrap").asText(), orders.get("topic").asText(), each.getKey(), each.getValue().asText())));
        }
        Runtime.getRuntime().addShutdownHook(new Thread(() -> leave(threads)));
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
    }

    /** In SIGTERM's hook the virtual machine waits for us, and would then end with the signal's number. */
    private static void leave(List<Thread> threads) {
        stopping = true;
        try {
            for (Thread thread : threads) {
                thread.join();
            }
        } catch (InterruptedException impossible) {
            throw new IllegalStateException(impossible);
        }
        Runtime.getRuntime().halt(0);
    }
}
