// Transports talk to each other over loopback: delivery, order, restarts, losses, bounds.
#include <atomic>

#include "raft/base/random.h"
#include "server/transport/frame_queue.h"
#include "tests/server/transport_support.h"

namespace rallypoint::server {
namespace {

std::string random_text(Random& random, size_t size) {
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random.next());
  return text;
}

void introduce(std::vector<TestNode*> nodes) {
  std::vector<PeerAddress> peers;
  for (TestNode* node : nodes) peers.push_back({node->id, {node->address()}});
  for (TestNode* node : nodes) node->know(peers);
  for (TestNode* node : nodes) {
    for (TestNode* other : nodes) {
      if (node != other) {
        ASSERT_TRUE(node->wait_up(other->id));
      }
    }
  }
}

TEST(Transport, MessagesOfOneLaneArriveInOrderAndUnchanged) {
  TestNode a(test_options(1)), b(test_options(2)), c(test_options(3));
  introduce({&a, &b, &c});
  constexpr size_t kCount = 500;
  Random random(1);
  std::vector<raft::Message> sent;
  for (size_t i = 1; i <= kCount; ++i) sent.push_back(append(a.id, b.id, i, random_text(random, random.below(3000))));
  auto copy = sent;
  a.transport.send(std::move(copy));
  ASSERT_TRUE(b.recorder.wait([&] { return b.recorder.messages.size() >= kCount; }));
  EXPECT_EQ(b.recorder.look([&] { return b.recorder.messages; }), sent);
  EXPECT_TRUE(c.recorder.look([&] { return c.recorder.messages.empty(); }));
}

TEST(Transport, AMemberThatOnlyTheCallerKnowsIsAnsweredWhileItIsConnected) {
  TestNode b(test_options(2));
  b.know({{b.id, {b.address()}}});
  {
    TestNode a(test_options(1));
    a.know({{a.id, {a.address()}}, {b.id, {b.address()}}});
    ASSERT_TRUE(b.wait_up(a.id));
    b.transport.send({heartbeat(b.id, a.id, 1)});
    ASSERT_TRUE(a.recorder.wait([&] { return !a.recorder.messages.empty(); }));
    EXPECT_EQ(a.recorder.messages.at(0), heartbeat(b.id, a.id, 1));
    // Facts that do not name it do not end it, and those that do make it a member like any other.
    b.know({{b.id, {b.address()}}});
    b.transport.send({heartbeat(b.id, a.id, 2)});
    ASSERT_TRUE(a.recorder.wait([&] { return a.recorder.messages.size() == 2; }));
    b.know({{b.id, {b.address()}}, {a.id, {a.address()}}});
    b.transport.send({heartbeat(b.id, a.id, 3)});
    ASSERT_TRUE(a.recorder.wait([&] { return a.recorder.messages.size() == 3; }));
    EXPECT_EQ(b.recorder.look([&] { return b.recorder.up.size(); }), 1u);
    b.know({{b.id, {b.address()}}});
  }
  EXPECT_TRUE(eventually([&] { return b.transport.stats().inbound == 0 && b.transport.stats().links_up == 0; }));
}

TEST(Transport, WhoDoesNotSayWhereItIsIsNotDialled) {
  TestNode a(test_options(1)), b(test_options(2));
  b.know({{b.id, {b.address()}}});
  a.know({{b.id, {b.address()}}});  // nothing of itself
  ASSERT_TRUE(a.wait_up(b.id));
  b.transport.send({heartbeat(b.id, a.id, 1)});
  EXPECT_TRUE(eventually([&] { return b.transport.stats().dropped_messages == 1; }));
  EXPECT_EQ(b.transport.stats().links_up, 0u);
}

TEST(Transport, BatchesFromManyThreadsAllArrive) {
  TestNode a(test_options(1)), b(test_options(2));
  introduce({&a, &b});
  constexpr uint64_t kThreads = 4, kBatches = 200, kBatch = 5;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < kBatches; ++i) {
        std::vector<raft::Message> batch;
        for (uint64_t k = 0; k < kBatch; ++k) batch.push_back(heartbeat(a.id, b.id, (t << 32) + i * kBatch + k));
        a.transport.send(std::move(batch));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  ASSERT_TRUE(b.recorder.wait([&] { return b.recorder.messages.size() >= kThreads * kBatches * kBatch; }));
  std::vector<uint64_t> next(kThreads, 0);
  for (const auto& message : b.recorder.messages) {
    const uint64_t round = std::get<raft::Heartbeat>(message.body).round;
    EXPECT_EQ(round & 0xFFFFFFFF, next[round >> 32]++);
  }
  // A waiting mailbox is taken whole: many messages share a write.
  EXPECT_LE(a.transport.stats().writes.load(), a.transport.stats().sent_frames.load());
}

TEST(Transport, LargePayloadsArriveWhole) {
  TestNode a(test_options(1)), b(test_options(2));
  introduce({&a, &b});
  Random random(2);
  const Bytes app(random_text(random, 3 << 20));
  raft::InstallSnapshot piece;
  piece.meta.term = Term(1);
  piece.meta.index = Index(9);
  piece.data = Bytes(random_text(random, 9 << 20));
  const raft::Message message{a.id, b.id, Term(1), DirectoryId(1), piece};
  a.transport.send({message});
  a.transport.send_app(b.id, 5, app);
  a.transport.send_app(b.id, 6, Bytes());
  ASSERT_TRUE(b.recorder.wait([&] { return b.recorder.messages.size() == 1 && b.recorder.apps.size() == 2; }));
  EXPECT_EQ(b.recorder.messages[0], message);
  EXPECT_EQ(b.recorder.apps[0].payload, app);
  EXPECT_EQ(b.recorder.apps[0].from, a.id);
  EXPECT_EQ(b.recorder.apps[0].type, 5);
  EXPECT_EQ(b.recorder.apps[1].type, 6);
  EXPECT_TRUE(b.recorder.apps[1].payload.empty());
}

TEST(Transport, MessagesToNobodyAreDroppedAndCounted) {
  TestNode a(test_options(1));
  a.transport.send({heartbeat(a.id, NodeId(9), 1), heartbeat(a.id, NodeId(9), 2)});
  a.transport.send_app(NodeId(9), 1, Bytes::copy_of("x"));
  EXPECT_TRUE(eventually([&] { return a.transport.stats().dropped_messages == 2; }));
  EXPECT_TRUE(eventually([&] { return a.transport.stats().dropped_app == 1; }));
}

TEST(Transport, APeerWhosePortIsClosedIsToldLostOnce) {
  TestNode a(test_options(1)), c(test_options(3));
  auto b = std::make_unique<TestNode>(test_options(2));
  introduce({&a, b.get(), &c});
  b.reset();
  ASSERT_TRUE(a.wait_lost(NodeId(2)));
  ASSERT_TRUE(c.wait_lost(NodeId(2)));
  EXPECT_TRUE(eventually([&] { return a.transport.stats().links_broken == 2; }));
  EXPECT_EQ(a.recorder.look([&] { return a.recorder.lost; }), std::vector<NodeId>{NodeId(2)});
}

TEST(Transport, ARestartedPeerIsReachedAgain) {
  TestNode a(test_options(1));
  auto b = std::make_unique<TestNode>(test_options(2));
  const HostPort address = b->address();
  introduce({&a, b.get()});
  b.reset();
  ASSERT_TRUE(a.wait_lost(NodeId(2)));
  TransportOptions options = test_options(2);
  options.listen = {address};
  b = std::make_unique<TestNode>(options);
  b->know({{a.id, {a.address()}}});
  ASSERT_TRUE(a.wait_up(NodeId(2), 2));
  ASSERT_TRUE(b->wait_up(a.id));
  a.transport.send({heartbeat(a.id, NodeId(2), 5)});
  b->transport.send({heartbeat(NodeId(2), a.id, 6)});
  EXPECT_TRUE(b->recorder.wait([&] { return b->recorder.messages.size() == 1; }));
  EXPECT_TRUE(a.recorder.wait([&] { return a.recorder.messages.size() == 1; }));
}

TEST(Transport, APeerThatNeverWasThereIsNotToldLost) {
  TestNode a(test_options(1));
  HostPort closed;
  { closed = TestNode(test_options(2)).address(); }
  TestNode c(test_options(3));
  a.know({{NodeId(2), {closed}}, {c.id, {c.address()}}});
  ASSERT_TRUE(a.wait_up(c.id));
  EXPECT_TRUE(a.recorder.look([&] { return a.recorder.lost.empty(); }));
}

TEST(Transport, ASecondAddressIsTriedWhenTheFirstIsClosed) {
  HostPort closed;
  { closed = TestNode(test_options(2)).address(); }
  TestNode a(test_options(1)), b(test_options(2));
  a.know({{b.id, {closed, b.address()}}});
  EXPECT_TRUE(a.wait_up(b.id));
}

TEST(Transport, NamesAreResolved) {
  TransportOptions options = test_options(2);
  TestNode a(test_options(1)), b(options);
  const std::string port = b.address().substr(b.address().rfind(':'));
  a.know({{b.id, {"localhost" + port}}});
  EXPECT_TRUE(a.wait_up(b.id));
}

TEST(Transport, APeerThatIsRemovedIsNoLongerReached) {
  TestNode a(test_options(1)), b(test_options(2));
  introduce({&a, &b});
  a.know({});
  EXPECT_TRUE(eventually([&] { return a.transport.stats().links_up == 0; }));
  EXPECT_TRUE(eventually([&] { return b.transport.stats().inbound == 0; }));
  EXPECT_TRUE(a.recorder.look([&] { return a.recorder.lost.empty(); }));
}

TEST(Transport, AnotherClusterIsRefusedAndReachedOnceItIsRight) {
  TransportOptions options = test_options(2);
  options.cluster_id = kCluster + 1;
  TestNode a(test_options(1));
  auto b = std::make_unique<TestNode>(options);
  const HostPort address = b->address();
  a.know({{NodeId(2), {address}}});
  EXPECT_TRUE(eventually([&] { return b->transport.stats().rejected >= 4; }));  // it goes on trying, slowly
  EXPECT_EQ(a.transport.stats().links_up, 0u);
  b.reset();
  options.cluster_id = kCluster;
  options.listen = {address};
  b = std::make_unique<TestNode>(options);
  EXPECT_TRUE(a.wait_up(NodeId(2)));
  EXPECT_TRUE(a.recorder.look([&] { return a.recorder.lost.empty(); }));
}

TEST(Transport, AnotherMemberAtThatAddressIsRefused) {
  TestNode a(test_options(1)), c(test_options(3));
  a.know({{NodeId(2), {c.address()}}});
  EXPECT_TRUE(eventually([&] { return c.transport.stats().rejected >= 2; }));
  EXPECT_EQ(a.transport.stats().links_up, 0u);
}

TEST(Transport, ASilentPeerIsHungUpOn) {
  // The listener accepts nothing and answers nothing, as a frozen process does.
  boost::asio::io_context io;
  boost::asio::ip::tcp::acceptor acceptor(io, {boost::asio::ip::address_v4::loopback(), 0});
  TransportOptions options = test_options(1);
  options.silence_max = Duration::millis(200);
  options.keepalive_interval = Duration::millis(20);
  TestNode a(options);
  a.know({{NodeId(2), {to_text(acceptor.local_endpoint())}}});
  // Greets both lanes, then falls silent.
  std::vector<boost::asio::ip::tcp::socket> sockets;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    sockets.push_back(acceptor.accept());
    std::string hello(kFrameHeadBytes + kHelloBytes, '\0');
    boost::asio::read(sockets.back(), boost::asio::buffer(hello));
    const std::string welcome = encode_welcome({kPeerProtocolVersion, DirectoryId(1)});
    FrameQueue queue(1 << 20, 100);
    queue.append(FrameType::kWelcome, welcome, {});
    iovec pieces[4];
    for (size_t i = 0, n = queue.gather(pieces, 4); i < n; ++i) {
      boost::asio::write(sockets.back(), boost::asio::buffer(pieces[i].iov_base, pieces[i].iov_len));
    }
  }
  EXPECT_TRUE(a.wait_up(NodeId(2)));
  EXPECT_TRUE(eventually([&] { return a.transport.stats().links_broken == 2; }));
  EXPECT_TRUE(a.recorder.look([&] { return a.recorder.lost.empty(); }));  // its port still answers
}

