#include "tests/bench/v3_works.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "raft/base/check.h"
#include "storage/etcd_api/kv.pb.h"
#include "storage/etcd_api/rpc.pb.h"

namespace rallypoint::bench {
namespace {

using namespace std::chrono_literals;  // NOLINT

constexpr auto kPatience = 30s;            // without any event: the server is stuck
constexpr uint64_t kFailuresMax = 1000;    // more, and the figures would mean nothing

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "v3_bench: %s\n", why.c_str());
  std::exit(1);
}

void wait_until(Client& client, const std::function<bool()>& condition, const char* what) {
  while (!condition()) {
    if (!client.turn(kPatience)) give_up(std::string("nothing came for 30 s while waiting for ") + what);
  }
}

std::string key_at(uint64_t number) {  // 16 bytes
  char key[32];
  std::snprintf(key, sizeof key, "bench/%010lu", number);
  return key;
}

template <typename Message>
Message parsed(std::string_view bytes) {
  Message message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) give_up("an answer that is no " + message.GetTypeName());
  return message;
}

// ---- unary works: a slot has one call under way -----------------------------------------------------------------

class UnaryWork {
 public:
  explicit UnaryWork(const Plan& plan) : plan_(plan), random_(plan.seed), value_(plan.value_bytes, 'x') {}
  virtual ~UnaryWork() = default;
  virtual std::string path() const = 0;
  /// The slot's next request; null = there is no more to do.
  virtual const google::protobuf::MessageLite* next(size_t slot) = 0;
  /// What is wrong with the answer; empty = nothing.
  virtual std::string check(size_t slot, std::string_view answer) = 0;

 protected:
  std::string random_key() { return key_at(random_() % plan_.keys); }
  const Plan& plan_;
  std::mt19937_64 random_;
  std::string value_;
};

class PutWork : public UnaryWork {
 public:
  explicit PutWork(const Plan& plan, bool fill) : UnaryWork(plan), fill_(fill) { request_.set_value(value_); }
  std::string path() const override { return "/etcdserverpb.KV/Put"; }
  const google::protobuf::MessageLite* next(size_t) override {
    if (fill_ && number_ == plan_.keys) return nullptr;
    request_.set_key(fill_ ? key_at(number_++) : random_key());
    return &request_;
  }
  std::string check(size_t, std::string_view answer) override {
    return parsed<etcdserverpb::PutResponse>(answer).header().revision() > 1 ? "" : "a put without a revision";
  }

 private:
  const bool fill_;
  uint64_t number_ = 0;
  etcdserverpb::PutRequest request_;
};

class RangeWork : public UnaryWork {
 public:
  RangeWork(const Plan& plan, bool serializable) : UnaryWork(plan) { request_.set_serializable(serializable); }
  std::string path() const override { return "/etcdserverpb.KV/Range"; }
  const google::protobuf::MessageLite* next(size_t) override {
    request_.set_key(random_key());
    return &request_;
  }
  std::string check(size_t, std::string_view answer) override {
    const auto range = parsed<etcdserverpb::RangeResponse>(answer);
    return range.kvs_size() == 1 && range.kvs(0).value().size() == plan_.value_bytes ? "" : "a range without its key";
  }

 private:
  etcdserverpb::RangeRequest request_;
};

/// Compare-and-set: each slot has a key of its own and knows its last revision, so every compare holds.
class TxnWork : public UnaryWork {
 public:
  explicit TxnWork(const Plan& plan) : UnaryWork(plan), revisions_(plan.outstanding, 0) {
    auto* compare = request_.add_compare();
    compare->set_target(etcdserverpb::Compare::MOD);
    compare->set_result(etcdserverpb::Compare::EQUAL);
    request_.add_success()->mutable_request_put()->set_value(value_);
    request_.add_failure()->mutable_request_range();
  }
  std::string path() const override { return "/etcdserverpb.KV/Txn"; }
  const google::protobuf::MessageLite* next(size_t slot) override {
    const std::string key = "cas/" + std::to_string(100'000'000'000 + slot);  // 16 bytes
    auto* compare = request_.mutable_compare(0);
    compare->set_key(key);
    compare->set_mod_revision(revisions_[slot]);
    request_.mutable_success(0)->mutable_request_put()->set_key(key);
    request_.mutable_failure(0)->mutable_request_range()->set_key(key);
    return &request_;
  }
  std::string check(size_t slot, std::string_view answer) override {
    const auto txn = parsed<etcdserverpb::TxnResponse>(answer);
    if (txn.succeeded()) {
      revisions_[slot] = txn.header().revision();
      return "";
    }
    // Of an earlier run, or of a transaction whose answer was lost.
    const auto& found = txn.responses(0).response_range();
    revisions_[slot] = found.kvs_size() == 0 ? 0 : found.kvs(0).mod_revision();
    return first_seen_.insert(slot).second ? "" : "a compare that lost";
  }

 private:
  std::vector<int64_t> revisions_;
  std::set<size_t> first_seen_;
  etcdserverpb::TxnRequest request_;
};

class UnaryLoop {
 public:
  UnaryLoop(UnaryWork& work, Client& client, const Plan& plan, Meter& meter)
      : work_(work), path_(work.path()), client_(client), plan_(plan), meter_(meter) {
    for (size_t i = 0; i < plan.outstanding; ++i) slots_.push_back(std::make_unique<Slot>(*this, i));
  }
  /// Until the work has no more to do.
  void run_to_end() {
    meter_.open();
    for (auto& slot : slots_) begin(*slot);
    wait_until(client_, [this] { return running_ == 0; }, "answers");
    meter_.close();
  }
  void run_for_time() {
    const auto opens = Clock::now() + plan_.warm_up;
    for (auto& slot : slots_) begin(*slot);
    wait_until(client_, [this, opens] { return now_ >= opens; }, "the first answers");
    meter_.open();
    const auto closes = Clock::now() + plan_.length;
    wait_until(client_, [this, closes] { return now_ >= closes; }, "answers");
    meter_.close();
    stopping_ = true;
    wait_until(client_, [this] { return running_ == 0; }, "the last answers");
  }

