// Frames without sockets: format, hello, the outgoing queue and the reader of received bytes.
#include <algorithm>

#include "raft/base/random.h"
#include "server/transport/frame_queue.h"
#include "server/transport/frame_reader.h"
#include "tests/server/transport_support.h"

namespace rallypoint::server {
namespace {

/// Takes at most `bytes_max` bytes out of the queue, as a kernel with little room would.
std::string take(FrameQueue& queue, size_t bytes_max, size_t pieces_max = 3) {
  std::vector<iovec> pieces(pieces_max);
  pieces.resize(queue.gather(pieces.data(), pieces.size()));
  std::string taken;
  for (const iovec& piece : pieces) taken.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
  taken.resize(std::min(taken.size(), bytes_max));
  queue.consume(taken.size());
  return taken;
}

std::string frame_bytes(FrameType type, const std::string& body) {
  FrameQueue queue(1 << 30, 10);
  EXPECT_TRUE(queue.append(type, body, {}));
  return take(queue, SIZE_MAX);
}

/// Feeds bytes in pieces and collects the frames, until the end or an error.
Status feed(FrameReader& reader, std::string_view bytes, size_t piece_max, std::vector<Frame>& frames) {
  while (!bytes.empty()) {
    const auto space = reader.space();
    const size_t size = std::min({bytes.size(), space.size(), piece_max});
    std::copy_n(bytes.data(), size, space.data());
    bytes.remove_prefix(size);
    reader.received(size);
    while (true) {
      Result<std::optional<Frame>> frame = reader.next();
      if (!frame.is_ok()) return frame.status();
      if (!frame->has_value()) break;
      frames.push_back(std::move(**frame));
    }
    reader.settle();
  }
  return Status::ok();
}

TEST(Frame, WhatIsQueuedIsReadAgainHoweverItWasCut) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    FrameQueue queue(1 << 30, 1 << 20);
    FrameReader reader(1 << 20);
    std::vector<std::string> sent;
    std::vector<Frame> received;
    for (int step = 0; step < 300; ++step) {
      std::string head(random.below(50), static_cast<char>(random.next()));
      std::vector<Bytes> payloads;
      std::string body = head;
      for (uint64_t i = random.below(4); i > 0; --i) {
        payloads.emplace_back(std::string(random.below(random.chance(1, 30) ? 200000 : 2000), static_cast<char>(random.next())));
        body += payloads.back().view();
      }
      ASSERT_TRUE(queue.append(FrameType::kRaft, head, payloads));
      sent.push_back(body);
      if (random.chance(1, 3)) {
        const std::string bytes = take(queue, random.below(100000), 1 + random.below(20));
        ASSERT_TRUE(feed(reader, bytes, random.between(1, 70000), received).is_ok());
      }
    }
    while (!queue.empty()) ASSERT_TRUE(feed(reader, take(queue, 1 << 20), 1 << 20, received).is_ok());
    EXPECT_EQ(queue.frames(), 0u);
    ASSERT_EQ(received.size(), sent.size());
    for (size_t i = 0; i < sent.size(); ++i) EXPECT_EQ(received[i].body.view(), sent[i]) << seed << " " << i;
  }
}

TEST(Frame, BodiesThatAreKeptSurviveLaterReads) {
  FrameReader reader(1 << 20);
  std::vector<Frame> frames;
  std::string bytes;
  for (int i = 0; i < 2000; ++i) bytes += frame_bytes(FrameType::kRaft, "body " + std::to_string(i));
  ASSERT_TRUE(feed(reader, bytes, 1000, frames).is_ok());
  ASSERT_EQ(frames.size(), 2000u);
  for (int i = 0; i < 2000; ++i) EXPECT_EQ(frames[i].body.view(), "body " + std::to_string(i));
}

TEST(Frame, AnyFlippedBitIsNoticed) {
  const std::string whole = frame_bytes(FrameType::kRaft, "some body");
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    FrameReader reader(1000);
    std::vector<Frame> frames;
    (void)feed(reader, damaged, 1000, frames);  // a larger length only waits for more
    EXPECT_TRUE(frames.empty()) << "bit " << bit;
  }
}

