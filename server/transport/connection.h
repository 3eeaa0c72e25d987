// Connection: one TCP connection that carries frames, either dialled or accepted; what the frames mean is its
// owner's business. Peer loop only. Kept alive by its pending operations until they have ended.
//
// Writes are gathered: whatever waits goes out in one system call, tried at once, and only if the kernel takes no
// more does it wait for the socket. A side that wrote nothing for keepalive_interval sends KeepAlive; a side that
// heard nothing for silence_max (handshake_timeout while the connection is new) hangs up: a half-open connection, a
// frozen peer and a client that says nothing all end the same way.
#pragma once

#include <boost/asio/ip/tcp.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "raft/base/status.h"
#include "server/transport/frame_queue.h"
#include "server/transport/frame_reader.h"
#include "server/transport/loop_context.h"

namespace rallypoint::server {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  class Owner {
   public:
    /// A frame came (never KeepAlive). An error ends the connection for that reason.
    virtual Status on_frame(Frame frame) = 0;
    /// All frames of one read were told.
    virtual void on_read_done() = 0;
    /// It is over, for a reason of the peer or the network; told once, and not after close().
    virtual void on_closed(const Status& why) = 0;

   protected:
    ~Owner() = default;
  };

  /// Takes a connected socket. The first frame is limited to hello_bytes_max until established() is called.
  Connection(LoopContext& context, boost::asio::ip::tcp::socket socket, Owner& owner);

  /// Begins to read.
  void start();
  /// The handshake is done: usual limits and deadlines from now on.
  void established();

  /// Queues a frame; false: the queue is full. It leaves with flush().
  bool enqueue(FrameType type, std::string_view head, std::span<const Bytes> payloads = {}) {
    return queue_.append(type, head, payloads);
  }
  /// Writes what waits. May tell the owner on_closed().
  void flush();
  /// One housekeeping round: keep-alive and deadlines. May tell the owner on_closed().
  void tick();
  /// Ends it without a word to the owner.
  void close();

  [[nodiscard]] bool is_open() const { return owner_ != nullptr; }
  [[nodiscard]] const FrameQueue& queue() const { return queue_; }
  [[nodiscard]] std::string remote() const;

 private:
  void read();
  void on_read(const boost::system::error_code& error, size_t bytes);
  void wait_to_write();
  void fail(const Status& why);

  LoopContext& context_;
  boost::asio::ip::tcp::socket socket_;
  Owner* owner_;  ///< null = closed
  FrameQueue queue_;
  FrameReader reader_;
  bool established_ = false;
  bool waiting_to_write_ = false;
  uint64_t opened_;      ///< round of LoopContext::now
  uint64_t last_heard_;
  uint64_t last_wrote_;
};

/// What every peer socket is set to, dialled or accepted. Errors do not matter.
void tune_socket(boost::asio::ip::tcp::socket& socket);

}  // namespace rallypoint::server
