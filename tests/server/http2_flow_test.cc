// Flow control: clients that read slowly, or not at all, or only some of their streams, and how much they can make the
// server keep for them.
#include "tests/server/http2_fixture.h"

namespace rallypoint::server {
namespace {

using namespace etcdserverpb;
using testing::ElementsAre;
using testing::HasSubstr;

class Http2Flow : public Http2Test {
 protected:
  /// Opens a watch, and waits until the node has it.
  Call open_watch(RawH2Client& client, int32_t& stream) {
    stream = client.open(kWatchPath);
    client.write(stream, watch().SerializeAsString());
    auto message = backend.next<V3WatchMessage>();
    EXPECT_TRUE(message);
    return message ? message->call : Call{};
  }
};

TEST_F(Http2Flow, AStalledReaderOfABigAnswerDoesNotHoldUpAWatchBesideIt) {
  start();
  RawH2Client client(server->port());
  ASSERT_TRUE(client.greet(1000));  // bytes per stream, unless more is allowed
  int32_t watching = 0;
  const Call watch_call = open_watch(client, watching);
  client.allow(watching, 1 << 20);
  const int32_t big = client.call(kRangePath, range());
  answer(backend.next<V3Read>()->call, pairs(8 << 20));
  for (size_t i = 1; i <= 100; ++i) {
    answer(watch_call, part(event(i)), false);
    ASSERT_EQ(client.wait_messages(watching, i).size(), i);
  }
  EXPECT_EQ(client.streams[big].body.size(), 1000u) << "not a byte more than allowed";
  EXPECT_FALSE(client.streams[big].ended);
  client.allow(big, 10 << 20);
  EXPECT_THAT(client.wait(big).messages(), ElementsAre(pairs(8 << 20).SerializeAsString()));
}

TEST_F(Http2Flow, BigAnswersShareTheConnectionWithSmallOnes) {
  start();
  RawH2Client client(server->port());
  client.greet();
  const int32_t big = client.call(kRangePath, range("big"));
  auto big_read = backend.next<V3Read>();
  const int32_t small = client.call(kRangePath, range("small"));
  auto small_read = backend.next<V3Read>();
  answer(big_read->call, pairs(64 << 20));
  answer(small_read->call, pairs(1));
  EXPECT_EQ(client.wait(small).status(), 0);
  EXPECT_LT(client.streams[big].body.size(), size_t{16} << 20) << "the small answer waited for the big one";
  EXPECT_EQ(client.wait(big).status(), 0);
}

TEST_F(Http2Flow, AWatchThatIsNotReadIsHeldBackAndGoesOnLater) {
  start();
  RawH2Client client(server->port());
  client.greet(0);
  int32_t stream = 0;
  const Call call = open_watch(client, stream);
  answer(call, part(event(2 << 20)), false);
  auto hold = backend.next<V3WatchFlow>();
  ASSERT_TRUE(hold);
  EXPECT_FALSE(hold->open);
  client.allow(stream, 4 << 20);
  auto go_on = backend.next<V3WatchFlow>();
  ASSERT_TRUE(go_on);
  EXPECT_TRUE(go_on->open);
  EXPECT_EQ(client.wait_messages(stream, 1).size(), 1u);
}

TEST_F(Http2Flow, AStreamOfPartsWaitsForItsReader) {
  start();
  RawH2Client client(server->port());
  client.greet(0);
  const int32_t stream = client.call(kRangeStreamPath, range());
  auto read = backend.next<V3Read>();
  // Parts are asked for until a megabyte waits, and then no more.
  size_t parts = 0;
  for (; parts < 3; ++parts) {
    answer(read->call, pairs(400 << 10), false);
    if (parts == 2) continue;
    ASSERT_TRUE(backend.next<V3More>()) << parts;
  }
  ASSERT_TRUE(client.alive());
  EXPECT_TRUE(backend.idle());
  client.allow(stream, 4 << 20);
  ASSERT_TRUE(backend.next<V3More>());
  answer(read->call, pairs(1));
  EXPECT_EQ(client.wait(stream).messages().size(), 4u);
}

TEST_F(Http2Flow, AClientThatAsksForMoreThanItReadsIsHeldAndNotLost) {
  start();
  RawH2Client client(server->port());
  client.greet(0);
  // 40 answers of a megabyte are beyond the bound. Its window updates must be read all the same, or nothing ever moves.
  std::vector<int32_t> streams;
  for (int i = 0; i < 40; ++i) {
    streams.push_back(client.call(kRangePath, range()));
    auto read = backend.next<V3Read>();
    if (!read) break;
    answer(read->call, pairs(1 << 20));
    ASSERT_TRUE(client.alive());
    if (i == 31) break;
  }
  ASSERT_EQ(streams.size(), 32u);
  const int32_t held = client.call(kPutPath, put("held"));
  ASSERT_TRUE(client.alive());
  EXPECT_TRUE(backend.idle()) << "with 32 MiB unread the next request must wait";
  client.allow(streams[0], 2 << 20);
  EXPECT_EQ(client.wait(streams[0]).status(), 0);
  auto write = backend.next<V3Write>();
  ASSERT_TRUE(write) << "there is room again";
  client.allow(held, 1000);
  answer(write->call, Bytes());
  EXPECT_EQ(client.wait(held).status(), 0);
  for (size_t i = 1; i < streams.size(); ++i) {
    client.allow(streams[i], 2 << 20);
    EXPECT_EQ(client.wait(streams[i]).status(), 0) << i;
  }
}

TEST_F(Http2Flow, WhatIsHeldHasABoundAndAResetFreesIt) {
  start();
  RawH2Client client(server->port());
  client.greet(0);
  const int32_t big = client.call(kRangePath, range());
  answer(backend.next<V3Read>()->call, pairs(33 << 20));
  ASSERT_TRUE(client.alive());
  const uint64_t updates = client.window_updates;
  // The server allows a megabyte per stream and 16 in all; it must not allow more while nothing is taken.
  etcdserverpb::PutRequest large = put();
  large.set_value(std::string(900 << 10, 'v'));
  std::vector<int32_t> held;
  for (int i = 0; i < 17; ++i) held.push_back(client.call(kPutPath, large));
  ASSERT_TRUE(client.alive());
  EXPECT_EQ(client.window_updates, updates);
  EXPECT_TRUE(backend.idle());
  for (size_t i = 1; i < held.size(); ++i) client.reset(held[i]);
  client.reset(big);
  auto write = backend.next<V3Write>();
  ASSERT_TRUE(write);
  EXPECT_EQ(write->message.size(), large.ByteSizeLong());
  EXPECT_TRUE(client.alive());
  EXPECT_GT(client.window_updates, updates) << "what was held and thrown away counts no more";
  EXPECT_TRUE(backend.idle()) << "calls that were reset while they were held never reach the node";
}

TEST_F(Http2Flow, AMessageLargerThanItsWindowArrives) {
  limits.body_bytes_max = 8 << 20;
  options.max_request_bytes = 8 << 20;
  start();
  RawH2Client client(server->port());
  client.greet();
  // 4 MiB, where a stream may send one: as the server takes it, it allows more.
  etcdserverpb::PutRequest large = put();
  large.set_value(std::string(4 << 20, 'v'));
  const std::string bytes = h2::message(large.SerializeAsString());
  const int32_t stream = client.open(kPutPath);
  constexpr size_t kHalfWindow = 512 << 10;
  for (size_t at = 0; at < bytes.size(); at += kHalfWindow) {
    client.write_bytes(stream, std::string_view(bytes).substr(at, kHalfWindow), at + kHalfWindow >= bytes.size());
    ASSERT_TRUE(client.alive());
  }
  auto write = backend.next<V3Write>();
  ASSERT_TRUE(write);
  EXPECT_EQ(write->message.size(), large.ByteSizeLong());
}

TEST_F(Http2Flow, MessagesHaveALargestSize) {
  start();
  RawH2Client client(server->port());
  client.greet();
  const size_t most = limits.body_bytes_max + (512 << 10);
  const auto& endless = client.wait([&] {
    const int32_t stream = client.open(kPutPath);
    client.write_bytes(stream, std::string("\0\xff\xff\xff\xff", 5), false);
    return stream;
  }());
  EXPECT_EQ(endless.status(), 8);
  EXPECT_EQ(endless.text(), "grpc: received message larger than max (4294967295 vs. " + std::to_string(most) + ")");
  ASSERT_TRUE(client.alive());
  EXPECT_EQ(endless.reset, uint32_t{NGHTTP2_NO_ERROR}) << "it need not send the rest";

  const int32_t over = client.open(kPutPath);
  client.write_bytes(over, std::string(1, '\0') + h2::number32(static_cast<uint32_t>(most + 1)), false);
  EXPECT_THAT(client.wait(over).text(), HasSubstr("larger than max"));
  // One that fits the transport and is too large for a request is etcd's other error.
  etcdserverpb::PutRequest large = put();
  large.set_value(std::string(limits.body_bytes_max + 1000, 'v'));
  const std::string bytes = h2::message(large.SerializeAsString());
  const int32_t stream = client.open(kPutPath);
  for (size_t at = 0; at < bytes.size(); at += 512 << 10) {
    client.write_bytes(stream, std::string_view(bytes).substr(at, 512 << 10), at + (512 << 10) >= bytes.size());
    ASSERT_TRUE(client.alive());
  }
  EXPECT_EQ(client.wait(stream).text(), "etcdserver: request is too large");
  EXPECT_EQ(client.streams[stream].status(), 3);
}

TEST_F(Http2Flow, AnAnswerIsMuchLargerThanARequestMayBe) {
  start();
  RawH2Client client(server->port());
  client.greet();
  const int32_t stream = client.call(kRangePath, range());
  answer(backend.next<V3Read>()->call, pairs(100 << 20));
  EXPECT_EQ(client.wait(stream).body.size(), 5 + pairs(100 << 20).ByteSizeLong());
}

}  // namespace
}  // namespace rallypoint::server
