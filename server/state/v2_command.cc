#include "server/state/v2_command.h"

namespace rallypoint::server {

void to_proto(const v2::WriteRequest& request, pb::V2Write& out) {
  out.set_method(static_cast<uint32_t>(request.method));
  out.set_path(request.path);
  out.set_value(request.value.data(), request.value.size());
  out.set_dir(request.dir);
  out.set_recursive(request.recursive);
  out.set_refresh(request.refresh);
  out.set_no_value_on_success(request.no_value_on_success);
  if (request.prev_exist) out.set_prev_exist(*request.prev_exist);
  if (request.prev_value) out.set_prev_value(*request.prev_value);
  out.set_prev_index(request.prev_index);
  if (request.ttl_s) out.set_ttl_s(*request.ttl_s);
}

std::optional<v2::WriteRequest> from_proto(const pb::V2Write& in) {
  if (in.method() > static_cast<uint32_t>(v2::WriteRequest::Method::kDelete)) return std::nullopt;
  if (in.path().empty() || in.path()[0] != '/') return std::nullopt;
  if (in.has_ttl_s() && in.ttl_s() < 0) return std::nullopt;
  v2::WriteRequest request;
  request.method = static_cast<v2::WriteRequest::Method>(in.method());
  request.path = in.path();
  request.value = Bytes::copy_of(in.value());
  request.dir = in.dir();
  request.recursive = in.recursive();
  request.refresh = in.refresh();
  request.no_value_on_success = in.no_value_on_success();
  if (in.has_prev_exist()) request.prev_exist = in.prev_exist();
  if (in.has_prev_value()) request.prev_value = in.prev_value();
  request.prev_index = in.prev_index();
  if (in.has_ttl_s()) request.ttl_s = in.ttl_s();
  return request;
}

}  // namespace rallypoint::server
