// Output side of the core: which writes are under way to the disk, and which messages wait for them.
//
// A vote, an ack or a staged snapshot piece is a promise that must survive a crash, so its message is held
// until the write that makes the promise true is durable (thesis 3.8, 10.2.1). Writes are numbered; a number
// never repeats in a process. The bookkeeping below also solves the ABA problem of logs:
//
//   write 1: entries 5 6 7 (term 1)      handed over
//   write 2: entry   6     (term 2)      cuts 6 and 7, handed over
//   Persisted{1}                         says nothing about the entry 6 that the log holds now
//
// so a cut shortens what every earlier write vouches for.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "raft/message.h"
#include "raft/types.h"

namespace rallypoint::raft {

class WriteTracker {
 public:
  struct Done {
    std::optional<Index> durable;           ///< the log is durable up to here
    std::optional<SnapshotMeta> installed;  ///< a snapshot's last piece is durable: it is installed
  };

  /// Numbers a write that is handed over now. `last` = last entry in it, 0 = none.
  WriteNumber hand_over(Index last, uint64_t now, std::optional<SnapshotMeta> installs);
  [[nodiscard]] WriteNumber last() const { return last_; }
  [[nodiscard]] WriteNumber persisted() const { return persisted_; }
  /// The log was cut: nothing from `from` on is vouched for any more.
  void truncate_from(Index from);
  /// Writes up to `number` are durable; what follows from it. Numbers that are old news do nothing.
  std::vector<Done> persisted_to(WriteNumber number);
  /// How long the oldest write has been under way at `now`; 0 if none is.
  [[nodiscard]] uint64_t oldest_age(uint64_t now) const {
    return under_way_.empty() ? 0 : now - under_way_.front().since;
  }

  /// Keeps `message` until `after` is durable. An ack that replaces the newest one to the same node takes its
  /// place.
  void hold(WriteNumber after, Message message);
  /// Moves what may go now to `out`.
  void release(std::vector<Message>& out);
  /// The term changed: promises made in the old one are void.
  void drop_held() { held_.clear(); }

 private:
  struct UnderWay {
    WriteNumber number;
    Index last;
    uint64_t since = 0;
    std::optional<SnapshotMeta> installs;
  };
  struct Held {
    WriteNumber after;
    Message message;
  };
  std::deque<UnderWay> under_way_;
  std::deque<Held> held_;  ///< `after` never falls
  WriteNumber last_;
  WriteNumber persisted_;
};

}  // namespace rallypoint::raft