TEST(Transport, AnIdleLinkStaysUpBecauseBothSidesSayThatTheyLive) {
  TransportOptions one = test_options(1), two = test_options(2);
  for (TransportOptions* options : {&one, &two}) {
    options->keepalive_interval = Duration::millis(10);
    options->silence_max = Duration::seconds(5);
  }
  TestNode a(one), b(two);
  introduce({&a, &b});
  const uint64_t frames = a.transport.stats().sent_frames;
  EXPECT_TRUE(eventually([&] { return a.transport.stats().sent_frames > frames + 40; }));
  EXPECT_EQ(a.transport.stats().links_broken, 0u);
  EXPECT_EQ(a.transport.stats().links_up, 2u);
}

TEST(Transport, AQueueToAPeerThatDoesNotReadIsBoundedAndTheOtherLaneStillFlows) {
  TransportOptions options = test_options(1);
  options.queue_bytes_max = 1 << 20;
  TestNode a(options);
  std::atomic<bool> release{false};
  // A handler that does not return stops the reads of its whole node.
  class Stuck final : public TransportHandler {
   public:
    Stuck(std::atomic<bool>& release) : release_(release) {}
    void on_messages(std::vector<raft::Message>&& batch) override {
      received += batch.size();
      release_.wait(false);
    }
    void on_app(NodeId, uint8_t, Bytes) override {}
    void on_peer_lost(NodeId) override {}
    void on_peer_up(NodeId) override {}
    std::atomic<uint64_t> received{0};

   private:
    std::atomic<bool>& release_;
  } stuck(release);
  Transport b(test_options(2), stuck);
  ASSERT_TRUE(b.listen().is_ok());
  b.start();
  a.know({{NodeId(2), b.listening()}});
  ASSERT_TRUE(a.wait_up(NodeId(2)));

  // More than all kernel buffers and the queue hold.
  const std::string payload(256 << 10, 'x');
  uint64_t sent = 0;
  EXPECT_TRUE(eventually([&] {
    a.transport.send({append(a.id, NodeId(2), ++sent, payload)});
    return a.transport.stats().dropped_messages > 0;
  }));
  const uint64_t bytes_before = a.transport.stats().sent_bytes;
  a.transport.send({heartbeat(a.id, NodeId(2), 1)});  // the urgent lane is not behind them
  EXPECT_TRUE(eventually([&] { return a.transport.stats().sent_bytes > bytes_before; }));
  EXPECT_EQ(a.transport.stats().links_broken, 0u);

  release = true;
  release.notify_all();
  // Each of them, and the heartbeat, has arrived or was counted; the mailbox may have dropped some since the first.
  EXPECT_TRUE(eventually([&] { return stuck.received + a.transport.stats().dropped_messages == sent + 1; }));
  b.stop();
}

