// RawH2Client: an HTTP/2 client that sends exactly the frames it is told to, valid or not, and notes everything that comes
// back, stream by stream. Of a client's duties it does by itself only what a test can't do without: it acknowledges the
// server's settings and decodes headers. It sends no window updates unless told to.
//
// Blocking, with RawClient's deadline on every read, so a lost answer is a failure and not a hang.
#pragma once

#include <google/protobuf/message_lite.h>
#include <nghttp2/nghttp2.h>

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "tests/server/raw_client.h"

namespace rallypoint::server {

namespace h2 {

enum Type : uint8_t { kData = 0, kHeaders = 1, kPriority = 2, kReset = 3, kSettings = 4, kPushPromise = 5, kPing = 6, kGoAway = 7, kWindowUpdate = 8, kContinuation = 9 };
enum Flag : uint8_t { kNone = 0, kAck = 1, kEndStream = 1, kEndHeaders = 4, kPadded = 8 };
inline constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
inline constexpr uint32_t kWindowMax = 0x7fffffff;

inline std::string number32(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8), static_cast<char>(value)};
}
inline uint32_t to_number32(std::string_view bytes) {
  const auto* at = reinterpret_cast<const uint8_t*>(bytes.data());
  return uint32_t{at[0]} << 24 | uint32_t{at[1]} << 16 | uint32_t{at[2]} << 8 | at[3];
}
/// One frame; the length is the payload's.
inline std::string frame(uint8_t type, uint8_t flags, int32_t stream, std::string_view payload = {}) {
  std::string bytes = number32(static_cast<uint32_t>(payload.size()) << 8 | type);
  bytes += static_cast<char>(flags);
  bytes += number32(static_cast<uint32_t>(stream));
  bytes += payload;
  return bytes;
}
inline std::string setting(uint16_t id, uint32_t value) {
  return std::string{static_cast<char>(id >> 8), static_cast<char>(id)} + number32(value);
}
/// gRPC's prefix and the message.
inline std::string message(std::string_view bytes, uint8_t compressed = 0) {
  std::string framed(1, static_cast<char>(compressed));
  framed += number32(static_cast<uint32_t>(bytes.size()));
  framed += bytes;
  return framed;
}

using Field = std::pair<std::string, std::string>;

}  // namespace h2

class RawH2Client {
 public:
  /// What came on one stream.
  struct Stream {
    std::vector<h2::Field> head;      ///< of the first HEADERS frame
    std::vector<h2::Field> trailers;  ///< of the second one
    std::string body;
    size_t header_frames = 0;
    bool ended = false;
    std::optional<uint32_t> reset;  ///< the code of an RST_STREAM

    /// Of the trailers, or of the head if there is nothing else; "" = not there.
    [[nodiscard]] std::string field(std::string_view name) const {
      for (const auto* fields : {&trailers, &head})
        for (const auto& [key, value] : *fields)
          if (key == name) return value;
      return "";
    }
    /// -1 = none.
    [[nodiscard]] int status() const { return field("grpc-status").empty() ? -1 : std::stoi(field("grpc-status")); }
    [[nodiscard]] std::string text() const { return field("grpc-message"); }
    /// The whole messages in the body.
    [[nodiscard]] std::vector<std::string> messages() const {
      std::vector<std::string> found;
      for (std::string_view left = body; left.size() >= 5;) {
        const size_t size = h2::to_number32(left.substr(1));
        if (left.size() - 5 < size) break;
        found.emplace_back(left.substr(5, size));
        left.remove_prefix(5 + size);
      }
      return found;
    }
  };

  explicit RawH2Client(uint16_t port) : socket_(port) {
    nghttp2_hd_deflate_new(&deflater_, 4096);
    nghttp2_hd_inflate_new(&inflater_);
  }
  ~RawH2Client() {
    nghttp2_hd_deflate_del(deflater_);
    nghttp2_hd_inflate_del(inflater_);
  }
  RawH2Client(const RawH2Client&) = delete;
  RawH2Client& operator=(const RawH2Client&) = delete;

