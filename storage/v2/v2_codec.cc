#include "storage/v2/v2_codec.h"

#include <cstring>
#include <utility>

namespace rallypoint::v2 {
namespace {

constexpr uint8_t kIsDir = 1;
constexpr uint8_t kHasDeadline = 2;
constexpr uint8_t kHasValue = 4;
constexpr uint8_t kHasPrevNode = 1;

void append_varint(std::string& out, uint64_t number) {
  while (number >= 0x80) {
    out.push_back(static_cast<char>(number | 0x80));
    number >>= 7;
  }
  out.push_back(static_cast<char>(number));
}

void append_signed(std::string& out, int64_t number) {
  append_varint(out, (static_cast<uint64_t>(number) << 1) ^ static_cast<uint64_t>(number >> 63));
}

void append_field(std::string& out, std::string_view field) {
  append_varint(out, field.size());
  out.append(field);
}

/// Reads from the front of a row; after the first failure everything reads as zero and ok() is false.
class Reader {
 public:
  explicit Reader(std::string_view row) : rest_(row) {}
  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] std::string_view rest() const { return rest_; }

  uint8_t byte() {
    if (rest_.empty()) return fail();
    auto value = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return value;
  }
  uint64_t varint() {
    uint64_t number = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint8_t next = byte();
      number |= static_cast<uint64_t>(next & 0x7f) << shift;
      if (next < 0x80) return number;
    }
    return fail();
  }
  int64_t signed_varint() {
    const uint64_t number = varint();
    return static_cast<int64_t>((number >> 1) ^ (~(number & 1) + 1));
  }
  std::string_view field() {
    const uint64_t size = varint();
    if (size > rest_.size()) {
      fail();
      return {};
    }
    auto field = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return field;
  }
  uint8_t fail() {
    ok_ = false;
    rest_ = {};
    return 0;
  }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

void append_view(std::string& out, const NodeView& view, bool with_key) {
  out.push_back(static_cast<char>((view.dir ? kIsDir : 0) | (view.value ? kHasValue : 0)));
  if (with_key) append_field(out, view.key);
  append_signed(out, view.ttl_s);
  append_signed(out, view.expiration_unix_ns);
  append_varint(out, view.modified_index);
  append_varint(out, view.created_index);
  if (view.value) append_field(out, view.value->view());
}

NodeView take_view(Reader& reader, const std::string* key) {
  NodeView view;
  const uint8_t flags = reader.byte();
  view.dir = flags & kIsDir;
  view.key = key ? *key : std::string(reader.field());
  view.ttl_s = reader.signed_varint();
  view.expiration_unix_ns = reader.signed_varint();
  view.modified_index = reader.varint();
  view.created_index = reader.varint();
  if (flags & kHasValue) view.value = Bytes::copy_of(reader.field());
  return view;
}

}  // namespace

std::string encode_meta(const MetaRow& meta) {
  std::string row(1, kRowVersion);
  append_varint(row, meta.index);
  append_varint(row, meta.dropped_through);
  return row;
}

Result<MetaRow> decode_meta(std::string_view row) {
  Reader reader(row);
  if (reader.byte() != kRowVersion) return Status::data_loss("v2 row 2m has an unknown format version");
  MetaRow meta;
  meta.index = reader.varint();
  meta.dropped_through = reader.varint();
  if (!reader.ok() || !reader.rest().empty()) return Status::data_loss("v2 row 2m is damaged");
  return meta;
}

std::string node_row_key(std::string_view path) {
  std::string key;
  key.reserve(kNodeRows.size() + path.size());
  return key.append(kNodeRows).append(path);
}

std::string encode_node(const Node& node) {
  std::string row;
  row.reserve(2 + 4 * 10 + node.value.size());
  row.push_back(kRowVersion);
  row.push_back(static_cast<char>((node.dir ? kIsDir : 0) | (node.deadline ? kHasDeadline : 0)));
  append_varint(row, node.created_index);
  append_varint(row, node.modified_index);
  if (node.deadline) {
    append_signed(row, node.deadline->us);
    append_signed(row, node.expiration_unix_ns);
  }
  row.append(node.value.view());
  return row;
}

bool decode_node(std::string_view row, Node& node) {
  Reader reader(row);
  if (reader.byte() != kRowVersion) return false;
  const uint8_t flags = reader.byte();
  node.dir = flags & kIsDir;
  node.created_index = reader.varint();
  node.modified_index = reader.varint();
  if (flags & kHasDeadline) {
    node.deadline = Instant{reader.signed_varint()};
    node.expiration_unix_ns = reader.signed_varint();
  }
  if (!reader.ok() || (node.dir && !reader.rest().empty())) return false;
  node.value = Bytes::copy_of(reader.rest());
  return true;
}

std::string history_row_key(uint64_t first_index) {
  std::string key(kHistoryRows);
  for (int shift = 56; shift >= 0; shift -= 8) key.push_back(static_cast<char>(first_index >> shift));
  return key;
}

std::string begin_history_row(uint64_t count) {
  std::string row(1, kRowVersion);
  append_varint(row, count);
  return row;
}

std::optional<uint64_t> open_history_row(std::string_view& row) {
  Reader reader(row);
  if (reader.byte() != kRowVersion) return std::nullopt;
  const uint64_t count = reader.varint();
  if (!reader.ok()) return std::nullopt;
  row = reader.rest();
  return count;
}

void append_event(std::string& out, const Event& event) {
  std::string body;
  body.reserve(64 + event.node.key.size() + (event.node.value ? event.node.value->size() : 0) +
               (event.prev_node && event.prev_node->value ? event.prev_node->value->size() : 0));
  body.push_back(static_cast<char>(event.action));
  body.push_back(static_cast<char>(event.prev_node ? kHasPrevNode : 0));
  append_view(body, event.node, true);
  if (event.prev_node) append_view(body, *event.prev_node, false);
  append_field(out, body);
}

EventPtr take_event(std::string_view& row) {
  Reader outer(row);
  Reader reader(outer.field());
  auto event = std::make_shared<Event>();
  const uint8_t action = reader.byte();
  const uint8_t flags = reader.byte();
  event->node = take_view(reader, nullptr);
  if (flags & kHasPrevNode) event->prev_node = take_view(reader, &event->node.key);
  if (!outer.ok() || !reader.ok() || !reader.rest().empty()) return nullptr;
  if (action > static_cast<uint8_t>(Action::kExpire)) return nullptr;
  event->action = static_cast<Action>(action);
  event->etcd_index = event->node.modified_index;
  row = outer.rest();
  return event;
}

void Digest::add(uint64_t number) {
  state_ = (state_ ^ number) * 0xff51afd7ed558ccd;
  state_ ^= state_ >> 32;
}

void Digest::add(std::string_view field) {
  add(field.size());
  for (; field.size() >= 8; field.remove_prefix(8)) {
    uint64_t word;
    std::memcpy(&word, field.data(), 8);
    add(word);
  }
  uint64_t tail = 0;
  std::memcpy(&tail, field.data(), field.size());
  add(tail);
}

}  // namespace rallypoint::v2
