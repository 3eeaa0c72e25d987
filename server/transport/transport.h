// Transport: the links to the other members. Bytes of Raft messages (and of what the node forwards to another
// node) go out and come in here; nothing is understood, nothing is kept, nothing is retried: Raft resends.
//
// Owned by the node. One thread of its own, the peer loop, so that clients cannot delay a heartbeat; or, on few cores,
// the one whose rounds it shares (server/rounds.h). send(),
// send_app(), set_peers() and stats() may be called from any thread; they never block and never call back. The
// handler is called on the peer loop only.
//
// Why two connections per peer. Each node dials every peer twice: an *urgent* lane (votes, heartbeats, acks,
// read-index) and a *bulk* lane (appends with entries, snapshot pieces, forwarded requests). With one connection
// and a queue of two priorities a heartbeat would still wait behind the megabytes which the kernel's send buffer
// already holds; a full window to a slow peer would then look like a dead leader. The dialler only speaks, the
// acceptor only listens (both send keep-alives), so who may write what never needs to be negotiated. Messages of
// one lane arrive in order; across lanes, and across a reconnect, they do not (Raft does not mind).
//
// Bounds, so that no peer can harm this node: bytes and frames of each link's queue (beyond: dropped and counted),
// the size of a frame, the number of inbound connections, the time of a handshake, the silence of a link.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "raft/base/bytes.h"
#include "raft/base/status.h"
#include "raft/base/units.h"
#include "raft/message.h"


namespace rallypoint::server {

class Rounds;

/// "host:port", "10.0.0.1:2380", "[::1]:2380". Names are resolved anew at every dial.
using HostPort = std::string;

/// Where a member's peer port is. Several endpoints are tried in order.
struct PeerAddress {
  NodeId id;
  std::vector<HostPort> endpoints;
  friend bool operator==(const PeerAddress&, const PeerAddress&) = default;
};

struct TransportOptions {
  uint64_t cluster_id = 0;        ///< members of another cluster are refused by name
  NodeId self;                    ///< not 0
  DirectoryId directory;          ///< told to peers, for their logs
  std::vector<HostPort> listen;   ///< port 0 = any free one, see Transport::listening()

  size_t frame_bytes_max = 64 << 20;        ///< a larger frame ends its connection
  size_t queue_bytes_max = 32 << 20;        ///< per link; one frame always fits into an empty queue
  size_t queue_frames_max = 16384;          ///< per link
  size_t mailbox_messages_max = 65536;      ///< handed over by send() and not yet taken by the peer loop
  size_t inbound_connections_max = 128;     ///< beyond: the oldest without a hello goes, else the new one is refused
  size_t hello_bytes_max = 4096;            ///< the first frame of a connection
  Duration handshake_timeout = Duration::seconds(5);
  Duration connect_timeout = Duration::seconds(1);    ///< per endpoint
  Duration keepalive_interval = Duration::millis(250);  ///< a side that wrote nothing for so long says it lives
  Duration silence_max = Duration::millis(1500);        ///< a side that heard nothing for so long hangs up
  Duration refused_retry = Duration::seconds(5);  ///< after a hello was refused (wrong cluster, member, version)
  /// Names the first bad field.
  [[nodiscard]] Status validate() const;
};

class TransportHandler {
 public:
  virtual ~TransportHandler() = default;
  /// All that one read brought, in order. `from` and `to` of each have been checked against the connection.
  virtual void on_messages(std::vector<raft::Message>&& messages) = 0;
  virtual void on_app(NodeId from, uint8_t type, Bytes payload) = 0;
  /// A link to `peer` broke and its port refuses a new connection: its process is gone. Once per loss.
  virtual void on_peer_lost(NodeId peer) = 0;
  /// Both lanes to `peer` work (again): what is sent from now on has a way.
  virtual void on_peer_up(NodeId peer) = 0;
  /// `peer` says that this member was removed from the cluster. May be told more than once.
  virtual void on_removed(NodeId peer) { (void)peer; }
  /// `peer` knows this very member from another founding of the cluster: one of the two has no right to exist. Told to
  /// the side that was called.
  virtual void on_founded_twice(NodeId peer) { (void)peer; }
};

/// What a member knows of its cluster and tells others, or checks them by.
struct ClusterFacts {
  std::vector<PeerAddress> peers;  ///< whom to dial from now on; the entry for self is what others are told
  std::vector<NodeId> removed;     ///< whom to turn away for good
  uint64_t founding = 0;           ///< told in every hello (frame.h)
  Bytes answer;                    ///< to a node that asks which cluster this is
};

/// Counters since start. Written by the peer loop (dropped_* by senders too), readable from anywhere.
struct TransportStats {
  std::atomic<uint64_t> sent_frames{0}, sent_bytes{0}, writes{0};
  std::atomic<uint64_t> received_frames{0}, received_bytes{0}, reads{0};
  std::atomic<uint64_t> dropped_messages{0};  ///< Raft messages: no link, or its queue full
  std::atomic<uint64_t> dropped_app{0};       ///< the same for send_app()
  std::atomic<uint64_t> links_up{0};          ///< dialled lanes that work now; 2 per healthy peer
  std::atomic<uint64_t> inbound{0};           ///< accepted connections open now
  std::atomic<uint64_t> links_broken{0};
  std::atomic<uint64_t> rejected{0};          ///< inbound connections refused or ended for what they sent
};

class Transport {
 public:
  /// Requires options.validate() OK. `handler` must outlive stop(). With `shared` there is no thread: those rounds'
  /// thread is the peer loop, and has ended when stop() is called.
  Transport(TransportOptions options, TransportHandler& handler, Rounds* shared = nullptr);
  ~Transport();  ///< stops
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  /// Binds the peer port(s); the Status names the address that failed and why. Before start().
  Status listen();
  /// The bound addresses, with the real ports. After listen().
  [[nodiscard]] std::vector<HostPort> listening() const;

  void start();
  /// Closes everything and joins the thread; the handler is not called afterwards. Not from the handler. Idempotent.
  void stop();

  /// From now on. Links to peers that stay are kept, connections of removed members are ended.
  void set_cluster(ClusterFacts facts);
  void set_peers(std::vector<PeerAddress> peers) { set_cluster({std::move(peers), {}, 0, {}}); }

  /// Each goes to its `to`, a member or somebody who is connected and said where it can be dialled; unknown or
  /// unreachable = dropped and counted.
  void send(std::vector<raft::Message>&& messages);
  /// For the node's own use (forwarded proposals and their answers): delivered in order or dropped. `payload` is not
  /// copied, and must fit into frame_bytes_max.
  void send_app(NodeId to, uint8_t type, Bytes payload);

  [[nodiscard]] const TransportStats& stats() const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace rallypoint::server
