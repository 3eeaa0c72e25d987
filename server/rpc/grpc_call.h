// GrpcCall: one RPC on a gRPC connection: its half received message, its answers that wait to be sent, its end.
// Owned by its connection's GrpcCore; the net loop's thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/rpc/rpc.h"

namespace rallypoint::server {

class GrpcCore;

class GrpcCall final : public Rpc {
 public:
  GrpcCall(GrpcCore& core, int32_t stream) : core_(core), stream_(stream) {}

  void send(const Bytes& message, std::string_view own_part) override;
  void finish(Status status) override;
  [[nodiscard]] size_t queued_bytes() const override { return out_.size() - sent_; }
  Call call() override;
  Call new_call() override;
  void submit(Request&& request) override;
  [[nodiscard]] std::string_view metadata(std::string_view name) const override;
  [[nodiscard]] Duration time_left() const override;
  void wake_after(Duration delay) override;
  Backend& backend() override;

 private:
  friend class GrpcCore;

  GrpcCore& core_;
  const int32_t stream_;
  const RpcMethod* method_ = nullptr;
  std::unique_ptr<RpcHandler> handler_;

  // the request
  std::string path_;
  std::vector<std::pair<std::string, std::string>> metadata_;
  size_t header_bytes_ = 0;  ///< that came
  size_t kept_bytes_ = 0;    ///< of them, that are here
  bool is_post_ = false;
  bool is_grpc_ = false;
  bool timeout_is_malformed_ = false;
  Instant deadline_;        ///< 0 = none
  Instant wake_at_;         ///< 0 = none
  std::string in_;          ///< of a message that has not arrived whole
  size_t unconsumed_ = 0;   ///< bytes that the client's windows are still short of
  bool held_ = false;       ///< waits for the client to read
  bool message_seen_ = false;
  bool half_closed_ = false;

  // the answer: messages with their prefixes, of which sent_ bytes are out
  std::string out_;
  size_t sent_ = 0;
  bool responded_ = false;  ///< the response head is submitted
  bool deferred_ = false;   ///< the connection waits for data
  bool finished_ = false;
  bool was_high_ = false;   ///< went over the high water mark; on_writable is due when it falls below the low one
  Status status_;

  uint64_t token_ = 0;      ///< of the backend's call; 0 = none
};

}  // namespace rallypoint::server
