// One connection without its socket, on a clock that the test moves: deadlines to the microsecond, and what is kept for
// calls that have ended.
#include "server/rpc/grpc_core.h"

#include "server/api/v3/services.h"
#include "tests/server/http2_fixture.h"

namespace rallypoint::server {
namespace {

class GrpcCoreAlone : public testing::Test, public GrpcCore::Host {
 protected:
  GrpcCoreAlone() {
    register_v3_services(table_, {});
    core_ = std::make_unique<GrpcCore>(*this, table_, GrpcLimits());
    core_->receive(std::string(h2::kPreface) + h2::frame(h2::kSettings, 0, 0) + h2::frame(h2::kWindowUpdate, 0, 0, h2::number32(1 << 30)));
  }
  ~GrpcCoreAlone() override { core_->lost(); }

  /// A field that no table remembers.
  static std::string literal(std::string_view name, std::string_view value) {
    std::string bytes(1, '\0');
    for (std::string_view text : {name, value}) bytes += static_cast<char>(text.size()), bytes += text;
    return bytes;
  }
  int32_t call(std::string_view path, const google::protobuf::MessageLite& request, std::string_view timeout) {
    const int32_t stream = next_stream_;
    next_stream_ += 2;
    std::string block = literal(":method", "POST") + literal(":scheme", "http") + literal(":authority", "a") + literal(":path", path) + literal("content-type", "application/grpc");
    if (!timeout.empty()) block += literal("grpc-timeout", timeout);
    core_->receive(h2::frame(h2::kHeaders, h2::kEndHeaders, stream, block) + h2::frame(h2::kData, h2::kEndStream, stream, h2::message(request.SerializeAsString())));
    return stream;
  }
  static etcdserverpb::RangeRequest range() {
    etcdserverpb::RangeRequest request;
    request.set_key("a");
    return request;
  }
  void answer_all() {
    for (Request& request : std::exchange(requests, {})) {
      if (!std::holds_alternative<V3Read>(request)) continue;
      Reply reply;
      reply.token = std::get<V3Read>(request).call.token;
      reply.body = Bytes();
      core_->on_reply(std::move(reply));
    }
  }
  std::string output() {
    std::string all;
    for (std::string part; core_->produce(part), !part.empty(); part.clear()) all += part;
    return all;
  }

  std::unique_ptr<GrpcCore> core_;
  std::vector<Request> requests;
  Instant clock{1'000'000};
  std::optional<Instant> armed;

 private:
  ReplySink* sink() override { return nullptr; }
  uint64_t make_token() override { return ++token_; }
  void submit(Request&& request) override { requests.push_back(std::move(request)); }
  Backend& backend() override { return backend_; }
  Instant now() const override { return clock; }
  void arm(Instant at) override { armed = at; }

  FakeBackend backend_;
  RpcTable table_;
  uint64_t token_ = 0;
  int32_t next_stream_ = 1;
};

TEST_F(GrpcCoreAlone, ADeadlineIsExact) {
  call(kRangePath, range(), "1500u");
  call(kRangePath, range(), "1m");
  output();
  EXPECT_EQ(armed, clock + Duration::micros(1000)) << "the earlier one";
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(std::get<V3Read>(requests[0]).timeout, Duration::micros(1500));
  clock = clock + Duration::micros(1499);
  core_->on_time(clock);
  EXPECT_THAT(output(), testing::Not(testing::IsEmpty()));
  EXPECT_EQ(core_->calls(), 1u);
  clock = clock + Duration::micros(1);
  core_->on_time(clock);
  EXPECT_THAT(output(), testing::Not(testing::IsEmpty()));
  EXPECT_EQ(core_->calls(), 0u);
}

TEST_F(GrpcCoreAlone, DeadlinesOfAnsweredCallsAreForgotten) {
  for (int i = 0; i < 100'000; ++i) {
    call(kRangePath, range(), "99999999H");
    ASSERT_EQ(requests.size(), 1u);
    answer_all();
    output();
    ASSERT_LE(core_->timers(), 1000u) << "after " << i << " calls";
  }
  EXPECT_EQ(core_->calls(), 0u);
}

TEST_F(GrpcCoreAlone, DeadlinesOfOpenCallsAreNot) {
  for (int i = 0; i < 2000; ++i) call(kRangePath, range(), "5S");
  output();
  EXPECT_EQ(core_->calls(), 2000u);
  clock = clock + Duration::seconds(5);
  core_->on_time(clock);
  output();
  EXPECT_EQ(core_->calls(), 0u);
}

TEST_F(GrpcCoreAlone, AnEarlierDeadlineThanTheOneThatIsArmedIsArmed) {
  call(kRangePath, range(), "10S");
  call(kRangePath, range(), "1S");
  EXPECT_EQ(armed, clock + Duration::seconds(1));
  armed.reset();
  call(kRangePath, range(), "5S");
  EXPECT_FALSE(armed);
  core_->on_time(clock = clock + Duration::seconds(1));
  EXPECT_EQ(armed, clock + Duration::seconds(4)) << "the next one after that";
}

TEST_F(GrpcCoreAlone, ALostClientLeavesNothingBehind) {
  call(kRangePath, range(), "");
  core_->lost();
  EXPECT_TRUE(core_->is_over());
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(std::get<CancelCall>(requests[1]).call.token, std::get<V3Read>(requests[0]).call.token);
  EXPECT_FALSE(core_->receive(h2::frame(h2::kPing, 0, 0, "12345678")));
}

}  // namespace
}  // namespace rallypoint::server
