// From an HTTP request to a v2 request: path cleaning, query and form parameters, and etcd's validation in etcd's
// order. Pure functions on untrusted bytes: whatever comes in, the answer is one of the alternatives below.
// Source of the rules: etcd 3.4's v2 API as observed, and the behaviour of the HTTP server it is built on.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "storage/v2/v2_types.h"

namespace rallypoint::server {

/// A GET without wait. Linearizable unless the client explicitly said quorum=false.
struct V2ReadTarget {
  v2::ReadRequest request;
  bool linearizable = true;
};
/// The path is not clean: 301 to `location`.
struct V2Redirect {
  std::string location;
};
/// The target itself is malformed (bad percent escape): 400 with a plain text body.
struct V2BadTarget {
  std::string reason;
};
/// 405 with `Allow: kV2AllowedMethods`.
struct V2MethodNotAllowed {};

inline constexpr std::string_view kV2AllowedMethods = "HEAD,GET,PUT,POST,DELETE";

/// v2::Error = a parameter was refused (its index is 0).
using V2Request = std::variant<v2::WriteRequest, V2ReadTarget, v2::WatchRequest, v2::Error, V2Redirect, V2BadTarget,
                               V2MethodNotAllowed>;

/// True when the target is the keys API's: /v2/keys, /v2/keys?..., or below /v2/keys/.
bool is_v2_keys_target(std::string_view target);

/// `method` and `target` as in the request line ("PUT", "/v2/keys/a?ttl=5"); `content_type` "" = none. The body
/// counts only for PUT and POST with a form content type, as with etcd. HEAD is parsed as GET.
V2Request parse_v2_request(std::string_view method, std::string_view target, std::string_view content_type,
                           std::string_view body);

}  // namespace rallypoint::server