  /// Preface and settings. `stream_window`: what each stream may send unasked; the connection's window is as wide as it gets.
  bool greet(uint32_t stream_window = h2::kWindowMax) {
    return send(std::string(h2::kPreface) + h2::frame(h2::kSettings, 0, 0, h2::setting(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, stream_window)) +
                h2::frame(h2::kWindowUpdate, 0, 0, h2::number32(h2::kWindowMax - 65535)));
  }
  bool send(std::string_view bytes) { return socket_.send(bytes); }
  bool send(uint8_t type, uint8_t flags, int32_t stream, std::string_view payload = {}) { return send(h2::frame(type, flags, stream, payload)); }
  void disconnect() { socket_.disconnect(); }

  /// The fields as a header block; the connection's table remembers them.
  std::string block(const std::vector<h2::Field>& fields) {
    std::vector<nghttp2_nv> list;
    for (const auto& [name, value] : fields)
      list.push_back({reinterpret_cast<uint8_t*>(const_cast<char*>(name.data())), reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())),
                      name.size(), value.size(), NGHTTP2_NV_FLAG_NONE});
    std::string bytes(nghttp2_hd_deflate_bound(deflater_, list.data(), list.size()), '\0');
    const ssize_t size = nghttp2_hd_deflate_hd(deflater_, reinterpret_cast<uint8_t*>(bytes.data()), bytes.size(), list.data(), list.size());
    bytes.resize(static_cast<size_t>(size));
    return bytes;
  }
  /// What a gRPC client sends first.
  static std::vector<h2::Field> head(std::string_view path, const std::vector<h2::Field>& more = {}) {
    std::vector<h2::Field> fields = {{":method", "POST"}, {":scheme", "http"}, {":path", std::string(path)}, {":authority", "localhost"},
                                     {"content-type", "application/grpc"}, {"te", "trailers"}};
    fields.insert(fields.end(), more.begin(), more.end());
    return fields;
  }
  int32_t next_stream() { return std::exchange(next_stream_, next_stream_ + 2); }
  /// Opens a stream with these fields and nothing else.
  int32_t open(const std::vector<h2::Field>& fields, bool end = false) {
    const int32_t stream = next_stream();
    send(h2::kHeaders, static_cast<uint8_t>(h2::kEndHeaders | (end ? h2::kEndStream : 0)), stream, block(fields));
    return stream;
  }
  int32_t open(std::string_view path, const std::vector<h2::Field>& more = {}) { return open(head(path, more)); }
  /// One message on an open stream, in frames of at most 16 KiB.
  void write(int32_t stream, std::string_view message, bool end = false) { write_bytes(stream, h2::message(message), end); }
  void write_bytes(int32_t stream, std::string_view bytes, bool end) {
    do {
      const std::string_view part = bytes.substr(0, 16384);
      bytes.remove_prefix(part.size());
      send(h2::kData, end && bytes.empty() ? h2::kEndStream : h2::kNone, stream, part);
    } while (!bytes.empty());
  }
  int32_t call(std::string_view path, const google::protobuf::MessageLite& request, const std::vector<h2::Field>& more = {}) {
    const int32_t stream = open(path, more);
    write(stream, request.SerializeAsString(), true);
    return stream;
  }
  void reset(int32_t stream, uint32_t code = NGHTTP2_CANCEL) { send(h2::kReset, 0, stream, h2::number32(code)); }
  void allow(int32_t stream, uint32_t bytes) { send(h2::kWindowUpdate, 0, stream, h2::number32(bytes)); }

  /// Takes one frame in; false = the connection or the time has ended.
  bool receive() {
    const std::string head = socket_.read_bytes(9);
    if (head.empty()) return false;
    const size_t size = h2::to_number32(head) >> 8;
    const std::string payload = size == 0 ? "" : socket_.read_bytes(size);
    if (payload.size() != size) return false;
    take(static_cast<uint8_t>(head[3]), static_cast<uint8_t>(head[4]), static_cast<int32_t>(h2::to_number32(head.substr(5))), payload);
    return true;
  }
  /// Until the server has ended the stream.
  const Stream& wait(int32_t stream) {
    while (!streams[stream].ended && !streams[stream].reset && receive()) {
    }
    return streams[stream];
  }
  /// Until the stream has so many whole messages, or its end.
  std::vector<std::string> wait_messages(int32_t stream, size_t count) {
    while (streams[stream].messages().size() < count && !streams[stream].ended && !streams[stream].reset && receive()) {
    }
    return streams[stream].messages();
  }
  /// Sends a ping and waits for its answer: the server lives, and has done with all that was sent before.
  bool alive() {
    const size_t before = ping_answers;
    if (!send(h2::kPing, 0, 0, "barrier!")) return false;
    while (ping_answers == before)
      if (!receive()) return false;
    return true;
  }
  /// Reads on until the connection ends; false = it does not.
  bool wait_closed() {
    while (receive()) {
    }
    return socket_.read_to_end() != "TIMEOUT";
  }

  std::map<int32_t, Stream> streams;
  std::optional<uint32_t> goaway;  ///< its error code
  std::string goaway_text;
  std::map<uint16_t, uint32_t> settings;  ///< the server's
  uint64_t window_updates = 0;            ///< bytes, of the connection as a whole
  size_t ping_answers = 0;
  bool acknowledge = true;  ///< the server's settings and pings

 private:
  void take(uint8_t type, uint8_t flags, int32_t stream, std::string_view payload) {
    switch (type) {
      case h2::kData: streams[stream].body += payload; break;
      case h2::kHeaders: {
        Stream& to = streams[stream];
        (++to.header_frames == 1 ? to.head : to.trailers) = inflate(payload);
        break;
      }
      case h2::kReset: streams[stream].reset = h2::to_number32(payload); return;
      case h2::kSettings:
        if ((flags & h2::kAck) != 0) return;
        for (; payload.size() >= 6; payload.remove_prefix(6))
          settings[static_cast<uint16_t>(static_cast<uint8_t>(payload[0]) << 8 | static_cast<uint8_t>(payload[1]))] = h2::to_number32(payload.substr(2));
        if (acknowledge) send(h2::kSettings, h2::kAck, 0);
        return;
      case h2::kPing:
        if ((flags & h2::kAck) != 0) ++ping_answers;
        else if (acknowledge) send(h2::kPing, h2::kAck, 0, payload);
        return;
      case h2::kGoAway:
        goaway = h2::to_number32(payload.substr(4));
        goaway_text = payload.substr(8);
        return;
      case h2::kWindowUpdate:
        if (stream == 0) window_updates += h2::to_number32(payload);
        return;
      default: return;
    }
    if ((flags & h2::kEndStream) != 0) streams[stream].ended = true;
  }
  std::vector<h2::Field> inflate(std::string_view block) {
    std::vector<h2::Field> fields;
    for (;;) {
      nghttp2_nv field;
      int flags = 0;
      const ssize_t used = nghttp2_hd_inflate_hd2(inflater_, &field, &flags, reinterpret_cast<const uint8_t*>(block.data()), block.size(), 1);
      if (used < 0) break;
      block.remove_prefix(static_cast<size_t>(used));
      if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0)
        fields.emplace_back(std::string(reinterpret_cast<char*>(field.name), field.namelen), std::string(reinterpret_cast<char*>(field.value), field.valuelen));
      if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0) break;
    }
    nghttp2_hd_inflate_end_headers(inflater_);
    return fields;
  }

  RawClient socket_;
  nghttp2_hd_deflater* deflater_ = nullptr;
  nghttp2_hd_inflater* inflater_ = nullptr;
  int32_t next_stream_ = 1;
};

}  // namespace rallypoint::server
