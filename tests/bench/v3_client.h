// How the v3 load talks to a server: calls and streams over a few connections, from one thread. The works
// (v3_works.h) are written once against this and run with a stock gRPC client (v3_stock_client.h) on every server and
// with our own client library (v3_own_client.h) on ours.
#pragma once

#include <google/protobuf/message_lite.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace rallypoint::bench {

/// Who waits for a call or listens to a stream. Called from within Client::turn() only.
class Receiver {
 public:
  /// The answer of a call, or one message of a stream: wire bytes, good until the return.
  virtual void on_message(std::string_view message) = 0;
  /// The call failed, or the stream ended.
  virtual void on_failure(const std::string& why) = 0;

 protected:
  ~Receiver() = default;
};

/// A two-way stream; closed by destroying the client.
class Stream {
 public:
  virtual ~Stream() = default;
  /// Queued behind what was sent before.
  virtual void send(const google::protobuf::MessageLite& message) = 0;
};

class Client {
 public:
  virtual ~Client() = default;
  /// One unary call; the receiver is told exactly once and may call again at once. `path`: "/etcdserverpb.KV/Put".
  virtual void call(size_t connection, const std::string& path, const google::protobuf::MessageLite& request,
                    Receiver& receiver) = 0;
  virtual std::unique_ptr<Stream> open(size_t connection, const std::string& path, Receiver& receiver) = 0;
  /// Handles what has come; false when nothing came within `patience`.
  virtual bool turn(std::chrono::milliseconds patience) = 0;
};

}  // namespace rallypoint::bench
