// A running HttpServer for tests that speak HTTP/2 to it: the node's answers by hand, and how much memory it all takes.
#pragma once

#include <malloc.h>

#include <fstream>

#include "storage/etcd_api/rpc.pb.h"
#include "tests/server/http_server_fixture.h"
#include "tests/server/raw_h2_client.h"

namespace rallypoint::server {

inline constexpr std::string_view kPutPath = "/etcdserverpb.KV/Put";
inline constexpr std::string_view kRangePath = "/etcdserverpb.KV/Range";
inline constexpr std::string_view kRangeStreamPath = "/etcdserverpb.KV/RangeStream";
inline constexpr std::string_view kWatchPath = "/etcdserverpb.Watch/Watch";
inline constexpr std::string_view kKeepAlivePath = "/etcdserverpb.Lease/LeaseKeepAlive";

class Http2Test : public HttpServerTest {
 protected:
  static void answer(const Call& call, decltype(Reply::body) body, bool final = true) {
    Reply reply;
    reply.body = std::move(body);
    reply.final = final;
    FakeBackend::answer(call, std::move(reply));
  }
  static void answer(const Call& call, const google::protobuf::Message& message, bool final = true) {
    answer(call, Bytes(message.SerializeAsString()), final);
  }
  static WatchParts part(const etcdserverpb::WatchResponse& response) { return {{{0, Bytes(response.SerializeAsString())}}}; }
  static etcdserverpb::WatchResponse event(size_t value_bytes) {
    etcdserverpb::WatchResponse response;
    response.add_events()->mutable_kv()->set_value(std::string(value_bytes, 'x'));
    return response;
  }
  static etcdserverpb::RangeResponse pairs(size_t value_bytes) {
    etcdserverpb::RangeResponse response;
    response.add_kvs()->set_value(std::string(value_bytes, 'x'));
    return response;
  }
  static etcdserverpb::RangeRequest range(std::string_view key = "a") {
    etcdserverpb::RangeRequest request;
    request.set_key(std::string(key));
    return request;
  }
  static etcdserverpb::PutRequest put(std::string_view key = "a") {
    etcdserverpb::PutRequest request;
    request.set_key(std::string(key));
    return request;
  }
  static etcdserverpb::WatchRequest watch(std::string_view key = "a") {
    etcdserverpb::WatchRequest request;
    request.mutable_create_request()->set_key(std::string(key));
    return request;
  }

  /// Under a sanitizer most of what is resident is its own: red zones, and freed memory that it keeps aside.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static constexpr bool kMemoryIsOurs = false;
#else
  static constexpr bool kMemoryIsOurs = true;
#endif
  /// Of this process, server and client together, in bytes; without what earlier tests have freed.
  static int64_t resident_bytes() {
    malloc_trim(0);
    std::ifstream file("/proc/self/statm");
    int64_t all = 0, resident = 0;
    file >> all >> resident;
    return resident * 4096;
  }
};

}  // namespace rallypoint::server
