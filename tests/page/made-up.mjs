// A made-up document with every benchmark, three contestants and two networks, so that each figure of the page has data.
//
// Usage:  node made-up.mjs OUT.json
// Does:   writes figures that follow from formulas and a seed; nothing was measured.
// Leaves: a document of the schema of docs/measurements/schema.md.

import { writeFileSync } from "node:fs";

let seed = 20080101;
function chance() {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return seed / 4294967296;
}
const wobble = (value, share = 0.05) => value * (1 + (chance() - 0.5) * 2 * share);
const SIZES = Array.from({ length: 21 }, (_, power) => 2 ** power);
const RUNS = 5;

function histogram(median_us, count) {
  const buckets = new Map();
  for (let index = 0; index < 400; index++) {
    const share = (index + 0.5) / 400;
    const tail = share > 0.99 ? 3 : 1;
    const ns = Math.round(median_us * 1000 * (0.8 + 0.3 * share + 0.12 * -Math.log(1 - share)) * tail);
    buckets.set(ns, (buckets.get(ns) ?? 0) + Math.round(count / 400));
  }
  return [...buckets.entries()].sort((a, b) => a[0] - b[0]);
}

const usage = (processes, cores, elapsed_s, delivered) => ({
  processes, user_s: cores * elapsed_s * 0.4, system_s: cores * elapsed_s * 0.6,
  voluntary_switches: Math.round(delivered / 50), involuntary_switches: Math.round(delivered / 500), minor_faults: 1200, major_faults: 0,
  resident_bytes: 9437184, run_queue_s: 0.05 * elapsed_s, busiest_cores: cores, cores_max: 1,
});

function run(facts) {
  const elapsed_s = facts.elapsed_s ?? 1;
  const delivered = Math.round(facts.delivered);
  return {
    elapsed_s, published: Math.round(facts.published ?? facts.delivered), delivered,
    delivered_bytes: Math.round(delivered * (facts.size_bytes ?? 0)), operations: facts.operations ?? null,
    latencies: facts.latencies ?? {}, faults: { lost: 0, duplicates: 0, reordered: 0, strays: 0 }, refused: 0,
    broker: usage(1, facts.cores ?? 0.9, elapsed_s, delivered), publishers: usage(facts.processes ?? 1, 0.7, elapsed_s, delivered),
    consumers: usage(facts.processes ?? 1, 0.6, elapsed_s, delivered),
    network: { packets: Math.round(delivered / 20) + 1, bytes: delivered * 80, retransmits: 0 },
    rates: [], invalid: facts.invalid ?? [], notes: [],
  };
}

const runs = (make) => Array.from({ length: RUNS }, (_, index) => make(index));
const point = (at, size_bytes, make) => ({ at, size_bytes, runs: runs(make) });

// How good each is: messages a second, MB/s, microseconds one way.
const CONTESTANTS = [
  { name: "harrier", transport: "tcp", product: "Harrier", version: "0.1.0", rate: 6.7e6, mb: 2600, us: 57 },
  { name: "harrier-unix", transport: "unix", product: "Harrier", version: "0.1.0", rate: 7.4e6, mb: 3300, us: 49 },
  { name: "rabbitmq", transport: "tcp", product: "RabbitMQ", version: "3.10.8", rate: 1.7e5, mb: 820, us: 82 },
];
const RELAY = { name: "relay", transport: "relay", rate: 4.4e7, mb: 2400, us: 55 };

const streamRate = (who, size, slower = 1) => 1 / (slower / who.rate + size / (who.mb * 1e6));
const series = (benchmark, target, axis, parameters, points, pace = "closed") => ({ benchmark, target, pace, parameters, axis, points });

function stream(benchmark, who, parameters, slower = 1, factor = 1, processes = 1) {
  return series(benchmark, who.name, "size_bytes", parameters, SIZES.map((size) => point(size, size, (index) => {
    const published = wobble(streamRate(who, size, slower));
    const invalid = benchmark === "de-spsc" && who.name === "harrier" && size === 1 && index === 1
      ? ["publisher 1 used 0.91 of 1.00 processors: it is the bottleneck"] : [];
    return run({ size_bytes: size, published, delivered: published * factor, invalid, processes, cores: Math.min(8, 0.6 + processes * 0.3) });
  })));
}

