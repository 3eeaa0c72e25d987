#include "server/rpc/http2_session.h"

#include "server/rpc/net_loop.h"

namespace rallypoint::server {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

/// Output of one connection before others have their turn.
constexpr size_t kTurnBytes = 512 << 10;

GrpcLimits limits_for(const HttpLimits& limits) {
  GrpcLimits grpc;
  grpc.message_bytes_max = limits.body_bytes_max + (512 << 10);
  grpc.header_bytes_max = limits.header_bytes_max;
  grpc.streams_max = limits.streams_max;
  return grpc;
}

}  // namespace

Http2Session::Http2Session(NetLoop& loop, asio::ip::tcp::socket&& socket, std::string&& received)
    : loop_(loop), socket_(std::move(socket)), timer_(loop.context()), core_(*this, loop.rpcs(), limits_for(loop.limits())), received_(std::move(received)) {}

std::shared_ptr<Http2Session> Http2Session::self() { return std::static_pointer_cast<Http2Session>(shared_from_this()); }

void Http2Session::start() {
  deadline_tick_ = loop_.tick_after(loop_.limits().header_timeout);  // for the client's settings
  quiet_since_tick_ = loop_.tick();
  take(std::exchange(received_, {}));
  read();
}

void Http2Session::read() {
  socket_.async_wait(asio::ip::tcp::socket::wait_read, [self = self()](error_code error) { self->on_readable(error); });
}

void Http2Session::on_readable(error_code error) {
  if (closed_) return;
  if (error) return drop();
  const std::span<char> buffer = loop_.read_buffer();
  const size_t bytes = socket_.read_some(asio::buffer(buffer.data(), buffer.size()), error);
  if (error == asio::error::would_block) return read();
  if (error) return drop();
  loop_.counters().bytes_received.fetch_add(bytes, std::memory_order_relaxed);
  quiet_since_tick_ = loop_.tick();
  pinged_ = false;
  take(std::string_view(buffer.data(), bytes));
  read();
}

void Http2Session::take(std::string_view bytes) {
  if (!core_.receive(bytes)) loop_.counters().bad_requests.fetch_add(1, std::memory_order_relaxed);
  loop_.counters().requests.fetch_add(core_.requests() - counted_requests_, std::memory_order_relaxed);
  counted_requests_ = core_.requests();
  if (core_.greeted() && !write_waiting_) deadline_tick_ = 0;
  post_flush();
}

void Http2Session::post_flush() {
  if (flush_posted_ || closed_) return;
  flush_posted_ = true;
  loop_.post([self = self()] {
    self->flush_posted_ = false;
    self->flush();
  });
}

void Http2Session::resume() { flush(); }

void Http2Session::flush() {
  size_t turn = 0;
  while (!closed_ && !write_waiting_) {
    // A client that reads as fast as we write would have the loop for itself, and all others would wait.
    if (turn >= kTurnBytes) return post_flush();
    if (written_ == output_.size()) {
      output_.clear();
      written_ = 0;
      core_.produce(output_);
      if (output_.empty()) break;
    }
    error_code error;
    const size_t bytes = socket_.write_some(asio::buffer(output_.data() + written_, output_.size() - written_), error);
    if (error == asio::error::would_block) {
      write_waiting_ = true;
      deadline_tick_ = loop_.tick_after(loop_.limits().write_timeout);
      socket_.async_wait(asio::ip::tcp::socket::wait_write, [self = self()](error_code failed) {
        self->write_waiting_ = false;
        if (self->closed_) return;
        if (failed) return self->drop();
        self->deadline_tick_ = 0;
        self->resume();
      });
      return;
    }
    if (error) return drop();
    written_ += bytes;
    turn += bytes;
    loop_.counters().bytes_sent.fetch_add(bytes, std::memory_order_relaxed);
  }
  if (!closed_ && !write_waiting_ && core_.is_over()) drop();
}

void Http2Session::on_tick(uint64_t tick) {
  if (closed_) return;
  if (deadline_tick_ != 0 && deadline_tick_ <= tick) return drop();
  const HttpLimits& limits = loop_.limits();
  if (limits.keepalive_interval.count() == 0) return;
  const auto quiet = limits.tick * (tick - quiet_since_tick_);
  if (quiet >= limits.keepalive_interval + limits.keepalive_timeout) return drop();
  if (quiet < limits.keepalive_interval || pinged_) return;
  pinged_ = true;
  core_.ping();
  flush();
}

/// The client is gone, or we have done with it.
void Http2Session::drop() {
  if (closed_) return;
  core_.lost();
  closed_ = true;
  timer_.cancel();
  error_code ignored;
  socket_.close(ignored);
  loop_.remove(*this);
}

/// The node stops: the client is told, as far as the socket takes it without waiting.
void Http2Session::close() {
  if (closed_) return;
  core_.stop();
  flush();
  drop();
}

ReplySink* Http2Session::sink() { return &loop_; }
uint64_t Http2Session::make_token() { return loop_.make_token(*this); }
void Http2Session::submit(Request&& request) { loop_.submit(std::move(request)); }
Backend& Http2Session::backend() { return loop_.backend(); }

Instant Http2Session::now() const {
  return {std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch()).count()};
}

void Http2Session::arm(Instant at) {
  timer_.expires_at(std::chrono::steady_clock::time_point(std::chrono::microseconds(at.us)));
  timer_.async_wait([self = self()](error_code error) {
    if (error || self->closed_) return;
    self->core_.on_time(self->now());
    self->flush();
  });
}

}  // namespace rallypoint::server
