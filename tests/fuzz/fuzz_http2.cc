// One gRPC connection without its socket, under frames that are mostly right: calls with odd headers, messages cut and
// mixed, resets and window updates at any time, answers of any size, time going on, the client reading or not. What
// comes out must be whole frames, and when nothing is open nothing may be kept.
#include <algorithm>
#include <deque>
#include <map>
#include <optional>

#include "raft/base/check.h"
#include "server/api/v3/services.h"
#include "server/rpc/grpc_core.h"
#include "tests/fuzz/choose.h"

using namespace rallypoint;
using namespace rallypoint::server;

namespace {

enum Frame : uint8_t { kData = 0, kHeaders = 1, kPriority = 2, kReset = 3, kSettings = 4, kPing = 6, kGoAway = 7, kWindowUpdate = 8, kContinuation = 9 };

std::string number32(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8), static_cast<char>(value)};
}
std::string frame(uint8_t type, uint8_t flags, uint32_t stream, std::string_view payload) {
  return number32(static_cast<uint32_t>(payload.size()) << 8 | type) + static_cast<char>(flags) + number32(stream) + std::string(payload);
}
std::string literal(std::string_view name, std::string_view value) {
  std::string bytes(1, '\0');
  for (std::string_view text : {name, value.substr(0, 126)}) bytes += static_cast<char>(text.size()), bytes += text;
  return bytes;
}

const RpcTable& table() {
  static const RpcTable* const all = [] {
    auto* made = new RpcTable;
    register_v3_services(*made, {});
    return made;
  }();
  return *all;
}