function pingPong(benchmark, who, parameters) {
  return series(benchmark, who.name, "size_bytes", parameters, SIZES.map((size) => point(size, size, () => {
    const one_way = wobble(who.us + size / who.mb);
    return run({ size_bytes: size, delivered: 1e6 / (2 * one_way), latencies: { round_trip: histogram(2 * one_way, 10000) } });
  })));
}

const all = [];
for (const who of CONTESTANTS) {
  all.push(pingPong("de-pp", who, {}));
  all.push(stream("de-spsc", who, { pairs: "1" }));
  for (const pairs of [1, 2, 4, 8]) all.push(stream("de-mpmc", who, { pairs: String(pairs) }, pairs < 4 ? 1 / pairs : pairs / 8, 1, pairs));
  for (const consumers of [1, 2, 4, 8, 16, 32]) all.push(stream("fe-spmc", who, { consumers: String(consumers) }, consumers, consumers, consumers));
  for (const patterns of [1, 4, 16, 64, 256, 1024]) all.push(stream("te-spsc", who, { patterns: String(patterns) }, 1 + Math.log2(patterns) / 20));
  all.push(stream("confirm", who, { window: "1000" }, 1.3));
  for (const one of all.at(-1).points) for (const made of one.runs) made.latencies.confirm = histogram(900, 4000);
  for (const what of ["connection", "channel", "queue"]) {
    all.push(series("churn", who.name, "workers", { what }, [point(1, 0, () => run({ delivered: 0, published: 0, operations: Math.round(wobble(who.rate / 500)), latencies: { open: histogram(who.us, 2000), close: histogram(who.us / 2, 2000) } }))]));
  }
  all.push(series("open", who.name, "rate_per_s", { size_bytes: "64" }, [1e3, 1e4, 5e4, 1e5, 5e5].filter((rate) => rate < who.rate).map((rate) => point(rate, 64, () => {
    const busy = rate / who.rate;
    return run({ size_bytes: 64, delivered: rate * 5, elapsed_s: 5, latencies: { delivery: histogram(wobble(who.us / (1 - Math.min(busy, 0.95))), 40000) } });
  })), "open"));
  const groups = { "group 0": "all", "group 1": "fast subscribers", "group 2": "slow subscribers" };
  all.push(series("workload market-data", who.name, "group", groups, [3, 1, 40].map((slower, group) => point(group, 180, () => {
    return run({ size_bytes: 180, delivered: 2e6, elapsed_s: 5, latencies: { delivery: histogram(wobble(who.us * slower), 400000) } });
  })), "open"));
}
all.push(pingPong("sockets", RELAY, { shape: "ping-pong" }), stream("sockets", RELAY, { shape: "stream" }));

const facts = (who) => ({
  name: who.name, transport: who.transport, product: who.product ?? null, version: who.version ?? null,
  url: who.transport === "tcp" ? "amqp://127.0.0.1:5672" : null, capabilities: [], tcp: who.transport === "tcp" ? { nodelay: "true" } : {},
});
writeFileSync(process.argv[2], JSON.stringify({
  schema: "harrier-bench/1.0", command: "harrier bench suite --full --against amqp://127.0.0.1:5673 (made up: nothing was measured)",
  began: "2026-01-31T12:00:00Z", ended: "2026-01-31T12:29:30Z", commit: "0000000",
  environment: { date: "2026-01-31", processor: "Made-up CPU", processors: 8, memory_mib: 16384, kernel: "6.1.0", congestion_control: "cubic", version: "0.1.0", optimised: true },
  placement: "broker=0-3,publisher=4,consumer=5", options: { runs: "5", sizes: "1:1M" },
  targets: [...CONTESTANTS.map(facts), facts(RELAY)], series: all, cut_short: null,
}) + "\n");
