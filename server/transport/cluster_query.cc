#include "server/transport/cluster_query.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include <chrono>

#include "server/transport/address.h"
#include "server/transport/frame_queue.h"
#include "server/transport/frame_reader.h"

namespace rallypoint::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr size_t kAnswerBytesMax = 1 << 20;

/// One question, in its steps; each ends in fail() or in an answer.
class Question {
 public:
  Question(const HostPort& endpoint, std::chrono::microseconds timeout) : endpoint_(endpoint), timeout_(timeout) {}

  Result<Bytes> ask() {
    const Result<SplitAddress> address = split_address(endpoint_);
    if (!address.is_ok()) return address.status();
    resolver_.async_resolve(address->host, std::to_string(address->port), [this](const error_code& error, const auto& results) {
      if (error) return fail(error.message());
      asio::async_connect(socket_, results, [this](const error_code& failed, const tcp::endpoint&) {
        if (failed) return fail(failed.message());
        write();
      });
    });
    io_.run_for(timeout_);
    if (answer_) return std::move(*answer_);
    if (why_.empty()) why_ = "no answer in time";
    return Status::unavailable(endpoint_ + ": " + why_);
  }

 private:
  void fail(std::string why) { why_ = std::move(why); }

  void write() {
    FrameQueue queue(kAnswerBytesMax, 1);
    queue.append(FrameType::kQuery, encode_query(), {});
    iovec piece;
    queue.gather(&piece, 1);
    question_.assign(static_cast<const char*>(piece.iov_base), piece.iov_len);
    asio::async_write(socket_, asio::buffer(question_), [this](const error_code& error, size_t) {
      if (error) return fail(error.message());
      read();
    });
  }

  void read() {
    const auto space = reader_.space();
    socket_.async_read_some(asio::buffer(space.data(), space.size()), [this](const error_code& error, size_t bytes) {
      if (error) return fail(error == asio::error::eof ? "it hung up; it may be of an earlier version" : error.message());
      reader_.received(bytes);
      Result<std::optional<Frame>> frame = reader_.next();
      if (!frame.is_ok()) return fail(frame.status().message());
      if (!frame->has_value() || (*frame)->type == FrameType::kKeepAlive) return read();
      if ((*frame)->type != FrameType::kCluster) return fail("it sent another frame than the answer");
      answer_ = (*frame)->body;
    });
  }

  const HostPort endpoint_;
  const std::chrono::microseconds timeout_;
  asio::io_context io_{1};
  tcp::resolver resolver_{io_};
  tcp::socket socket_{io_};
  FrameReader reader_{kAnswerBytesMax};
  std::string question_;
  std::optional<Bytes> answer_;
  std::string why_;
};

}  // namespace

Result<Bytes> ask_cluster(const HostPort& endpoint, Duration timeout) {
  return Question(endpoint, std::chrono::microseconds(timeout.us)).ask();
}

}  // namespace rallypoint::server
