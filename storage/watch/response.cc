#include "storage/watch/response.h"

namespace rallypoint::watch {
namespace {
namespace wire = mvcc::wire;

size_t varint_size(uint64_t number) {
  size_t size = 1;
  for (; number >= 0x80; number >>= 7) ++size;
  return size;
}
size_t message_size(size_t bytes) { return 1 + varint_size(bytes) + bytes; }

}  // namespace

std::string response_head(const mvcc::HeaderInfo& header, int64_t revision) {
  std::string inner;
  wire::append_number(inner, 1, static_cast<int64_t>(header.cluster_id));
  wire::append_number(inner, 2, static_cast<int64_t>(header.member_id));
  wire::append_number(inner, 3, revision);
  wire::append_number(inner, 4, static_cast<int64_t>(header.raft_term));
  std::string out;
  wire::append_message(out, 1, inner);
  return out;
}

std::string event_field(const mvcc::Event& event, const std::optional<Bytes>& previous) {
  const size_t inner = (event.is_delete ? 2 : 0) + message_size(event.kv.size()) + (previous ? message_size(previous->size()) : 0);
  std::string out;
  out.reserve(message_size(inner));
  wire::append_varint(out, kEvents << 3 | 2);
  wire::append_varint(out, inner);
  wire::append_number(out, 1, event.is_delete ? 1 : 0);
  wire::append_message(out, 2, event.kv.view());
  if (previous) wire::append_message(out, 3, previous->view());
  return out;
}

std::vector<Bytes> responses_of(const mvcc::HeaderInfo& header, const std::vector<EncodedEvent>& events, int64_t upto, bool fragment, size_t bytes_max) {
  std::vector<Bytes> responses;
  const auto emit = [&](size_t from, size_t to, int64_t revision, bool more_of_it, size_t bytes) {
    std::string response = response_head(header, revision);
    response.reserve(response.size() + bytes + 2);
    wire::append_bool(response, kFragment, more_of_it);
    for (size_t i = from; i < to; ++i) response += *events[i].field;
    responses.emplace_back(std::move(response));
  };
  size_t from = 0;   // of the response in the making
  size_t bytes = 0;  // of its events
  const auto emit_whole = [&](size_t to) {
    if (to > from) emit(from, to, to == events.size() ? upto : events[to - 1].revision, false, bytes);
    from = to;
    bytes = 0;
  };
  for (size_t begin = 0, end = 0; begin < events.size(); begin = end) {
    size_t of_revision = 0;
    for (end = begin; end < events.size() && events[end].revision == events[begin].revision; ++end) of_revision += events[end].field->size();
    if (bytes + of_revision > bytes_max) emit_whole(begin);
    if (of_revision <= bytes_max || !fragment) {
      bytes += of_revision;
      continue;
    }
    const int64_t revision = end == events.size() ? upto : events[begin].revision;
    for (size_t i = begin; i < end; ++i) {
      if (i > from && bytes + events[i].field->size() > bytes_max) {
        emit(from, i, revision, true, bytes);
        from = i;
        bytes = 0;
      }
      bytes += events[i].field->size();
    }
    emit(from, end, revision, false, bytes);
    from = end;
    bytes = 0;
  }
  emit_whole(events.size());
  return responses;
}

Result<const std::string*> Encoder::get(size_t i, bool prev_kv) {
  const mvcc::Event& event = events_[i];
  if (!prev_kv || event.previous.main == 0) {
    if (plain_[i].empty()) plain_[i] = event_field(event, std::nullopt);
    return &plain_[i];
  }
  if (with_previous_.empty()) with_previous_.resize(events_.size());
  if (with_previous_[i].empty()) {
    auto previous = keyspace_.pair_at(event.previous);
    if (!previous.is_ok()) return previous.status();
    with_previous_[i] = event_field(event, *previous);
  }
  return &with_previous_[i];
}

}  // namespace rallypoint::watch
