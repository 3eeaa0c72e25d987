#include "server/transport/frame.h"

#include <algorithm>
#include <array>

#include "raft/base/crc32c.h"

namespace rallypoint::server {
namespace {

constexpr std::string_view kMagic = "RLYP";
constexpr size_t kRejectTextMax = 512;

template <class Integer>
void put(Integer value, std::string& out) {
  for (size_t i = 0; i < sizeof(Integer); ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

template <class Integer>
Integer get(std::string_view bytes, size_t at) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(Integer); ++i) {
    value |= static_cast<uint64_t>(static_cast<uint8_t>(bytes[at + i])) << (8 * i);
  }
  return static_cast<Integer>(value);
}

bool looks_like_http(std::string_view bytes) {
  static constexpr std::array<std::string_view, 8> kMethods = {"GET ",    "PUT ",  "POST ", "HEAD ",
                                                               "DELETE ", "OPTIO", "PRI *", "PATCH"};
  for (std::string_view method : kMethods) {
    if (bytes.substr(0, method.size()) == method) return true;
  }
  return false;
}

Status too_short(const char* what, size_t size, size_t least) {
  return Status::invalid_argument(std::string(what) + " of " + std::to_string(size) + " bytes, at least " +
                                  std::to_string(least) + " are needed");
}

}  // namespace

const char* lane_name(Lane lane) { return lane == Lane::kUrgent ? "urgent" : "bulk"; }

uint32_t frame_crc_seed(FrameType type, uint32_t length) {
  std::array<char, 8> covered{};
  for (size_t i = 0; i < 4; ++i) covered[i] = static_cast<char>(length >> (8 * i));
  covered[4] = static_cast<char>(type);
  return crc32c(0, {covered.data(), covered.size()});
}

void put_frame_head(const FrameHead& head, std::string& out) {
  put(head.length, out);
  put(head.crc, out);
  put(static_cast<uint8_t>(head.type), out);
  out.append(3, '\0');
}

Result<FrameHead> get_frame_head(std::string_view bytes, size_t length_max) {
  if (bytes.size() < kFrameHeadBytes) return too_short("frame head", bytes.size(), kFrameHeadBytes);
  if (looks_like_http(bytes)) {
    return Status::invalid_argument("a HTTP request; this is the port for members, clients use the client URL");
  }
  const auto length = get<uint32_t>(bytes, 0);
  const auto type = static_cast<uint8_t>(bytes[8]);
  if (length > length_max) {
    return Status::invalid_argument("a frame of " + std::to_string(length) + " bytes, at most " +
                                    std::to_string(length_max) + " are allowed here");
  }
  if (type == 0 || type > kFrameTypeLast || bytes.substr(9, 3) != std::string_view("\0\0\0", 3)) {
    return Status::invalid_argument("a frame of unknown type " + std::to_string(type));
  }
  return FrameHead{length, get<uint32_t>(bytes, 4), static_cast<FrameType>(type)};
}

std::string encode_hello(const Hello& hello) {
  std::string out(kMagic);
  put(hello.version, out);
  put(static_cast<uint8_t>(hello.lane), out);
  out.push_back('\0');
  put(hello.cluster_id, out);
  put(hello.from.value(), out);
  put(hello.to.value(), out);
  put(hello.directory.value(), out);
  put(hello.founding, out);
  const size_t count_at = out.size();
  out.push_back(0);
  for (const std::string& endpoint : hello.endpoints) {
    if (endpoint.size() > UINT8_MAX || static_cast<size_t>(out[count_at]) == kHelloEndpointsMax) continue;
    ++out[count_at];
    out.push_back(static_cast<char>(endpoint.size()));
    out += endpoint;
  }
  return out;
}

namespace {
/// What stands behind the founding.
Result<std::vector<std::string>> decode_endpoints(std::string_view bytes) {
  std::vector<std::string> endpoints;
  if (bytes.empty()) return endpoints;
  const auto count = static_cast<uint8_t>(bytes[0]);
  bytes.remove_prefix(1);
  if (count > kHelloEndpointsMax) return Status::invalid_argument("hello with " + std::to_string(count) + " endpoints");
  for (uint8_t i = 0; i < count; ++i) {
    const size_t size = bytes.empty() ? 0 : static_cast<uint8_t>(bytes[0]);
    if (bytes.size() < 1 + size || size == 0) return Status::invalid_argument("hello with a malformed endpoint");
    endpoints.emplace_back(bytes.substr(1, size));
    bytes.remove_prefix(1 + size);
  }
  return endpoints;
}
}  // namespace

Result<Hello> decode_hello(std::string_view body) {
  if (body.size() < kHelloBytes) return too_short("hello", body.size(), kHelloBytes);
  if (body.substr(0, kMagic.size()) != kMagic) return Status::invalid_argument("hello without its magic number");
  const auto lane = static_cast<uint8_t>(body[6]);
  if (lane >= kLanes) return Status::invalid_argument("hello for unknown lane " + std::to_string(lane));
  const bool has_founding = body.size() >= kHelloBytes + 8;
  auto endpoints = decode_endpoints(has_founding ? body.substr(kHelloBytes + 8) : std::string_view());
  if (!endpoints.is_ok()) return endpoints.status();
  return Hello{get<uint16_t>(body, 4),          static_cast<Lane>(lane),          get<uint64_t>(body, 8),
               NodeId(get<uint64_t>(body, 16)), NodeId(get<uint64_t>(body, 24)), DirectoryId(get<uint64_t>(body, 32)),
               has_founding ? get<uint64_t>(body, kHelloBytes) : 0, std::move(*endpoints)};
}

std::string encode_query() {
  std::string out(kMagic);
  put(kPeerProtocolVersion, out);
  return out;
}

Status decode_query(std::string_view body) {
  if (body.size() < kMagic.size() + 2) return too_short("query", body.size(), kMagic.size() + 2);
  if (body.substr(0, kMagic.size()) != kMagic) return Status::invalid_argument("query without its magic number");
  if (get<uint16_t>(body, 4) != kPeerProtocolVersion)
    return Status::invalid_argument("query of peer protocol version " + std::to_string(get<uint16_t>(body, 4)));
  return Status::ok();
}

std::string encode_welcome(const Welcome& welcome) {
  std::string out;
  put(welcome.version, out);
  out.append(6, '\0');
  put(welcome.directory.value(), out);
  return out;
}

Result<Welcome> decode_welcome(std::string_view body) {
  if (body.size() < kWelcomeBytes) return too_short("welcome", body.size(), kWelcomeBytes);
  return Welcome{get<uint16_t>(body, 0), DirectoryId(get<uint64_t>(body, 8))};
}

std::string encode_reject(const Reject& reject) {
  return static_cast<char>(reject.reason) + reject.text.substr(0, kRejectTextMax);
}

Result<Reject> decode_reject(std::string_view body) {
  if (body.empty()) return too_short("reject", 0, 1);
  std::string text(body.substr(1, kRejectTextMax));
  // It goes into a log line: a peer must not be able to forge lines there.
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return Reject{static_cast<RejectReason>(body[0]), std::move(text)};
}

std::optional<Reject> judge_hello(const Hello& hello, const Host& host) {
  const auto number = [](uint64_t value) { return std::to_string(value); };
  if (hello.version != kPeerProtocolVersion) {
    return Reject{RejectReason::kVersion, "peer protocol version " + number(hello.version) +
                                              " is not supported, this member speaks " +
                                              number(kPeerProtocolVersion)};
  }
  if (hello.cluster_id != host.cluster_id) {
    return Reject{RejectReason::kWrongCluster, "cluster id " + number(hello.cluster_id) +
                                                   " is another cluster's, this member is in " +
                                                   number(host.cluster_id)};
  }
  if (hello.to != host.self) {
    return Reject{RejectReason::kWrongMember, "this is member " + number(host.self.value()) + ", not member " +
                                                  number(hello.to.value())};
  }
  if (hello.from == host.self || hello.from.is_zero()) {
    return Reject{RejectReason::kWrongMember,
                  "member id " + number(hello.from.value()) + " can not be the caller's"};
  }
  if (std::find(host.removed.begin(), host.removed.end(), hello.from) != host.removed.end()) {
    return Reject{RejectReason::kRemoved, "member " + number(hello.from.value()) + " was removed from the cluster"};
  }
  if (hello.founding != 0 && host.founding != 0 && hello.founding != host.founding) {
    return Reject{RejectReason::kFoundedTwice,
                  "cluster " + number(hello.cluster_id) + " was founded twice: member " + number(hello.from.value()) +
                      " and member " + number(host.self.value()) + " have no common past"};
  }
  return std::nullopt;
}

}  // namespace rallypoint::server