TEST(Frame, OversizedLengthsAreRefusedBeforeAnyMemoryIsTaken) {
  FrameReader reader(100);
  std::vector<Frame> frames;
  const Status status = feed(reader, frame_bytes(FrameType::kRaft, std::string(101, 'x')), 12, frames);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("a frame of 101 bytes, at most 100"), std::string::npos) << status;
}

TEST(Frame, AHttpRequestIsCalledByItsName) {
  FrameReader reader(100);
  std::vector<Frame> frames;
  const Status status = feed(reader, "GET /v2/keys HTTP/1.1\r\n\r\n", 100, frames);
  EXPECT_NE(status.message().find("HTTP"), std::string::npos) << status;
}

TEST(Frame, HelloWelcomeAndRejectSurviveTheWay) {
  const Hello hello{kPeerProtocolVersion, Lane::kBulk, 7, NodeId(UINT64_MAX), NodeId(9), DirectoryId(10), 11, {"10.0.0.1:2380", "[::1]:2380"}};
  EXPECT_EQ(encode_hello(hello).size(), kHelloBytes + 8 + 1 + 14 + 11);
  EXPECT_EQ(decode_hello(encode_hello(hello).substr(0, kHelloBytes)).value().founding, 0u) << "of the first version";
  EXPECT_TRUE(decode_hello(encode_hello(hello).substr(0, kHelloBytes + 8)).value().endpoints.empty()) << "of the second";
  EXPECT_EQ(decode_hello(encode_hello(hello)).value(), hello);
  EXPECT_EQ(decode_hello(encode_hello(hello) + "of a later version").value(), hello);
  EXPECT_EQ(decode_welcome(encode_welcome({kPeerProtocolVersion, DirectoryId(4)})).value().directory, DirectoryId(4));
  const Reject reject = decode_reject(encode_reject({RejectReason::kWrongCluster, "no\nforged line"})).value();
  EXPECT_EQ(reject.reason, RejectReason::kWrongCluster);
  EXPECT_EQ(reject.text, "no?forged line");
}

TEST(Frame, AHelloTellsSoManyEndpointsAndCutOnesAreErrors) {
  Hello hello{kPeerProtocolVersion, Lane::kBulk, 7, NodeId(8), NodeId(9), DirectoryId(10), 11};
  hello.endpoints = {std::string(256, 'x')};
  for (size_t i = 0; i <= kHelloEndpointsMax; ++i) hello.endpoints.push_back("host" + std::to_string(i) + ":1");
  const std::string bytes = encode_hello(hello);
  const std::vector<std::string> told(hello.endpoints.begin() + 1, hello.endpoints.end() - 1);
  EXPECT_EQ(decode_hello(bytes).value().endpoints, told);
  for (size_t size = kHelloBytes + 9; size < bytes.size(); ++size) EXPECT_FALSE(decode_hello(bytes.substr(0, size)).is_ok()) << size;
  std::string many = bytes;
  many[kHelloBytes + 8] = kHelloEndpointsMax + 1;
  EXPECT_FALSE(decode_hello(many + std::string("\1x")).is_ok());
}

TEST(Frame, DamagedHandshakesAreErrors) {
  std::string hello = encode_hello({kPeerProtocolVersion, Lane::kBulk, 7, NodeId(8), NodeId(9), DirectoryId(10)});
  EXPECT_FALSE(decode_hello(hello.substr(0, kHelloBytes - 1)).is_ok());
  std::string lane = hello;
  lane[6] = 2;
  EXPECT_FALSE(decode_hello(lane).is_ok());
  hello[0] = 'X';
  EXPECT_FALSE(decode_hello(hello).is_ok());
  EXPECT_FALSE(decode_welcome("short").is_ok());
  EXPECT_FALSE(decode_reject("").is_ok());
}

