// Strangers on the peer port: each connection ends, and the links between members do not notice.
#include "raft/wire.h"
#include "server/transport/cluster_query.h"
#include "server/transport/frame_queue.h"
#include "tests/server/transport_support.h"

namespace rallypoint::server {
namespace {

std::string frame_bytes(FrameType type, const std::string& body) {
  FrameQueue queue(1 << 30, 10);
  queue.append(type, body, {});
  iovec piece;
  queue.gather(&piece, 1);
  return {static_cast<const char*>(piece.iov_base), piece.iov_len};
}
std::string hello_bytes(uint64_t from, uint64_t to, uint64_t cluster = kCluster, uint16_t version = kPeerProtocolVersion) {
  return frame_bytes(FrameType::kHello, encode_hello({version, Lane::kUrgent, cluster, NodeId(from), NodeId(to), DirectoryId(1)}));
}
std::string message_bytes(const raft::Message& message) {
  std::string body;
  std::vector<Bytes> payloads;
  raft::encode(message, body, payloads);
  for (const Bytes& payload : payloads) body.append(payload.view());
  return frame_bytes(FrameType::kRaft, body);
}

class TransportStranger : public ::testing::Test {
 protected:
  TransportStranger() : a(test_options(1)), b(options()) {
    a.know({{b.id, {b.address()}}});
    b.know({{a.id, {a.address()}}});
    EXPECT_TRUE(a.wait_up(b.id));
    EXPECT_TRUE(b.wait_up(a.id));
  }
  static TransportOptions options() {
    TransportOptions options = test_options(2);
    options.handshake_timeout = Duration::millis(300);
    options.inbound_connections_max = 12;
    return options;
  }
  void TearDown() override {
    const uint64_t round = 4242;
    a.transport.send({heartbeat(a.id, b.id, round)});
    EXPECT_TRUE(b.recorder.wait([&] { return !b.recorder.messages.empty() && b.recorder.messages.back().from == a.id; }));
    EXPECT_EQ(a.transport.stats().links_broken, 0u);
    EXPECT_EQ(b.transport.stats().links_broken, 0u);
  }
  /// What the transport answers before it hangs up.
  std::string answer_to(const std::string& bytes) {
    RawPeer client(b.address());
    client.write(bytes);
    return client.read_to_end();
  }
  std::string reject_text(const std::string& answer) {
    if (answer.size() < kFrameHeadBytes) return "no answer";
    return decode_reject(answer.substr(kFrameHeadBytes)).value().text;
  }

  TestNode a, b;
};

TEST_F(TransportStranger, WhoAsksForTheClusterIsAnswered) {
  b.transport.set_cluster({{{a.id, {a.address()}}}, {}, 0, Bytes(std::string("the cluster"))});
  ASSERT_TRUE(eventually([&] {
    const auto answer = ask_cluster(b.address(), Duration::seconds(20));
    return answer.is_ok() && answer->view() == "the cluster";
  }));
  EXPECT_EQ(b.transport.stats().rejected, 0u);
}

TEST_F(TransportStranger, NobodyToAskIsAnErrorThatNamesTheAddress) {
  boost::asio::io_context io;
  boost::asio::ip::tcp::acceptor silent(io, {boost::asio::ip::address_v4::loopback(), 0});
  const HostPort address = "127.0.0.1:" + std::to_string(silent.local_endpoint().port());
  const auto answer = ask_cluster(address, Duration::millis(50));
  ASSERT_FALSE(answer.is_ok());
  EXPECT_EQ(answer.status().message(), address + ": no answer in time");
  silent.close();
  EXPECT_NE(ask_cluster(address, Duration::seconds(20)).status().message().find("refused"), std::string::npos);
}

TEST_F(TransportStranger, GarbageEndsTheConnection) {
  EXPECT_EQ(answer_to(std::string(1000, '\xA5')), "");
  EXPECT_EQ(answer_to(std::string(12, '\0')), "");
  EXPECT_EQ(answer_to("GET /v2/machines HTTP/1.1\r\nHost: x\r\n\r\n"), "");
  EXPECT_EQ(answer_to(frame_bytes(FrameType::kHello, std::string(4097, 'x'))), "");
  EXPECT_EQ(answer_to(frame_bytes(FrameType::kHello, "short")), "");
  EXPECT_EQ(answer_to(message_bytes(heartbeat(NodeId(1), NodeId(2), 1))), "");  // no hello before it
  EXPECT_TRUE(eventually([&] { return b.transport.stats().rejected == 6; }));
}

TEST_F(TransportStranger, AConnectionThatSaysNothingEndsAtTheDeadline) {
  EXPECT_EQ(answer_to(""), "");
  EXPECT_EQ(answer_to(hello_bytes(3, 2).substr(0, 20)), "");
  EXPECT_TRUE(eventually([&] { return b.transport.stats().rejected == 2; }));
}

TEST_F(TransportStranger, ARefusedHelloIsToldWhy) {
  EXPECT_NE(reject_text(answer_to(hello_bytes(3, 2, kCluster + 1))).find("another cluster"), std::string::npos);
  EXPECT_NE(reject_text(answer_to(hello_bytes(3, 9))).find("this is member 2"), std::string::npos);
  EXPECT_NE(reject_text(answer_to(hello_bytes(2, 2))).find("can not be the caller's"), std::string::npos);
  EXPECT_NE(reject_text(answer_to(hello_bytes(3, 2, kCluster, 9))).find("version 9 is not supported"), std::string::npos);
}

TEST_F(TransportStranger, MessagesInAnotherNameEndTheConnection) {
  answer_to(hello_bytes(3, 2) + message_bytes(heartbeat(NodeId(1), NodeId(2), 1)));
  answer_to(hello_bytes(3, 2) + message_bytes(heartbeat(NodeId(3), NodeId(1), 1)));
  EXPECT_TRUE(eventually([&] { return b.transport.stats().rejected == 2; }));
  EXPECT_TRUE(b.recorder.look([&] { return b.recorder.messages.empty(); }));
}

TEST_F(TransportStranger, WhatCameBeforeADamagedFrameIsStillTaken) {
  std::string damaged = message_bytes(heartbeat(NodeId(3), NodeId(2), 2));
  damaged.back() ^= 1;
  answer_to(hello_bytes(3, 2) + message_bytes(heartbeat(NodeId(3), NodeId(2), 1)) + damaged);
  EXPECT_TRUE(b.recorder.wait([&] { return b.recorder.messages.size() == 1; }));
  EXPECT_EQ(b.recorder.messages[0], heartbeat(NodeId(3), NodeId(2), 1));
}

TEST_F(TransportStranger, ANewHelloReplacesTheOldConnection) {
  RawPeer first(b.address());
  first.write(hello_bytes(3, 2));
  EXPECT_TRUE(eventually([&] { return b.transport.stats().inbound == 3; }));
  RawPeer second(b.address());
  second.write(hello_bytes(3, 2));
  first.read_to_end();  // returns because the transport hung up
  EXPECT_TRUE(eventually([&] { return b.transport.stats().inbound == 3; }));
}

TEST_F(TransportStranger, AFloodOfConnectionsIsCappedAndMembersStillComeIn) {
  std::vector<std::unique_ptr<RawPeer>> flood;
  for (int i = 0; i < 50; ++i) {
    flood.push_back(std::make_unique<RawPeer>(b.address()));
    EXPECT_LE(b.transport.stats().inbound, 12u);
  }
  TestNode c(test_options(3));
  c.know({{b.id, {b.address()}}});
  EXPECT_TRUE(c.wait_up(b.id));
}

}  // namespace
}  // namespace rallypoint::server
