#include "server/transport/connection.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "server/transport/address.h"

namespace rallypoint::server {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

/// Pieces of one write. Linux takes 1024; half of that on the stack is plenty to amortise a call.
constexpr size_t kPiecesMax = 512;

}  // namespace

void tune_socket(asio::ip::tcp::socket& socket) {
  error_code ignored;
  socket.set_option(asio::ip::tcp::no_delay(true), ignored);
  // Only a second net: silence_max finds a dead link long before the kernel does.
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  socket.non_blocking(true, ignored);
}

Connection::Connection(LoopContext& context, asio::ip::tcp::socket socket, Owner& owner)
    : context_(context),
      socket_(std::move(socket)),
      owner_(&owner),
      queue_(context.options.queue_bytes_max, context.options.queue_frames_max),
      reader_(context.options.hello_bytes_max),
      opened_(context.now),
      last_heard_(context.now),
      last_wrote_(context.now) {
  tune_socket(socket_);
}

void Connection::start() { read(); }

void Connection::established() {
  established_ = true;
  reader_.set_body_bytes_max(context_.options.frame_bytes_max);
  last_heard_ = context_.now;
}

std::string Connection::remote() const {
  error_code error;
  const auto endpoint = socket_.remote_endpoint(error);
  return error ? "unknown" : to_text(endpoint);
}

void Connection::read() {
  const std::span<char> space = reader_.space();
  socket_.async_read_some(asio::buffer(space.data(), space.size()),
                          [self = shared_from_this()](const error_code& error, size_t bytes) {
                            self->on_read(error, bytes);
                          });
}

void Connection::on_read(const error_code& error, size_t bytes) {
  if (!is_open()) return;
  if (error) {
    fail(Status::unavailable(error == asio::error::eof ? "closed by the peer" : error.message()));
    return;
  }
  last_heard_ = context_.now;
  context_.stats.reads.fetch_add(1, std::memory_order_relaxed);
  context_.stats.received_bytes.fetch_add(bytes, std::memory_order_relaxed);
  reader_.received(bytes);
  Status status;
  while (is_open() && status.is_ok()) {
    Result<std::optional<Frame>> frame = reader_.next();
    if (!frame.is_ok()) {
      status = frame.status();
    } else if (!frame->has_value()) {
      break;
    } else if ((*frame)->type != FrameType::kKeepAlive) {
      context_.stats.received_frames.fetch_add(1, std::memory_order_relaxed);
      status = owner_->on_frame(std::move(**frame));
    }
  }
  reader_.settle();
  if (!is_open()) return;
  owner_->on_read_done();  // what came before a damaged frame was good
  if (!status.is_ok()) {
    fail(status);
  } else if (is_open()) {
    read();
  }
}

void Connection::flush() {
  if (!is_open() || waiting_to_write_) return;
  std::array<iovec, kPiecesMax> pieces;
  while (!queue_.empty()) {
    msghdr header{};
    header.msg_iov = pieces.data();
    header.msg_iovlen = queue_.gather(pieces.data(), pieces.size());
    const ssize_t written = ::sendmsg(socket_.native_handle(), &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written < 0) {
      const int code = errno;
      if (code == EINTR) continue;
      if (code == EAGAIN || code == EWOULDBLOCK) return wait_to_write();
      return fail(Status::unavailable(error_code(code, boost::system::system_category()).message()));
    }
    const size_t frames = queue_.frames();
    queue_.consume(static_cast<size_t>(written));
    last_wrote_ = context_.now;
    context_.stats.writes.fetch_add(1, std::memory_order_relaxed);
    context_.stats.sent_bytes.fetch_add(static_cast<uint64_t>(written), std::memory_order_relaxed);
    context_.stats.sent_frames.fetch_add(frames - queue_.frames(), std::memory_order_relaxed);
  }
}

void Connection::wait_to_write() {
  waiting_to_write_ = true;
  socket_.async_wait(asio::ip::tcp::socket::wait_write, [self = shared_from_this()](const error_code& error) {
    self->waiting_to_write_ = false;
    // An error of the socket itself shows at the read or at the next write.
    if (error != asio::error::operation_aborted) self->flush();
  });
}

void Connection::tick() {
  if (!is_open()) return;
  if (!established_) {
    if (context_.now - opened_ > context_.rounds(context_.options.handshake_timeout)) {
      fail(Status(Code::kDeadlineExceeded, "no handshake in time"));
    }
    return;
  }
  if (context_.now - last_heard_ > context_.rounds(context_.options.silence_max)) {
    fail(Status::unavailable("silent for too long"));
    return;
  }
  if (queue_.empty() && context_.now - last_wrote_ >= context_.rounds(context_.options.keepalive_interval)) {
    queue_.append(FrameType::kKeepAlive, {}, {});
    flush();
  }
}

void Connection::close() {
  if (!is_open()) return;
  owner_ = nullptr;
  error_code ignored;
  socket_.close(ignored);
}

void Connection::fail(const Status& why) {
  if (!is_open()) return;
  Owner* owner = owner_;
  const auto self = shared_from_this();  // the owner may let go of it
  close();
  owner->on_closed(why);
}

}  // namespace rallypoint::server