TEST(Frame, AHelloIsJudgedByVersionClusterAndNames) {
  const Hello good{kPeerProtocolVersion, Lane::kUrgent, 7, NodeId(1), NodeId(2), DirectoryId(3)};
  EXPECT_FALSE(judge_hello(good, {7, NodeId(2)}).has_value());
  const auto reason = [](Hello hello) { return judge_hello(hello, {7, NodeId(2)}).value().reason; };
  Hello bad = good;
  bad.version = 99;
  EXPECT_EQ(reason(bad), RejectReason::kVersion);
  bad = good;
  bad.cluster_id = 8;
  EXPECT_EQ(reason(bad), RejectReason::kWrongCluster);
  bad = good;
  bad.to = NodeId(3);
  EXPECT_EQ(reason(bad), RejectReason::kWrongMember);
  bad = good;
  bad.from = NodeId(2);
  EXPECT_EQ(reason(bad), RejectReason::kWrongMember);
}

TEST(Frame, AHelloOfARemovedMemberOrAnotherFoundingIsRefused) {
  const Host host{7, NodeId(2), 55, {NodeId(9)}};
  Hello hello{kPeerProtocolVersion, Lane::kUrgent, 7, NodeId(1), NodeId(2), DirectoryId(3)};
  EXPECT_FALSE(judge_hello(hello, host).has_value()) << "it knows of no founding: it is new";
  hello.founding = 55;
  EXPECT_FALSE(judge_hello(hello, host).has_value());
  hello.founding = 56;
  EXPECT_EQ(judge_hello(hello, host)->reason, RejectReason::kFoundedTwice);
  EXPECT_FALSE(judge_hello(hello, {7, NodeId(2)}).has_value()) << "this one is new";
  hello.from = NodeId(9);
  EXPECT_EQ(judge_hello(hello, host)->reason, RejectReason::kRemoved);
}

TEST(Frame, AQuerySurvivesTheWayAndADamagedOneIsAnError) {
  EXPECT_TRUE(decode_query(encode_query()).is_ok());
  EXPECT_FALSE(decode_query("").is_ok());
  EXPECT_FALSE(decode_query("XLYP\1").is_ok());
  EXPECT_FALSE(decode_query(std::string("RLYP\x63\0", 6)).is_ok());
}

TEST(FrameQueue, IsBoundedInBytesAndFramesButTakesOneOfAnySize) {
  FrameQueue queue(100, 3);
  EXPECT_TRUE(queue.append(FrameType::kRaft, std::string(1000, 'x'), {}));
  EXPECT_FALSE(queue.append(FrameType::kRaft, "", {}));
  EXPECT_EQ(take(queue, SIZE_MAX).size(), 1000 + kFrameHeadBytes);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(queue.append(FrameType::kRaft, "", {}));
  EXPECT_FALSE(queue.append(FrameType::kRaft, "", {}));
  take(queue, kFrameHeadBytes - 1);
  EXPECT_EQ(queue.frames(), 3u);
  take(queue, 1);
  EXPECT_EQ(queue.frames(), 2u);
  EXPECT_TRUE(queue.append(FrameType::kRaft, "", {}));
}

TEST(FrameQueue, LargePayloadsAreReferencedAndNotCopied) {
  FrameQueue queue(1 << 20, 10);
  const Bytes payload(std::string(FrameQueue::kReferenceBytesMin, 'x'));
  ASSERT_TRUE(queue.append(FrameType::kRaft, "head", std::span(&payload, 1)));
  iovec pieces[4];
  ASSERT_EQ(queue.gather(pieces, 4), 2u);
  EXPECT_EQ(pieces[1].iov_base, payload.data());
}

TEST(Address, TextsAreSplitAndBadOnesNamed) {
  EXPECT_EQ(split_address("host:80").value().host, "host");
  EXPECT_EQ(split_address("[::1]:80").value().host, "::1");
  EXPECT_EQ(split_address(":80").value().port, 80);
  for (const char* bad : {"host", "host:", "host:65536", "host:-1", "::1:80", "[::1:80", "host:8o"}) {
    EXPECT_FALSE(split_address(bad).is_ok()) << bad;
  }
}

}  // namespace
}  // namespace rallypoint::server
