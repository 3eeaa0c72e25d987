// Progress: what a leader knows about one other member's log, and how much it may have under way to it.
//
//   kProbe      one append at a time, until one is accepted: where the logs meet is not known
//   kReplicate  appends stream without waiting, up to the inflight bounds
//   kSnapshot   the member needs entries that are gone; a snapshot is on its way (or being made)
//
// Owned by the leader's part of CoreState; forgotten with the leadership. Invariant: match < next.
#pragma once

#include <deque>
#include <optional>

#include "raft/config.h"
#include "raft/types.h"

namespace rallypoint::raft {

/// One snapshot on its way to a follower; a single piece is under way at any time.
struct SnapshotTransfer {
  SnapshotMeta meta;
  uint64_t size = 0;     ///< bytes in all
  uint64_t offset = 0;   ///< what the follower has durably; the piece under way begins here
  bool reading = false;  ///< the driver has been asked for the piece at `offset`
  Ticks waited = 0;      ///< since the piece was sent
};

class Progress {
 public:
  enum class Mode : uint8_t { kProbe, kReplicate, kSnapshot };

  Progress(Member member, Index next) : id(member.id), directory(member.directory), next(next) {}

  NodeId id;
  /// The disk whose acks count. 0 only for a learner that was added without: the first disk that answers is
  /// it.
  DirectoryId directory;
  Mode mode = Mode::kProbe;
  Index match;                ///< durably equal to our log up to here
  Index next;                 ///< the first entry not sent yet
  Index commit_sent;          ///< the highest commit index that was sent
  uint64_t round = 0;         ///< the latest heartbeat round that was answered
  bool heard_before = false;  ///< the same for the check before
  bool heard = false;         ///< an answer came since the last check-quorum
  bool probe_sent = false;    ///< kProbe: an append is under way
  Ticks waited = 0;           ///< since the last answer that moved something, while something is under way
  std::optional<SnapshotTransfer> transfer;  ///< kSnapshot, once there is a snapshot

  [[nodiscard]] bool is_alive() const { return heard || heard_before; }
  [[nodiscard]] bool has_under_way() const { return probe_sent || !inflight_.empty(); }
  [[nodiscard]] bool may_send(const Config& config) const {
    if (mode == Mode::kProbe) return !probe_sent;
    return mode == Mode::kReplicate && inflight_.size() < config.inflight_appends_max &&
           inflight_bytes_ < config.inflight_bytes_max;
  }

  void become_probe();
  void become_replicate();
  void become_snapshot();
  /// An append that ends at `last` was sent.
  void sent(Index last, size_t bytes);
  /// An ack for `match`; true if it is news. Frees what it covers.
  bool acked(Index match);
  /// A refused append: `request_previous` was asked, the logs may meet at `meet`. False if it is old news.
  bool refused(Index request_previous, Index meet);

 private:
  struct Inflight {
    Index last;
    size_t bytes;
  };
  void clear_under_way();

  std::deque<Inflight> inflight_;
  size_t inflight_bytes_ = 0;
};

[[nodiscard]] const char* mode_name(Progress::Mode mode);

}  // namespace rallypoint::raft
