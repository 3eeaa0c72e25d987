// What the watch hub alone costs: 10,000 watchers on 100 streams, all on one key; puts published one at a time and in
// batches; watchers of distinct keys and of distinct prefixes. Prints microseconds of CPU per (watcher, event), and bytes per
// idle watcher. The yardstick is issue 3's fan-out: etcd spends 3.1 s of CPU per million events, all included.
//   watch_bench [seconds per row]
#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <thread>

#include "storage/engine/memory_engine.h"
#include "storage/watch/watch_hub.h"

using namespace rallypoint;
using namespace rallypoint::watch;

namespace {

double seconds_per_row = 1;

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}
size_t heap_bytes() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

class NoLeases final : public mvcc::LeaseBook {
 public:
  [[nodiscard]] bool exists(int64_t) const override { return false; }
  void attach(int64_t, std::string_view) override {}
  void detach(int64_t, std::string_view) override {}
};

struct Bench {
  std::shared_ptr<storage::MemoryEngine> engine = std::make_shared<storage::MemoryEngine>();
  NoLeases leases;
  std::unique_ptr<mvcc::Keyspace> keyspace;
  WatchHub hub{{}};
  mvcc::HeaderInfo header{0x1234567890abcdef, 0xfedcba0987654321, 7};
  Instant now;

  Bench() {
    auto opened = mvcc::Keyspace::open(engine, {}, leases);
    keyspace = std::move(*opened);
  }
  void watch(StreamId stream, std::string key, std::string range_end = "") {
    etcdserverpb::WatchRequest request;
    request.mutable_create_request()->set_key(std::move(key));
    request.mutable_create_request()->set_range_end(std::move(range_end));
    hub.handle(stream, request, *keyspace, header, now);
  }
  void put(std::string key, size_t value_bytes) {
    etcdserverpb::PutRequest request;
    request.set_key(std::move(key));
    request.set_value(std::string(value_bytes, 'v'));
    if (!keyspace->put(request, nullptr).is_ok()) std::abort();
  }
  std::vector<mvcc::Event> take_events() {
    storage::WriteBatch batch;
    keyspace->collect_changes(batch);
    if (!engine->write(batch).is_ok()) std::abort();
    keyspace->changes_written();
    return keyspace->take_events();
  }
};

/// `batch` puts are published together; `key_of` says where the i-th goes.
void fan_out(const char* name, Bench& bench, size_t batch, const std::function<std::string(size_t)>& key_of) {
  double spent = 0;
  size_t parts = 0, events = 0, puts = 0;
  bench.hub.take_output();
  while (spent < seconds_per_row) {
    for (size_t i = 0; i < batch; ++i) bench.put(key_of(puts++), 256);
    const std::vector<mvcc::Event> published = bench.take_events();
    const double before = cpu_seconds();
    bench.hub.publish(published, *bench.keyspace, bench.header, bench.now);
    std::vector<StreamOutput> output = bench.hub.take_output();
    for (const StreamOutput& one : output) parts += one.parts.size();
    output.clear();
    spent += cpu_seconds() - before;
    events += batch;
  }
  std::printf("%-46s %8.4f us per part, %8.3f us per event, %9.0f parts per event\n", name, parts == 0 ? 0.0 : spent / static_cast<double>(parts) * 1e6,
              spent / static_cast<double>(events) * 1e6, static_cast<double>(parts) / static_cast<double>(events));
}

template <class KeyOf>
void memory(const char* name, int64_t watchers, KeyOf&& key_of, bool ranges) {
  Bench bench;
  const size_t before = heap_bytes();
  for (int64_t i = 0; i < watchers; ++i) {
    const std::string key = key_of(i);
    bench.watch(1 + static_cast<StreamId>(i) % 100, key, ranges ? key + "~" : "");
    if (i % 1000 == 0) bench.hub.take_output();
  }
  bench.hub.take_output();
  malloc_trim(0);
  std::printf("%-46s %8.1f bytes per idle watcher\n", name, static_cast<double>(heap_bytes() - before) / static_cast<double>(watchers));
}

}  // namespace

int main(int argc, char** argv) {
  std::thread([] {}).join();  // as in the server: from the first thread on, reference counts are atomic
  if (argc > 1) seconds_per_row = std::atof(argv[1]);
  const auto numbered = [](size_t i) { return "/registry/pods/default/pod-" + std::to_string(1'000'000 + i); };
  {
    Bench bench;
    for (StreamId i = 0; i < 10'000; ++i) bench.watch(1 + i % 100, "key");
    fan_out("10,000 watchers, 100 streams, one key", bench, 1, [](size_t) { return "key"; });
    fan_out("the same, 10 puts at a time", bench, 10, [](size_t) { return "key"; });
    fan_out("the same, nobody watches what is put", bench, 10, [](size_t) { return "other"; });
  }
  {
    Bench bench;
    for (size_t i = 0; i < 10'000; ++i) bench.watch(1 + i % 100, numbered(i));
    fan_out("10,000 watchers of a key each", bench, 1, [&](size_t i) { return numbered(i * 7919 % 10'000); });
    fan_out("the same, 64 puts at a time", bench, 64, [&](size_t i) { return numbered(i * 7919 % 10'000); });
  }
  {
    Bench bench;
    bench.watch(1, std::string(1, '\0'), std::string(1, '\0'));
    for (size_t i = 0; i < 10'000; ++i) bench.watch(1 + i % 100, numbered(i) + "/", numbered(i) + "0");
    fan_out("10,000 prefixes, one watcher of everything", bench, 1, [&](size_t i) { return numbered(i * 7919 % 10'000) + "/x"; });
  }
  memory("200,000 watchers of one key", 200'000, [](int64_t) { return std::string("key"); }, false);
  memory("200,000 watchers of a key of 34 bytes each", 200'000, [&](int64_t i) { return numbered(static_cast<size_t>(i)); }, false);
  memory("200,000 watchers of a range each", 200'000, [&](int64_t i) { return numbered(static_cast<size_t>(i)); }, true);
}
