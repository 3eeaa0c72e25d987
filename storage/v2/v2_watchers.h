// WatcherHub: who waits for what on this node, and which events each of them gets.
//
// Not replicated: every node has its own watchers. Owned by the apply loop, like the Tree whose events it is fed;
// never blocks, never does I/O: it answers with tokens, and the caller writes to the sockets. Indexed by path, so
// that thousands of watchers of other keys cost nothing when a key changes.
// Source of the rules: etcd's v2 API as observed (one event for a long poll, hidden keys, parents' deletes).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "storage/v2/v2_history.h"
#include "storage/v2/v2_types.h"

namespace rallypoint::v2 {

class WatcherHub {
 public:
  /// The caller's name for a watch; unique among those that are registered.
  using Token = uint64_t;

  struct Delivery {
    Token token;
    EventPtr event;
    bool last;  ///< the watch is over (a long poll got its event) and already forgotten here
  };

  /// What history already holds for a new watch. A long poll gets at most one event and is then not registered
  /// (`registered` = false); a stream gets all of them and is registered for the rest.
  struct Started {
    std::vector<EventPtr> events;
    bool registered = true;
  };

  /// Starts a watch. `now` = the store's index. Error 401 when `wait_index` lies before the history.
  std::variant<Started, Error> add(Token token, const WatchRequest& request, const History& history, uint64_t now);

  /// Forgets a watch (its client has gone). Unknown tokens are fine: the watch may just have ended.
  void cancel(Token token);

  /// Appends to `out` who is to get `event`, by token. Refreshes wake nobody.
  void match(const EventPtr& event, std::vector<Delivery>& out);

  /// The state was replaced (a snapshot was installed), so what happened in between is unknown: forgets all
  /// watches and returns their tokens; each is to be told cleared_by_recovery().
  std::vector<Token> end_all();
  /// Error 400 "watcher is cleared due to etcd recovery".
  static Error cleared_by_recovery(uint64_t now);

  [[nodiscard]] size_t size() const { return by_token_.size(); }

 private:
  struct Watch {
    Token token;
    bool recursive;
    bool stream;
    uint64_t since;
  };
  /// All watches of one path, oldest first.
  using AtPath = std::vector<Watch>;
  using Paths = std::map<std::string, AtPath, std::less<>>;

  /// Serves those watches at `place` that are to see the event. Returns the place after it.
  Paths::iterator serve(Paths::iterator place, const EventPtr& event, std::vector<Delivery>& out);

  Paths paths_;
  std::unordered_map<Token, std::string> by_token_;
};

}  // namespace rallypoint::v2