TEST(Transport, ARemovedMemberIsCutOffAndToldByThoseItCalls) {
  TestNode a(test_options(1)), b(test_options(2));
  introduce({&a, &b});
  a.transport.set_cluster({{}, {b.id}, 0, {}});
  EXPECT_TRUE(b.recorder.wait([&] { return !b.recorder.removed_by.empty(); }));
  EXPECT_EQ(b.recorder.look([&] { return b.recorder.removed_by.front(); }), a.id);
  EXPECT_TRUE(a.recorder.look([&] { return a.recorder.removed_by.empty(); }));
}

// A member whose directory was wiped founded its cluster again, alone; the old cluster still counts on it.
TEST(Transport, AMemberOfAnotherFoundingIsCutOffAndTheOneItCallsIsTold) {
  TestNode old(test_options(1)), young(test_options(2));
  introduce({&old, &young});
  young.transport.set_cluster({{}, {}, 20, {}});
  old.transport.set_cluster({{{young.id, {young.address()}}}, {}, 10, {}});
  // The link greeted before either knew of a founding; a new one tells.
  old.transport.set_cluster({{}, {}, 10, {}});
  old.transport.set_cluster({{{young.id, {young.address()}}}, {}, 10, {}});
  EXPECT_TRUE(young.recorder.wait([&] { return !young.recorder.founded_twice.empty(); }));
  EXPECT_EQ(young.recorder.look([&] { return young.recorder.founded_twice.front(); }), old.id);
}

TEST(Transport, StopsWithTrafficUnderWay) {
  for (int i = 0; i < 5; ++i) {
    TestNode a(test_options(1)), b(test_options(2));
    introduce({&a, &b});
    for (uint64_t k = 1; k < 50; ++k) a.transport.send({append(a.id, b.id, k, std::string(100000, 'x'))});
  }
}

}  // namespace
}  // namespace rallypoint::server
