#include "server/rpc/grpc_call.h"

#include "server/rpc/grpc_core.h"

namespace rallypoint::server {

void GrpcCall::send(const Bytes& message, std::string_view own_part) {
  if (finished_) return;
  const size_t size = message.size() + own_part.size();
  const char prefix[5] = {0, static_cast<char>(size >> 24), static_cast<char>(size >> 16), static_cast<char>(size >> 8), static_cast<char>(size)};
  out_.append(prefix, 5);
  out_.append(message.view());
  out_.append(own_part);
  core_.waiting_bytes_ += 5 + size;
  if (!was_high_ && queued_bytes() > kRpcStreamHighWater) was_high_ = true, core_.high_.push_back(stream_);
  if (!responded_) core_.respond(*this);
  else if (deferred_) deferred_ = false, nghttp2_session_resume_data(core_.session_, stream_);
}

void GrpcCall::finish(Status status) {
  if (finished_) return;
  finished_ = true;
  status_ = std::move(status);
  core_.retire(*this);
  if (!responded_) core_.respond(*this);
  else if (deferred_) deferred_ = false, nghttp2_session_resume_data(core_.session_, stream_);
}

Call GrpcCall::call() { return token_ == 0 ? new_call() : Call{core_.host_.sink(), token_}; }

Call GrpcCall::new_call() {
  if (token_ != 0) core_.by_token_.erase(token_);
  token_ = core_.host_.make_token();
  core_.by_token_[token_] = this;
  return {core_.host_.sink(), token_};
}

void GrpcCall::submit(Request&& request) { core_.host_.submit(std::move(request)); }

std::string_view GrpcCall::metadata(std::string_view name) const {
  for (const auto& [key, value] : metadata_)
    if (key == name) return value;
  return {};
}

Duration GrpcCall::time_left() const {
  if (deadline_.us == 0) return {};
  return std::max(Duration::micros(1), deadline_ - core_.host_.now());
}

void GrpcCall::wake_after(Duration delay) {
  wake_at_ = core_.host_.now() + delay;
  core_.schedule(wake_at_, stream_);
}

Backend& GrpcCall::backend() { return core_.host_.backend(); }

}  // namespace rallypoint::server