 private:
  struct Slot final : Receiver {
    Slot(UnaryLoop& loop, size_t number) : loop(loop), number(number) {}
    void on_message(std::string_view answer) override { loop.end(*this, loop.work_.check(number, answer)); }
    void on_failure(const std::string& why) override { loop.end(*this, why.empty() ? "an error without a text" : why); }
    UnaryLoop& loop;
    const size_t number;
    Clock::time_point began;
  };

  void begin(Slot& slot) {
    const auto* request = stopping_ ? nullptr : work_.next(slot.number);
    if (request == nullptr) return;
    ++running_;
    slot.began = Clock::now();
    client_.call(slot.number % plan_.connections, path_, *request, slot);
  }
  void end(Slot& slot, const std::string& why) {
    --running_;
    now_ = Clock::now();
    if (why.empty()) {
      meter_.done(slot.began, now_);
    } else {
      meter_.failed(why);
      if (meter_.failures() > kFailuresMax) give_up("too many failures");
    }
    begin(slot);
  }

  UnaryWork& work_;
  const std::string path_;
  Client& client_;
  const Plan& plan_;
  Meter& meter_;
  std::vector<std::unique_ptr<Slot>> slots_;
  size_t running_ = 0;
  bool stopping_ = false;
  Clock::time_point now_{};
};

/// One call, and its answer parsed.
template <typename Answer>
Answer call_once(Client& client, const std::string& path, const google::protobuf::MessageLite& request) {
  struct Once final : Receiver {
    void on_message(std::string_view message) override {
      answer = parsed<Answer>(message);
      done = true;
    }
    void on_failure(const std::string& why) override { give_up("failed: " + why); }
    Answer answer;
    bool done = false;
  } once;
  client.call(0, path, request, once);
  wait_until(client, [&once] { return once.done; }, "one answer");
  return once.answer;
}

// ---- watches ----------------------------------------------------------------------------------------------------

/// Streams with watchers on them; counts what they confirm and see.
class Watchers {
 public:
  Watchers(Client& client, const Plan& plan) : client_(client), plan_(plan) {}

  /// `key(i)`: what watcher i watches. Returns when all are confirmed.
  void open(const std::function<std::string(size_t)>& key) {
    for (size_t i = 0; i < plan_.streams; ++i) {
      receivers_.push_back(std::make_unique<OneStream>(*this));
      streams_.push_back(client_.open(i % plan_.connections, "/etcdserverpb.Watch/Watch", *receivers_.back()));
    }
    for (size_t i = 0; i < plan_.watchers; ++i) {
      etcdserverpb::WatchRequest request;
      request.mutable_create_request()->set_key(key(i));
      streams_[i % streams_.size()]->send(request);
    }
    wait_until(client_, [this] { return created_ == plan_.watchers; }, "watchers to be confirmed");
  }
  [[nodiscard]] uint64_t events() const { return events_; }

 private:
  struct OneStream final : Receiver {
    explicit OneStream(Watchers& watchers) : watchers(watchers) {}
    void on_message(std::string_view message) override { watchers.saw(message); }
    void on_failure(const std::string& why) override { give_up("a watch: " + why); }
    Watchers& watchers;
  };
  void saw(std::string_view message) {
    response_.ParseFromArray(message.data(), static_cast<int>(message.size()));
    if (response_.canceled()) give_up("a watcher was cancelled: " + response_.cancel_reason());
    created_ += response_.created() ? 1 : 0;
    events_ += static_cast<uint64_t>(response_.events_size());
  }

