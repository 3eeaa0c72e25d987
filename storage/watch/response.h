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

inline std::string response_head(const mvcc::HeaderInfo& header, int64_t revision) {
  namespace wire = mvcc::wire;
  std::string inner;
  wire::append_number(inner, 1, static_cast<int64_t>(header.cluster_id));
  wire::append_number(inner, 2, static_cast<int64_t>(header.member_id));
  wire::append_number(inner, 3, revision);
  wire::append_number(inner, 4, static_cast<int64_t>(header.raft_term));
  std::string out;
  wire::append_message(out, 1, inner);
  return out;
}

/// An encoded mvccpb.Event as a field of a response.
inline std::string event_field(const mvcc::Event& event, const std::optional<Bytes>& previous) {
  namespace wire = mvcc::wire;
  std::string inner;
  inner.reserve(event.kv.size() + (previous ? previous->size() : 0) + 16);
  wire::append_number(inner, 1, event.is_delete ? 1 : 0);
  wire::append_message(inner, 2, event.kv.view());
  if (previous) wire::append_message(inner, 3, previous->view());
  std::string out;
  out.reserve(inner.size() + 8);
  wire::append_message(out, kEvents, inner);
  return out;
}

/// One response, or, above `fragment_bytes` (0 = never), several, cut between events.
inline std::vector<Bytes> responses_of(const std::string& head, const std::vector<const std::string*>& events, size_t fragment_bytes) {
  std::vector<Bytes> responses;
  std::string current = head;
  for (const std::string* event : events) {
    if (fragment_bytes != 0 && current.size() > head.size() && current.size() + event->size() > fragment_bytes) {
      mvcc::wire::append_bool(current, kFragment, true);
      responses.emplace_back(std::move(current));
      current = head;
    }
    current += *event;
  }
  responses.emplace_back(std::move(current));
  return responses;
}

}  // namespace rallypoint::watch