class Connection final : public GrpcCore::Host, public Backend {
 public:
  explicit Connection(Choose& choose) : choose_(choose), core_(*this, table(), limits()) {
    receive("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(kSettings, 0, 0, choose_.often() ? "" : std::string("\0\x04", 2) + number32(static_cast<uint32_t>(choose_.number()))));
  }
  ~Connection() override {
    core_.lost();
    RALLY_CHECK(core_.is_over());
  }

  void run() {
    for (int steps = 0; choose_.more() && steps < 500; ++steps) {
      step();
      RALLY_CHECK(core_.calls() != 0 || core_.held_bytes() == 0, "bytes kept for nobody", core_.held_bytes());
      RALLY_CHECK(core_.timers() <= 64 + 3 * (core_.calls() + 64), "timers", core_.timers());
    }
    for (int i = 0; i < 3; ++i) produce();
  }

 private:
  static GrpcLimits limits() {
    GrpcLimits small;
    small.message_bytes_max = 4000;
    small.streams_max = 20;
    small.header_bytes_max = 2000;
    small.kept_headers_bytes_max = 5000;
    small.receiving_bytes_max = 20'000;
    small.waiting_bytes_max = 30'000;
    small.output_bytes_max = 10'000;
    return small;
  }

  void step() {
    switch (choose_.below(16)) {
      case 0: case 1: return headers();
      case 2: case 3: return data();
      case 4: return receive(frame(kReset, 0, stream(), number32(8)));
      case 5: return receive(frame(kWindowUpdate, 0, choose_.often() ? stream() : 0, number32(static_cast<uint32_t>(choose_.number()))));
      case 6: return receive(frame(kSettings, choose_.below(2), 0, choose_.raw(6 * choose_.below(3))));
      case 7: return receive(frame(kPing, choose_.below(2), 0, "12345678"));
      case 8: return receive(frame(choose_.below(12), choose_.byte(), stream(), choose_.raw(choose_.below(40))));
      case 9: return receive(choose_.raw(choose_.below(60)));
      case 10: case 11: return answer();
      case 12: case 13: return produce();
      case 14:
        now_ = now_ + Duration::millis(1 + 10 * static_cast<int64_t>(choose_.byte()));
        if (armed_ && *armed_ <= now_) armed_.reset(), core_.on_time(now_);
        return;
      default:
        if (choose_.seldom()) core_.stop();
    }
  }
  uint32_t stream() { return choose_.often() && next_stream_ > 1 ? 1 + 2 * static_cast<uint32_t>(choose_.below(next_stream_ / 2)) : next_stream_; }

  void headers() {
    const auto& methods = table().methods();
    std::string block = literal(":method", choose_.seldom() ? "GET" : "POST") + literal(":scheme", "http") + literal(":authority", "a") +
                        literal(":path", choose_.seldom() ? "/none/such" : methods[choose_.below(methods.size())]->path) +
                        literal("content-type", choose_.seldom() ? "text/plain" : "application/grpc");
    constexpr std::string_view kTimeouts[] = {"1m", "100m", "1S", "0S", "99999999H", "x"};
    if (choose_.often()) block += literal("grpc-timeout", kTimeouts[choose_.below(std::size(kTimeouts))]);
    if (choose_.seldom()) block += literal("hasleader", "true");
    for (size_t i = choose_.below(4); i > 0; --i) block += literal("x-field", std::string(choose_.below(127), 'v'));
    const uint32_t id = choose_.seldom() ? stream() : next_stream_;
    if (id == next_stream_) next_stream_ += 2;
    const auto end = static_cast<uint8_t>(choose_.seldom() ? 1 : 0);
    if (!choose_.seldom()) return receive(frame(kHeaders, 4 | end, id, block));
    const size_t cut = choose_.below(block.size());
    receive(frame(kHeaders, end, id, block.substr(0, cut)));
    receive(frame(kContinuation, choose_.seldom() ? 0 : 4, id, block.substr(cut)));
  }
  void data() {
    // "\n\1a" is a request with the key "a", and a lease request that can be read all the same.
    const std::string body = choose_.often() ? "\n\1a" : std::string(choose_.below(20) * 100, 'x');
    std::string message = choose_.seldom() ? std::string("\1", 1) : std::string("\0", 1);
    message += number32(static_cast<uint32_t>(choose_.seldom() ? choose_.number() : static_cast<int64_t>(body.size()))) + body;
    if (choose_.seldom()) message += message;
    if (!choose_.often()) message.resize(choose_.below(message.size()));
    receive(frame(kData, choose_.often() ? 1 : 0, stream(), message));
  }

  void receive(std::string_view bytes) {
    if (over_) return;
    over_ = !core_.receive(bytes);
  }

  void answer() {
    if (open_.empty()) return;
    auto it = open_.begin();
    std::advance(it, choose_.below(open_.size()));
    Reply reply;
    reply.token = it->first;
    reply.final = !it->second || choose_.often();
    switch (choose_.below(4)) {
      case 0: reply.body = Status::unavailable("etcdserver: request timed out"); break;
      case 1: reply.body = Bytes(std::string(choose_.below(256) * 100, 'r')); break;
      case 2: reply.body = WatchParts{{{choose_.number(), Bytes(std::string(choose_.below(256) * 10, 'w'))}}}; break;
      default: reply.body = Bytes(); break;
    }
    // A stream's handler takes as many as come, all others one that ends it.
    if (!it->second || reply.final || std::holds_alternative<Status>(reply.body)) open_.erase(it);
    core_.on_reply(std::move(reply));
  }

  void produce() {
    std::string bytes;
    core_.produce(bytes);
    RALLY_CHECK(bytes.size() <= limits().output_bytes_max + 16'384 + 9, "output", bytes.size());
    out_ += bytes;
    size_t at = 0;
    while (out_.size() - at >= 9) {
      const auto* head = reinterpret_cast<const uint8_t*>(out_.data() + at);
      const size_t size = size_t{head[0]} << 16 | size_t{head[1]} << 8 | head[2];
      RALLY_CHECK(size <= 16'384 && head[3] <= 9, "a frame of type", head[3]);
      if (out_.size() - at < 9 + size) break;
      at += 9 + size;
    }
    out_.erase(0, at);
  }

  // GrpcCore::Host
  ReplySink* sink() override { return nullptr; }
  uint64_t make_token() override { return ++token_; }
  void submit(Request&& request) override {
    std::visit([&](const auto& each) {
      using R = std::decay_t<decltype(each)>;
      if constexpr (std::is_same_v<R, CancelCall>) open_.erase(each.call.token);
      else open_[each.call.token] = std::is_same_v<R, V3WatchMessage> || std::is_same_v<R, V3Snapshot> || std::is_same_v<R, V3More>;
    }, request);
  }
  Backend& backend() override { return *this; }
  Instant now() const override { return now_; }
  void arm(Instant at) override { armed_ = at; }
  // Backend
  void submit(std::vector<Request>&&) override {}
  ClusterView cluster_view() const override {
    ClusterView view;
    view.member_id = view.leader_id = 1;
    view.members = {{1, "n1", {"http://a:1"}, {"http://a:2"}}};
    return view;
  }
  uint64_t cluster_id() const override { return 1; }

  Choose& choose_;
  Instant now_{1'000'000};
  std::optional<Instant> armed_;
  std::map<uint64_t, bool> open_;  // calls that the node has; whether it answers them in parts
  uint64_t token_ = 0;
  uint32_t next_stream_ = 1;
  std::string out_;
  bool over_ = false;
  GrpcCore core_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Choose choose(data, size);
  Connection(choose).run();
  return 0;
}
