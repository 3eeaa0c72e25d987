#include "server/rpc/http1_session.h"

#include <boost/beast/http/error.hpp>
#include <algorithm>
#include <charconv>

#include "server/rpc/http1_writer.h"
#include "server/rpc/net_loop.h"
#include "server/rpc/rpc.h"

namespace rallypoint::server {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

namespace {
constexpr size_t kReadBytesMin = 4 << 10;
constexpr size_t kKeptOutputBytes = 64 << 10;
}  // namespace

Http1Session::Http1Session(NetLoop& loop, asio::ip::tcp::socket&& socket, const Router& router)
    : loop_(loop), router_(router), socket_(std::move(socket)) {}

std::shared_ptr<Http1Session> Http1Session::self() { return std::static_pointer_cast<Http1Session>(shared_from_this()); }

void Http1Session::start() {
  error_code ignored;
  socket_.non_blocking(true, ignored);
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  // A peer whose machine died while it waits in a watch is found by the kernel's probes.
  socket_.set_option(asio::socket_base::keep_alive(true), ignored);
  using KeepIdle = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPIDLE>;
  using KeepInterval = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPINTVL>;
  socket_.set_option(KeepIdle(30), ignored);
  socket_.set_option(KeepInterval(10), ignored);
  // A new connection has to say something soon; only one that was used before may rest long.
  set_deadline(loop_.limits().header_timeout);
  read();
}

// ---- input --------------------------------------------------------------------------------------------------

void Http1Session::read() {
  if (reading_ || closed_ || input_ended_) return;
  // Ahead of the answer only so much is taken. A body is not ahead: the parser takes it out of the buffer.
  if ((serving_ || closing_) && !lingering_ && input_.size() >= loop_.limits().ahead_bytes_max) return;
  reading_ = true;
  const size_t room = std::max(kReadBytesMin, input_.capacity() - input_.size());
  socket_.async_read_some(input_.prepare(std::min<size_t>(room, 64 << 10)),
                          [self = self()](error_code error, size_t bytes) { self->on_read(error, bytes); });
}

void Http1Session::on_read(error_code error, size_t bytes) {
  reading_ = false;
  if (closed_) return;
  if (error == asio::error::eof) {
    input_ended_ = true;
    // Half a close is what an impatient client does too. A watch is over; a plain request is still answered.
    if (!serving_ || watching_ || lingering_ || (exchange_ && exchange_->lasts())) return close();
    return;
  }
  if (error) return close();
  loop_.counters().bytes_received.fetch_add(bytes, std::memory_order_relaxed);
  if (lingering_) {
    lingered_bytes_ += bytes;
    return lingered_bytes_ > loop_.limits().linger_bytes_max ? close() : read();
  }
  input_.commit(bytes);
  if (protocol_ == Protocol::kUnknown) {
    protocol_ = look();
    if (protocol_ == Protocol::kUnknown) return read();
    if (protocol_ == Protocol::kHttp2 && &router_ != &loop_.router()) return close();  // no gRPC on a metrics port
    if (protocol_ == Protocol::kHttp2) {
      closed_ = true;  // of this session; the socket lives on
      const auto received = input_.data();
      return loop_.become_http2(*this, std::move(socket_), std::string(static_cast<const char*>(received.data()), received.size()));
    }
  }
  resume();
}

Http1Session::Protocol Http1Session::look() {
  constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  const auto data = input_.data();
  const std::string_view received(static_cast<const char*>(data.data()), std::min(data.size(), kPreface.size()));
  if (!kPreface.starts_with(received)) return Protocol::kHttp1;
  return received.size() == kPreface.size() ? Protocol::kHttp2 : Protocol::kUnknown;
}

void Http1Session::resume() {
  finished_exchange_.reset();
  if (too_slow_) close();
  if (closed_) return;
  parse();
  flush();
  read();
}

void Http1Session::parse() {
  while (!serving_ && !closing_ && !closed_ && input_.size() != 0) {
    if (!parser_) {
      parser_.emplace(request_, loop_.limits());
      body_begun_ = false;
      set_deadline(loop_.limits().header_timeout);
    }
    error_code error;
    const size_t used = parser_->put(input_.data(), error);
    input_.consume(used);
    if (error && error != http::error::need_more) return on_parse_error(error);
    if (parser_->is_done()) {
      dispatch();
      continue;
    }
    if (parser_->is_header_done() && !body_begun_) {
      body_begun_ = true;
      set_deadline(loop_.limits().body_timeout);
      if (request_.expects_continue && input_.size() == 0) output_ += "HTTP/1.1 100 Continue\r\n\r\n";
    }
    if (error || used == 0) return;  // more has to arrive
  }
  if (input_ended_ && !serving_) closing_ = true;
}

void Http1Session::on_parse_error(error_code error) {
  const HttpLimits& limits = loop_.limits();
  if (error == http::error::header_limit)
    return refuse(431, "431 Request Header Fields Too Large: the limit is " + std::to_string(limits.header_bytes_max) +
                           " bytes\n");
  if (error == http::error::body_limit) {
    const uint64_t most = request_.target.starts_with("/v3") ? limits.gateway_body_bytes_max : limits.body_bytes_max;
    return refuse(413, "413 Request Entity Too Large: the limit is " + std::to_string(most) + " bytes (option max-request-bytes)\n");
  }
  if (error == http::error::bad_version)
    return refuse(505, "505 HTTP Version Not Supported: this port speaks HTTP/1.1 and HTTP/1.0\n");
  refuse(400, "400 Bad Request: " + error.message() + "\n");
}

void Http1Session::dispatch() {
  loop_.counters().requests.fetch_add(1, std::memory_order_relaxed);
  keep_alive_ = parser_->keep_alive();
  head_only_ = request_.method == "HEAD";
  http10_ = request_.version < 11;
  if (!http10_ && !request_.has_host) return refuse(400, "400 Bad Request: missing required Host header\n");

  HttpRequest request;
  request.method = request_.method;
  request.target = request_.target;
  // Absolute form (RFC 9112 3.2.2), as a client sends it to a proxy.
  if (request.target.starts_with("http://")) {
    const size_t slash = request.target.find('/', 7);
    request.target = slash == std::string_view::npos ? std::string_view("/") : request.target.substr(slash);
  }
  const size_t mark = request.target.find('?');
  request.path = request.target.substr(0, mark);
  if (mark != std::string_view::npos) request.query = request.target.substr(mark + 1);
  request.content_type = request_.content_type;
  request.body = request_.body;
  request.metadata = request_.metadata;

  serving_ = true;
  deadline_tick_ = 0;
  router_.find(request.path).handle(request, *this);
}

void Http1Session::refuse(int status, std::string_view text) {
  loop_.counters().bad_requests.fetch_add(1, std::memory_order_relaxed);
  serving_ = true;
  keep_alive_ = false;
  respond_text(*this, status, text);
}

// ---- the handler's side -------------------------------------------------------------------------------------

Call Http1Session::await(const Handler& handler, bool is_watch) {
  RALLY_CHECK(serving_ && token_ == 0);
  handler_ = &handler;
  token_ = loop_.make_token(*this);
  watching_ = is_watch;
  return {&loop_, token_};
}

void Http1Session::keep(std::unique_ptr<Exchange> exchange) {
  RALLY_CHECK(serving_ && token_ == 0 && !exchange_);
  exchange_ = std::move(exchange);
}

Call Http1Session::new_call() {
  token_ = loop_.make_token(*this);
  return {&loop_, token_};
}

void Http1Session::wake_after(Duration delay) { wake_tick_ = loop_.tick_after(std::chrono::milliseconds((delay.us + 999) / 1000)); }

void Http1Session::submit(Request&& request) { loop_.submit(std::move(request)); }

std::string& Http1Session::scratch() { return loop_.scratch(); }

void Http1Session::on_reply(Reply&& reply) {
  if (closed_ || reply.token != token_) return;
  if (exchange_) return exchange_->on_reply(std::move(reply));
  if (reply.final) watching_ = false;  // nothing left to cancel
  handler_->on_reply(std::move(reply), *this);
}

void Http1Session::respond(const ResponseHead& head, std::string_view body) {
  RALLY_CHECK(serving_ && !streaming_);
  write_head(head, body.size());
  if (!head_only_) output_ += body;
  finish_request();
}

void Http1Session::begin_stream(const ResponseHead& head) {
  RALLY_CHECK(serving_ && !streaming_);
  if (http10_) keep_alive_ = false;  // no chunks there: the body ends with the connection
  write_head(head, std::nullopt);
  if (head_only_) return finish_request();
  streaming_ = true;
}

void Http1Session::stream_part(std::string_view part) {
  RALLY_CHECK(streaming_);
  if (part.empty()) return;  // an empty chunk would end the body
  if (exchange_) {
    // It is cut off when it is not on the stack.
    too_slow_ |= queued_bytes() > loop_.limits().exchange_bytes_max;
    full_ |= queued_bytes() + part.size() >= kRpcStreamHighWater;
    if (too_slow_) return;
  } else if (queued_bytes() > loop_.limits().stream_bytes_max) {
    return close();
  }
  if (http10_) {
    output_ += part;
    return;
  }
  char size[20];
  const auto end = std::to_chars(size, size + sizeof size, part.size(), 16).ptr;
  output_.append(size, end);
  output_ += "\r\n";
  output_ += part;
  output_ += "\r\n";
}

void Http1Session::end_stream() {
  if (closed_) return;  // stream_part may have closed on a slow client
  RALLY_CHECK(streaming_);
  if (!http10_) output_ += "0\r\n\r\n";
  finish_request();
}

void Http1Session::finish_request() {
  cancel_watch();  // the answer to HEAD ends while the watch stands
  serving_ = streaming_ = watching_ = full_ = false;
  handler_ = nullptr;
  finished_exchange_ = std::move(exchange_);
  token_ = wake_tick_ = 0;
  parser_.reset();
  if (!keep_alive_) closing_ = true;
  set_deadline(closing_ ? loop_.limits().write_timeout : loop_.limits().idle_timeout);
}

// ---- output -------------------------------------------------------------------------------------------------

void Http1Session::write_head(const ResponseHead& head, std::optional<size_t> body_bytes) {
  http1::append_status_line(output_, head.status());
  for (const ResponseHead::Field& field : head) http1::append_field(output_, field.name, field.value);
  if (!head.content_type().empty()) http1::append_field(output_, "Content-Type", head.content_type());
  http1::append_field(output_, "Date", loop_.date());
  if (head.status() == 204) {
    // Has no body by definition, so states no length (RFC 9110 8.6).
  } else if (body_bytes) {
    http1::append_number_field(output_, "Content-Length", *body_bytes);
  } else if (!http10_) {
    output_ += "Transfer-Encoding: chunked\r\n";
  }
  if (!keep_alive_) {
    output_ += "Connection: close\r\n";
  } else if (http10_) {
    output_ += "Connection: keep-alive\r\n";
  }
  output_ += "\r\n";
}

void Http1Session::flush() {
  if (closed_ || write_waiting_) return;
  while (written_ < output_.size()) {
    error_code error;
    const size_t bytes = socket_.write_some(asio::buffer(output_.data() + written_, output_.size() - written_), error);
    if (error == asio::error::would_block) {
      write_waiting_ = true;
      set_deadline(loop_.limits().write_timeout);
      socket_.async_wait(asio::ip::tcp::socket::wait_write, [self = self()](error_code failed) {
        self->write_waiting_ = false;
        if (self->closed_) return;
        if (failed) return self->close();
        self->flush();
        // Room again: the write deadline is done with, unless flush() has set a new one.
        if (!self->write_waiting_ && self->serving_) self->deadline_tick_ = 0;
      });
      return offer_room();
    }
    if (error) return close();
    written_ += bytes;
    loop_.counters().bytes_sent.fetch_add(bytes, std::memory_order_relaxed);
  }
  output_.clear();
  written_ = 0;
  if (output_.capacity() > kKeptOutputBytes) output_.shrink_to_fit();
  if (closing_ && !lingering_) linger();
  offer_room();
}

void Http1Session::offer_room() {
  if (!exchange_ || !full_ || queued_bytes() >= kRpcStreamLowWater) return;
  full_ = false;
  exchange_->on_writable();
}

void Http1Session::linger() {
  // Closing at once with unread input would make the kernel reset the connection and throw the answer away, so:
  // close our half, and read until the client closes its own (or time is up). RFC 9112 9.6.
  lingering_ = true;
  error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  if (input_ended_) return close();
  input_.consume(input_.size());
  set_deadline(loop_.limits().linger_timeout);
  read();
}

// ---- life ---------------------------------------------------------------------------------------------------

void Http1Session::set_deadline(std::chrono::milliseconds time) { deadline_tick_ = loop_.tick_after(time); }

void Http1Session::on_tick(uint64_t tick) {
  if (exchange_ && wake_tick_ != 0 && tick >= wake_tick_) {
    wake_tick_ = 0;
    exchange_->on_wake();
    resume();
  }
  if (closed_ || deadline_tick_ == 0 || tick < deadline_tick_) return;
  const bool received_part = parser_.has_value() && !serving_;
  if (received_part && !closing_) {
    refuse(408, "408 Request Timeout: the request did not arrive in time\n");
    return flush();
  }
  close();
}

void Http1Session::cancel_watch() {
  if (watching_) loop_.submit(CancelWatch{{&loop_, token_}});
  watching_ = false;
}

void Http1Session::abandon_exchange() {
  if (!exchange_) return;
  finished_exchange_ = std::move(exchange_);
  finished_exchange_->on_gone();
}

void Http1Session::close() {
  if (closed_) return;
  cancel_watch();
  abandon_exchange();
  closed_ = true;
  serving_ = streaming_ = false;
  token_ = 0;
  error_code ignored;
  socket_.close(ignored);
  loop_.remove(*this);
}

}  // namespace rallypoint::server
