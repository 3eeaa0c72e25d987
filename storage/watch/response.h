// Encoded WatchResponses of which only watch_id is missing, put together from events as they lie. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "raft/base/bytes.h"
#include "storage/mvcc/keyspace.h"
#include "storage/mvcc/wire.h"

namespace rallypoint::watch {

// Field numbers of etcdserverpb.WatchResponse.
inline constexpr uint32_t kCreated = 3, kCanceled = 4, kCompactRevision = 5, kCancelReason = 6, kFragment = 7, kEvents = 11;

std::string response_head(const mvcc::HeaderInfo& header, int64_t revision);

/// An encoded mvccpb.Event as a field of a response.
std::string event_field(const mvcc::Event& event, const std::optional<Bytes>& previous);

struct EncodedEvent {
  int64_t revision = 0;
  const std::string* field = nullptr;
};
/// The events, in order, in as few responses as `bytes_max` allows. A revision is cut only if `fragment` is set, as etcd
/// marks it; a larger one is a large response. The header of each says how far it goes; of the last one: `upto`.
std::vector<Bytes> responses_of(const mvcc::HeaderInfo& header, const std::vector<EncodedEvent>& events, int64_t upto, bool fragment, size_t bytes_max);

/// The events of one publish or slice, encoded on demand, once with the pair before and once without.
class Encoder {
 public:
  Encoder(const std::vector<mvcc::Event>& events, const mvcc::Keyspace& keyspace) : events_(events), keyspace_(keyspace), plain_(events.size()) {}
  /// An engine error: the event can't be told to those who want the pair before it.
  Result<const std::string*> get(size_t i, bool prev_kv);

 private:
  const std::vector<mvcc::Event>& events_;
  const mvcc::Keyspace& keyspace_;
  std::vector<std::string> plain_, with_previous_;
};

}  // namespace rallypoint::watch
