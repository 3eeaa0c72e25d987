// One request and its answer, as a handler sees them: independent of the protocol underneath, so that HTTP/1.1 and a
// later HTTP/2 session serve the same table of handlers.
//
// Handlers are stateless and shared by all net loops; whatever belongs to one request lives in its Responder (the
// session) or comes back in the Reply. Everything here is touched by the one net loop that owns the connection.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "raft/base/check.h"
#include "server/api/api.h"

namespace rallypoint::server {

/// A header field: the name in lower case, and its value.
using HttpField = std::pair<std::string, std::string>;

/// A complete request. The views live until it is answered.
struct HttpRequest {
  std::string_view method;  ///< as sent, e.g. "PUT"
  std::string_view target;  ///< origin form: path and query, not decoded
  std::string_view path;    ///< the target without its query, not decoded
  std::string_view query;   ///< without '?'
  std::string_view content_type;
  std::string_view body;
  std::span<const HttpField> metadata;  ///< what gRPC would call so: see http1_parser.h
  [[nodiscard]] bool is_get() const { return method == "GET" || method == "HEAD"; }
};

/// Status line and headers of an answer, without those that the session knows better (length, connection, date).
/// Holds no memory of its own but for numbers: names and texts must outlive the call that sends it.
class ResponseHead {
 public:
  static constexpr size_t kFieldsMax = 6;
  struct Field { std::string_view name, value; };

  explicit ResponseHead(int status, std::string_view content_type = "") : status_(status), content_type_(content_type) {}
  ResponseHead(const ResponseHead&) = delete;
  ResponseHead& operator=(const ResponseHead&) = delete;

  void add(std::string_view name, std::string_view value) {
    RALLY_CHECK(count_ < kFieldsMax);
    fields_[count_++] = {name, value};
  }
  void add_number(std::string_view name, uint64_t number) {
    char* begin = digits_.data() + count_ * kDigitsMax;
    char* end = std::to_chars(begin, begin + kDigitsMax, number).ptr;
    add(name, {begin, static_cast<size_t>(end - begin)});
  }

  [[nodiscard]] int status() const { return status_; }
  [[nodiscard]] std::string_view content_type() const { return content_type_; }
  [[nodiscard]] const Field* begin() const { return fields_.data(); }
  [[nodiscard]] const Field* end() const { return fields_.data() + count_; }

 private:
  static constexpr size_t kDigitsMax = 20;  // 2^64 - 1 has 20 digits
  int status_;
  std::string_view content_type_;
  size_t count_ = 0;
  std::array<Field, kFieldsMax> fields_;
  std::array<char, kFieldsMax * kDigitsMax> digits_;
};

class Handler;

/// What belongs to one request that is more than a question and an answer: it keeps state, makes several calls, or its
/// answer is a stream that goes at the client's pace. Owned by the session; destroyed some time after the request is over.
class Exchange {
 public:
  virtual ~Exchange() = default;
  /// To the call that was made last; replies to earlier ones are dropped.
  virtual void on_reply(Reply&& reply) = 0;
  /// What was sent has gone out, after there was a lot of it (kRpcStreamHighWater).
  virtual void on_writable() {}
  virtual void on_wake() {}
  /// The client is gone before the end. Must free what the backend holds; nothing may be sent any more.
  virtual void on_gone() {}
  /// It may last as long as the client wants, so a client that closes its half of the connection is gone.
  [[nodiscard]] virtual bool lasts() const { return false; }
};

/// Where the answer to one request goes. Exactly one of: respond(); or begin_stream(), any number of stream_part(),
/// end_stream(). Views are copied before the calls return. After the last call the request is over.
class Responder {
 public:
  virtual void respond(const ResponseHead& head, std::string_view body) = 0;

  /// Sends the head at once; the body follows in parts whose number nobody knows yet.
  virtual void begin_stream(const ResponseHead& head) = 0;
  virtual void stream_part(std::string_view part) = 0;
  virtual void end_stream() = 0;
  [[nodiscard]] virtual bool is_streaming() const = 0;

  /// A new call for the backend; its replies go to `handler`. `is_watch`: when the client disappears, the session
  /// cancels the call with CancelWatch. One call at a time.
  virtual Call await(const Handler& handler, bool is_watch) = 0;
  /// Goes to the backend together with all other requests of this round of the loop.
  virtual void submit(Request&& request) = 0;

  /// Instead of await(): replies and all else that happens go to the exchange. First of all, and once.
  virtual void keep(std::unique_ptr<Exchange> exchange) = 0;
  /// Of an exchange: a new call for the backend, in place of the one before.
  virtual Call new_call() = 0;
  /// Bytes of the answer that the connection has not taken yet.
  [[nodiscard]] virtual size_t queued_bytes() const = 0;
  /// Exchange::on_wake() once, at least so much later; a later call replaces an earlier one.
  virtual void wake_after(Duration delay) = 0;

  /// An empty string that keeps its capacity from use to use; valid until the handler returns.
  virtual std::string& scratch() = 0;

 protected:
  ~Responder() = default;
};

class Handler {
 public:
  virtual ~Handler() = default;
  /// Answers, or awaits and submits.
  virtual void handle(const HttpRequest& request, Responder& responder) const = 0;
  /// A reply to the call that this handler awaited.
  virtual void on_reply(Reply&& reply, Responder& responder) const {
    (void)reply, (void)responder;
    RALLY_CHECK(false, "a handler that awaits must take replies", 0);
  }
};

/// Text answers that many handlers give.
void respond_text(Responder& responder, int status, std::string_view text);
/// 405 with `Allow: allowed`.
void respond_method_not_allowed(Responder& responder, std::string_view allowed);

}  // namespace rallypoint::server
