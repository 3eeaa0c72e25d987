// Frames: how bytes are cut and summed between two members, and the first words of a connection. Pure.
//
// Frame (little endian):
//
//   length u32 | crc32c u32 | type u8 | zero u8 x3 | body: `length` bytes
//
// The checksum covers length, type and zeros (as 8 bytes), then the body. TCP's own checksum lets about one damaged
// segment in 2^16 through, and the log must never take one in.
//
// A connection begins with Hello from the dialler, answered by Welcome or by Reject (and the end). Then the dialler
// sends Raft and App frames, and both send KeepAlive when they have nothing to say.
//
//   Hello:   magic "RLYP" | version u16 | lane u8 | zero u8 | cluster u64 | from u64 | to u64 | directory u64 |
//            founding u64 | endpoints u8 | (size u8 | endpoint)*
//   Welcome: version u16 | zero u8 x6 | directory u64
//   Reject:  reason u8 | text
//   App:     type u8 | payload
//   Raft:    one message, raft/wire.h
//
// A longer Hello or Welcome than this one is accepted and its tail ignored, so that a later version can add to it; what
// a shorter one of an earlier version lacks is 0 or empty (founding, endpoints).
//
// Instead of a Hello, a node that does not know its cluster yet sends Query (magic, version) and gets one Cluster frame
// (server/cluster_info.proto: ClusterAnswer), and the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "raft/base/bytes.h"
#include "raft/base/status.h"
#include "raft/base/units.h"

namespace rallypoint::server {

constexpr size_t kFrameHeadBytes = 12;
constexpr size_t kHelloBytes = 40;  ///< of the first version; founding and endpoints follow
constexpr size_t kHelloEndpointsMax = 8;  ///< more are not told; nor is one of more than 255 bytes
constexpr size_t kWelcomeBytes = 16;
constexpr uint16_t kPeerProtocolVersion = 1;

enum class FrameType : uint8_t { kHello = 1, kWelcome = 2, kReject = 3, kKeepAlive = 4, kRaft = 5, kApp = 6, kQuery = 7, kCluster = 8 };
constexpr uint8_t kFrameTypeLast = 8;

enum class Lane : uint8_t { kUrgent = 0, kBulk = 1 };
constexpr size_t kLanes = 2;
const char* lane_name(Lane lane);

struct Frame {
  FrameType type = FrameType::kKeepAlive;
  Bytes body;
};

/// What stands before a body; the checksum of the body is still to be compared.
struct FrameHead {
  uint32_t length = 0;
  uint32_t crc = 0;
  FrameType type = FrameType::kKeepAlive;
};

/// The checksum that a frame of this type and length starts with; the body's bytes are to be added to it.
uint32_t frame_crc_seed(FrameType type, uint32_t length);
/// Appends the 12 bytes.
void put_frame_head(const FrameHead& head, std::string& out);
/// Reads 12 bytes. InvalidArgument says what came instead (a HTTP client is told apart: people mistake ports).
Result<FrameHead> get_frame_head(std::string_view bytes, size_t length_max);

struct Hello {
  uint16_t version = kPeerProtocolVersion;
  Lane lane = Lane::kUrgent;
  uint64_t cluster_id = 0;
  NodeId from;
  NodeId to;
  DirectoryId directory;
  uint64_t founding = 0;  ///< which founding of the cluster the caller knows (StateMachine::founding); 0 = none yet
  std::vector<std::string> endpoints;  ///< where the caller can be dialled, host:port: it may be one that the called does not know yet
  friend bool operator==(const Hello&, const Hello&) = default;
};
std::string encode_hello(const Hello& hello);
Result<Hello> decode_hello(std::string_view body);
std::string encode_query();
Status decode_query(std::string_view body);

struct Welcome {
  uint16_t version = kPeerProtocolVersion;
  DirectoryId directory;
};
std::string encode_welcome(const Welcome& welcome);
Result<Welcome> decode_welcome(std::string_view body);

enum class RejectReason : uint8_t { kMalformed = 1, kVersion = 2, kWrongCluster = 3, kWrongMember = 4, kBusy = 5, kRemoved = 6, kFoundedTwice = 7 };
struct Reject {
  RejectReason reason = RejectReason::kMalformed;
  std::string text;
};
std::string encode_reject(const Reject& reject);
Result<Reject> decode_reject(std::string_view body);

/// What a member compares a hello with.
struct Host {
  uint64_t cluster_id = 0;
  NodeId self;
  uint64_t founding = 0;           ///< 0 = it knows of none yet
  std::vector<NodeId> removed;     ///< members that are never to come back
};
/// Why such a member must refuse `hello`; nothing = it is welcome.
std::optional<Reject> judge_hello(const Hello& hello, const Host& host);

}  // namespace rallypoint::server
