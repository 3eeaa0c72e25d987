// Http1Session: one HTTP/1.x connection. Requests are served one after the other, in order, as the rule of the
// protocol is (RFC 9112 9.3.2): what a client sends ahead waits in the buffer, so that a pipelined GET sees the PUT
// before it. A read is always pending, also while an answer is awaited: it is how the session notices that a client
// has gone, and then it frees the client's watch.
//
//   idle -> receiving -> serving (waits for replies; a watch may stream) -> idle, or -> lingering -> closed
//
// Output gathers in one buffer; it is written without waiting, once per round of the loop. Owned by its NetLoop and
// by its pending socket operations; the loop's thread only. Never blocks, never throws at its callers.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "server/rpc/connection.h"
#include "server/rpc/exchange.h"
#include "server/rpc/http1_parser.h"

namespace rallypoint::server {

class NetLoop;
class Router;

class Http1Session final : public Connection, public Responder {
 public:
  Http1Session(NetLoop& loop, boost::asio::ip::tcp::socket&& socket, const Router& router);

  void start() override;
  void on_reply(Reply&& reply) override;
  void resume() override;
  void on_tick(uint64_t tick) override;
  void close() override;

  void respond(const ResponseHead& head, std::string_view body) override;
  void begin_stream(const ResponseHead& head) override;
  void stream_part(std::string_view part) override;
  void end_stream() override;
  [[nodiscard]] bool is_streaming() const override { return streaming_; }
  Call await(const Handler& handler, bool is_watch) override;
  void submit(Request&& request) override;
  void keep(std::unique_ptr<Exchange> exchange) override;
  Call new_call() override;
  [[nodiscard]] size_t queued_bytes() const override { return output_.size() - written_; }
  void wake_after(Duration delay) override;
  std::string& scratch() override;

 private:
  // input
  void read();
  void on_read(boost::system::error_code error, size_t bytes);
  /// Whether the first bytes are those of HTTP/2 (RFC 9113 3.4), or may still become so.
  enum class Protocol : uint8_t { kUnknown, kHttp1, kHttp2 };
  Protocol look();
  void parse();
  void on_parse_error(boost::system::error_code error);
  void dispatch();
  /// Answers outside of any handler, and closes behind the answer.
  void refuse(int status, std::string_view text);

  // output
  void write_head(const ResponseHead& head, std::optional<size_t> body_bytes);
  void flush();
  void finish_request();
  void linger();

  void set_deadline(std::chrono::milliseconds time);
  void cancel_watch();
  /// Tells the exchange, if there is one, that the client is gone.
  void abandon_exchange();
  /// Tells it that there is room again, if it waits for that.
  void offer_room();
  [[nodiscard]] std::shared_ptr<Http1Session> self();

  NetLoop& loop_;
  const Router& router_;
  boost::asio::ip::tcp::socket socket_;

  boost::beast::flat_buffer input_;
  Http1Request request_;
  std::optional<Http1Parser> parser_;  // of the request that is received or served

  std::string output_;
  size_t lingered_bytes_ = 0;  // read and thrown away since the refusal
  size_t written_ = 0;  // bytes of output_ that the socket has taken

  const Handler* handler_ = nullptr;  // awaits replies
  uint64_t token_ = 0;                // of the awaited call; 0 = none
  std::unique_ptr<Exchange> exchange_;           // of the request that is served, if it keeps one
  std::unique_ptr<Exchange> finished_exchange_;  // it may still be on the stack when its request ends
  uint64_t deadline_tick_ = 0;        // 0 = none
  uint64_t wake_tick_ = 0;            // likewise

  Protocol protocol_ = Protocol::kUnknown;
  bool reading_ = false;        // a read is pending
  bool write_waiting_ = false;  // the socket is full
  bool serving_ = false;        // a request is with its handler
  bool watching_ = false;       // ... and is a watch
  bool streaming_ = false;      // ... and its head is out
  bool full_ = false;           // ... and its exchange waits for on_writable()
  bool too_slow_ = false;       // ... and its client is so slow that it is cut off
  bool body_begun_ = false;     // the headers of the request are complete
  bool head_only_ = false;      // HEAD
  bool keep_alive_ = false;
  bool http10_ = false;
  bool input_ended_ = false;    // the client has closed its half
  bool closing_ = false;        // nothing more is served; close when the output is out
  bool lingering_ = false;
  bool closed_ = false;
};

}  // namespace rallypoint::server
