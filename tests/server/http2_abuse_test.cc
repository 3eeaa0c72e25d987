// What no decent client sends: wrong frames, floods, bombs. Each must end in the protocol's own error, cost little, and
// leave other clients alone.
#include <thread>

#include "server/rpc/net_loop.h"
#include "tests/server/http2_fixture.h"

namespace rallypoint::server {
namespace {

using namespace etcdserverpb;
using testing::HasSubstr;
using testing::StartsWith;

class Http2Abuse : public Http2Test {
 protected:
  /// Another client is served as if nothing had been.
  void expect_healthy() {
    RawH2Client other(server->port());
    ASSERT_TRUE(other.greet());
    const int32_t stream = other.open("/grpc.health.v1.Health/Check");
    other.write(stream, "", true);
    EXPECT_EQ(other.wait(stream).status(), 0);
  }
  /// The connection must end with a GOAWAY of this code.
  void expect_goaway(RawH2Client& client, uint32_t code) {
    EXPECT_TRUE(client.wait_closed()) << "the connection stays open";
    ASSERT_TRUE(client.goaway) << "closed without a word";
    EXPECT_EQ(*client.goaway, code) << client.goaway_text;
    expect_healthy();
  }
};

TEST_F(Http2Abuse, ABadPrefaceIsNotHttp2) {
  start();
  RawClient client = connect();
  EXPECT_THAT(client.ask("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n"), StartsWith("HTTP/1.1 505 "));
  expect_healthy();
}

TEST_F(Http2Abuse, AClientThatOnlySaysThePrefaceIsCutOff) {
  limits.header_timeout = limits.tick = std::chrono::milliseconds(20);
  start();
  RawH2Client client(server->port());
  client.send(h2::kPreface.substr(0, 10));
  EXPECT_TRUE(client.wait_closed());
  RawH2Client other(server->port());
  other.send(h2::kPreface);
  EXPECT_TRUE(other.wait_closed()) << "half open for ever";
  RawH2Client silent(server->port());
  EXPECT_TRUE(silent.wait_closed());
  RawH2Client idle(server->port());
  idle.greet();
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(idle.alive());
    RawH2Client another(server->port());
    EXPECT_TRUE(another.wait_closed());  // lets the time-out pass
  }
  EXPECT_TRUE(idle.alive()) << "one that has greeted may rest";
}

TEST_F(Http2Abuse, FramesThatBreakTheRulesEndTheConnection) {
  const std::string big(16385, 'x');
  const struct { const char* what; std::string bytes; uint32_t code; } cases[] = {
      {"data on stream 0", h2::frame(h2::kData, 0, 0, "x"), NGHTTP2_PROTOCOL_ERROR},
      {"a frame over the size that we take", h2::frame(h2::kData, 0, 1, big), NGHTTP2_FRAME_SIZE_ERROR},
      {"headers on an even stream", h2::frame(h2::kHeaders, h2::kEndHeaders, 2, "\x82"), NGHTTP2_PROTOCOL_ERROR},
      {"settings of half an entry", h2::frame(h2::kSettings, 0, 0, "abc"), NGHTTP2_FRAME_SIZE_ERROR},
      {"settings on a stream", h2::frame(h2::kSettings, 0, 1), NGHTTP2_PROTOCOL_ERROR},
      {"a window that can't be", h2::frame(h2::kSettings, 0, 0, h2::setting(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0x80000000)), NGHTTP2_FLOW_CONTROL_ERROR},
      {"a window beyond the largest", h2::frame(h2::kWindowUpdate, 0, 0, h2::number32(h2::kWindowMax)), NGHTTP2_FLOW_CONTROL_ERROR},
      {"a window update of nothing", h2::frame(h2::kWindowUpdate, 0, 0, h2::number32(0)), NGHTTP2_PROTOCOL_ERROR},
      {"a ping of five bytes", h2::frame(h2::kPing, 0, 0, "12345"), NGHTTP2_FRAME_SIZE_ERROR},
      {"a push promise", h2::frame(h2::kPushPromise, h2::kEndHeaders, 1, h2::number32(2)), NGHTTP2_PROTOCOL_ERROR},
      {"a continuation of nothing", h2::frame(h2::kContinuation, h2::kEndHeaders, 1), NGHTTP2_PROTOCOL_ERROR},
      {"a reset of a stream that never was", h2::frame(h2::kReset, 0, 99, h2::number32(8)), NGHTTP2_PROTOCOL_ERROR},
      {"headers that can't be decoded", h2::frame(h2::kHeaders, h2::kEndHeaders, 1, "\xff\xff\xff\xff\xff\xff\xff"), NGHTTP2_COMPRESSION_ERROR},
  };
  start();
  for (const auto& each : cases) {
    SCOPED_TRACE(each.what);
    RawH2Client client(server->port());
    client.greet();
    client.send(each.bytes);
    expect_goaway(client, each.code);
  }
}

TEST_F(Http2Abuse, TheFirstFrameIsSettings) {
  start();
  RawH2Client client(server->port());
  client.send(std::string(h2::kPreface) + h2::frame(h2::kPing, 0, 0, "12345678"));
  expect_goaway(client, NGHTTP2_PROTOCOL_ERROR);
}

TEST_F(Http2Abuse, ACompressedMessageIsRefused) {
  start();
  RawH2Client client(server->port());
  client.greet();
  const int32_t stream = client.open(kRangePath, {{"grpc-encoding", "gzip"}});
  client.write_bytes(stream, h2::message("abc", 1), true);
  EXPECT_EQ(client.wait(stream).status(), 12);
  EXPECT_THAT(client.wait(stream).text(), HasSubstr("identity"));
  const int32_t odd = client.open(kRangePath);
  client.write_bytes(odd, h2::message("abc", 255), true);
  EXPECT_EQ(client.wait(odd).status(), 12);
  EXPECT_TRUE(client.alive());
}

TEST_F(Http2Abuse, HeadersBeyondTheLimitResetTheirStreamOnly) {
  limits.header_bytes_max = 8000;
  start();
  RawH2Client client(server->port());
  client.greet();
  const int32_t big = client.open(kRangePath, {{"x", std::string(8000, 'a')}});
  EXPECT_TRUE(client.wait(big).reset);
  EXPECT_EQ(client.settings[NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE], 8000u) << "it was told";
  const int32_t good = client.call(kRangePath, range());
  auto read = backend.next<V3Read>();
  ASSERT_TRUE(read);
  answer(read->call, pairs(1));
  EXPECT_EQ(client.wait(good).status(), 0);
}

TEST_F(Http2Abuse, AContinuationFloodEndsTheConnection) {
  start();
  RawH2Client client(server->port());
  client.greet();
  const int32_t stream = client.next_stream();
  client.send(h2::kHeaders, h2::kNone, stream, client.block(RawH2Client::head(kRangePath)));
  // Never the last one. Empty, and then such as would fill memory if they were kept.
  bool open = true;
  for (int i = 0; i < 100'000 && open; ++i)
    open = client.send(h2::kContinuation, h2::kNone, stream, i % 2 == 0 ? "" : client.block({{"x" + std::to_string(i), std::string(1000, 'a')}}));
  EXPECT_TRUE(client.wait_closed());
  expect_healthy();
}

TEST_F(Http2Abuse, AHeaderBombIsBounded) {
  start();
  RawH2Client client(server->port());
  client.greet();
  // A field of 2800 bytes goes into the connection's table once, and is one byte from then on: 20 of them are 57 kB.
  const h2::Field bomb{"x-bomb", std::string(2800, 'b')};
  std::vector<h2::Field> fields = RawH2Client::head(kWatchPath);
  for (int i = 0; i < 20; ++i) fields.push_back(bomb);
  ASSERT_TRUE(client.alive());
  const int64_t before = resident_bytes();
  std::string first = client.block(fields);
  client.send(h2::kHeaders, h2::kEndHeaders, client.next_stream(), first);
  for (int i = 0; i < 20; ++i) {
    std::string flood;
    for (int j = 0; j < 100; ++j) flood += h2::frame(h2::kHeaders, h2::kEndHeaders, client.next_stream(), client.block(fields));
    ASSERT_LT(flood.size(), 100'000u);
    client.send(flood);
  }
  client.alive();
  if (kMemoryIsOurs) {
    EXPECT_LT(resident_bytes() - before, 64 << 20) << "2000 streams with 57 kB of headers each would be 114 MB";
  }
  expect_healthy();
}

TEST_F(Http2Abuse, ARapidResetFloodEndsTheConnection) {
  start();
  RawH2Client client(server->port());
  client.greet();
  bool open = true;
  size_t sent = 0;
  for (int i = 0; i < 500 && open; ++i) {
    std::string flood;
    for (int j = 0; j < 100; ++j, ++sent) {
      const int32_t stream = client.next_stream();
      flood += h2::frame(h2::kHeaders, h2::kEndHeaders, stream, client.block(RawH2Client::head(kWatchPath)));
      flood += h2::frame(h2::kReset, 0, stream, h2::number32(NGHTTP2_CANCEL));
    }
    open = client.send(flood);
  }
  EXPECT_LT(sent, 50'000u) << "it could go on as long as it liked";
  EXPECT_TRUE(client.wait_closed());
  expect_healthy();
}

TEST_F(Http2Abuse, AClientMayCancelAThousandCallsASecond) {
  start();
  RawH2Client client(server->port());
  client.greet();
  for (int i = 0; i < 1500; ++i) {
    const int32_t stream = client.call(kRangePath, range());
    client.reset(stream);
  }
  EXPECT_TRUE(client.alive()) << "grpc_limits.h allows 2000";
}

TEST_F(Http2Abuse, FloodsOfPingsAndSettingsEndTheConnection) {
  start();
  for (const std::string& frame : {h2::frame(h2::kPing, 0, 0, "12345678"), h2::frame(h2::kSettings, 0, 0)}) {
    RawH2Client client(server->port());
    client.greet();
    std::string flood;
    for (int i = 0; i < 1000; ++i) flood += frame;
    bool open = true;
    size_t sent = 0;
    for (; sent < 500 && open; ++sent) open = client.send(flood);
    EXPECT_LT(sent, 500u);
    EXPECT_TRUE(client.wait_closed());
    expect_healthy();
  }
}

TEST_F(Http2Abuse, AStreamFloodIsRefusedBeyondTheLimit) {
  start();
  RawH2Client client(server->port());
  client.greet();
  ASSERT_TRUE(client.alive());
  const uint32_t most = client.settings[NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS];
  ASSERT_EQ(most, 10'000u);
  const int64_t before = resident_bytes();
  std::vector<int32_t> streams;
  for (uint32_t i = 0; i < most; ++i) streams.push_back(client.open(kWatchPath));
  ASSERT_TRUE(client.alive());
  if (kMemoryIsOurs) {
    EXPECT_LT(resident_bytes() - before, 64 << 20) << "6.4 kB for each of them";
  }
  const int32_t over = client.open(kWatchPath);
  while (!client.streams[over].reset && !client.goaway && client.receive()) {
  }
  EXPECT_TRUE(client.streams[over].reset == uint32_t{NGHTTP2_REFUSED_STREAM} || client.goaway == uint32_t{NGHTTP2_PROTOCOL_ERROR});
  expect_healthy();
}

TEST_F(Http2Abuse, EmptyFramesCostNoMemory) {
  start();
  RawH2Client client(server->port());
  client.greet();
  const int32_t stream = client.open(kKeepAlivePath);
  std::string flood;
  for (int i = 0; i < 10'000; ++i) flood += h2::frame(h2::kData, 0, stream);
  const int64_t before = resident_bytes();
  for (int i = 0; i < 20; ++i) client.send(flood);
  client.alive();
  if (kMemoryIsOurs) {
    EXPECT_LT(resident_bytes() - before, 16 << 20);
  }
  expect_healthy();
}

TEST_F(Http2Abuse, HalfSentMessagesOfManyStreamsAreBounded) {
  start();
  RawH2Client client(server->port());
  client.greet();
  const std::string half = h2::message(std::string(1 << 20, 'x')).substr(0, 1 << 19);
  const int64_t before = resident_bytes();
  for (int i = 0; i < 400; ++i) {
    const int32_t stream = client.open(kPutPath);
    client.write_bytes(stream, half, false);
  }
  EXPECT_TRUE(client.wait_closed());
  ASSERT_TRUE(client.goaway);
  EXPECT_EQ(*client.goaway, uint32_t{NGHTTP2_ENHANCE_YOUR_CALM});
  EXPECT_THAT(client.goaway_text, HasSubstr("half sent messages"));
  if (kMemoryIsOurs) {
    EXPECT_LT(resident_bytes() - before, 160 << 20);
  }
  expect_healthy();
}

TEST_F(Http2Abuse, AClientThatTakesNothingIsCutOff) {
  limits.write_timeout = limits.tick = std::chrono::milliseconds(50);
  start();
  RawH2Client client(server->port());
  client.greet();
  const int32_t stream = client.call(kRangePath, range());
  auto read = backend.next<V3Read>();
  answer(read->call, pairs(64 << 20));
  // Not a byte is read until the server has given up.
  const auto deadline = std::chrono::steady_clock::now() + kTestDeadline;
  while (server->counters().connections.load() != 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(server->counters().connections.load(), 0u);
  EXPECT_TRUE(client.wait_closed());
  EXPECT_FALSE(client.streams[stream].ended);
}

TEST_F(Http2Abuse, IdleConnectionsAreSmall) {
  start();
  const int64_t before = resident_bytes();
  constexpr int kConnections = 400;
  std::vector<std::unique_ptr<RawH2Client>> clients;
  for (int i = 0; i < kConnections; ++i) {
    clients.push_back(std::make_unique<RawH2Client>(server->port()));
    clients.back()->greet();
    clients.back()->write(clients.back()->open("/nobody/Here"), std::string(40'000, 'x'), true);  // was busy before
  }
  for (auto& client : clients) ASSERT_TRUE(client->alive());
  // Server and client together; the library's own state is 20 kB of it.
  if (kMemoryIsOurs) {
    EXPECT_LT((resident_bytes() - before) / kConnections, 40 << 10);
  }
  expect_healthy();
}

}  // namespace
}  // namespace rallypoint::server