  Client& client_;
  const Plan& plan_;
  std::vector<std::unique_ptr<OneStream>> receivers_;
  std::vector<std::unique_ptr<Stream>> streams_;
  etcdserverpb::WatchResponse response_;
  uint64_t created_ = 0;
  uint64_t events_ = 0;
};

// ---- keepalives -------------------------------------------------------------------------------------------------

/// One stream of keepalives: answers come in the order of the requests.
class KeepaliveStream final : public Receiver {
 public:
  KeepaliveStream(const std::vector<int64_t>& leases, size_t first, Meter& meter) : leases_(leases), next_(first), meter_(meter) {}
  void attach(std::unique_ptr<Stream> stream) { stream_ = std::move(stream); }
  void begin() {
    etcdserverpb::LeaseKeepAliveRequest request;
    request.set_id(leases_[next_++ % leases_.size()]);
    began_.push_back(Clock::now());
    stream_->send(request);
  }
  void on_message(std::string_view message) override {
    now_ = Clock::now();
    if (parsed<etcdserverpb::LeaseKeepAliveResponse>(message).ttl() > 0) {
      meter_.done(began_.front(), now_);
    } else {
      meter_.failed("a lease that is gone");
    }
    began_.pop_front();
    if (!stopping_) begin();
  }
  void on_failure(const std::string& why) override { give_up("keepalive: " + why); }
  void stop() { stopping_ = true; }
  [[nodiscard]] bool idle() const { return began_.empty(); }

 private:
  const std::vector<int64_t>& leases_;
  size_t next_;
  Meter& meter_;
  std::unique_ptr<Stream> stream_;
  std::deque<Clock::time_point> began_;
  Clock::time_point now_{};
  bool stopping_ = false;
};

}  // namespace

bool run_unary(std::string_view name, Client& client, const Plan& plan, Meter& meter) {
  std::unique_ptr<UnaryWork> work;
  if (name == "put" || name == "fill") work = std::make_unique<PutWork>(plan, name == "fill");
  if (name == "range" || name == "range-serializable") work = std::make_unique<RangeWork>(plan, name == "range-serializable");
  if (name == "txn") work = std::make_unique<TxnWork>(plan);
  if (!work) return false;
  UnaryLoop loop(*work, client, plan, meter);
  name == "fill" ? loop.run_to_end() : loop.run_for_time();
  return true;
}

void run_watch(Client& client, const Plan& plan, Meter& meter) {
  Watchers watchers(client, plan);
  watchers.open([](size_t) { return key_at(0); });
  etcdserverpb::PutRequest put;
  put.set_key(key_at(0));
  put.set_value(std::string(plan.value_bytes, 'x'));
  uint64_t expected = 0;
  const auto run_for = [&](std::chrono::milliseconds time) {
    for (const auto end = Clock::now() + time; Clock::now() < end;) {
      const auto began = Clock::now();
      expected += plan.watchers;
      call_once<etcdserverpb::PutResponse>(client, "/etcdserverpb.KV/Put", put);
      wait_until(client, [&] { return watchers.events() >= expected; }, "events");
      meter.done(began, Clock::now(), plan.watchers);
    }
  };
  run_for(plan.warm_up);
  meter.open();
  run_for(plan.length);
  meter.close();
  if (watchers.events() != expected) meter.failed("an event was seen twice");
}

void run_keepalive(Client& client, const Plan& plan, Meter& meter) {
  std::vector<int64_t> leases;
  etcdserverpb::LeaseGrantRequest grant;
  grant.set_ttl(600);
  for (size_t i = 0; i < plan.leases; ++i) {
    leases.push_back(call_once<etcdserverpb::LeaseGrantResponse>(client, "/etcdserverpb.Lease/LeaseGrant", grant).id());
  }
  std::vector<std::unique_ptr<KeepaliveStream>> streams;
  for (size_t i = 0; i < plan.streams; ++i) {
    streams.push_back(std::make_unique<KeepaliveStream>(leases, i * leases.size() / plan.streams, meter));
    streams.back()->attach(client.open(i % plan.connections, "/etcdserverpb.Lease/LeaseKeepAlive", *streams.back()));
  }
  for (size_t i = 0; i < plan.outstanding; ++i) streams[i % streams.size()]->begin();
  const auto run_for = [&](std::chrono::milliseconds time) {
    const auto end = Clock::now() + time;
    wait_until(client, [end] { return Clock::now() >= end; }, "keepalives");
  };
  run_for(plan.warm_up);
  meter.open();
  run_for(plan.length);
  meter.close();
  for (auto& stream : streams) stream->stop();
  wait_until(client, [&streams] { return std::all_of(streams.begin(), streams.end(), [](auto& stream) { return stream->idle(); }); },
             "the last keepalives");
}

void run_idle_watchers(Client& client, const Plan& plan, pid_t server) {
  const uint64_t before = resident_bytes(server);
  Watchers watchers(client, plan);
  watchers.open([](size_t i) { return "watched/" + std::to_string(10'000'000 + i); });
  const uint64_t after = resident_bytes(server);
  std::printf("FIGURES {\"count\": %zu, \"bytes_before\": %lu, \"bytes_after\": %lu}\n", plan.watchers, before, after);
}

}  // namespace rallypoint::bench
