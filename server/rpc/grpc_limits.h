// Every bound of a gRPC connection, with its reason.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rallypoint::server {

struct GrpcLimits {
  /// One request message. etcd: max-request-bytes and 512 KiB for what is around it. Beyond: ResourceExhausted.
  size_t message_bytes_max = (3 << 19) + (512 << 10);
  /// RPCs at a time on one connection; a client that wants more waits, as the protocol has it.
  uint32_t streams_max = 10'000;
  /// Names and values of one request's headers together. Ours are below 1 KiB; more is an attack. Beyond: the stream is reset.
  size_t header_bytes_max = 64 << 10;
  /// The same of all open RPCs together, as far as they are kept. Beyond: the next stream is reset.
  size_t kept_headers_bytes_max = 16 << 20;
  /// Half received messages of all streams together. Beyond: the connection is closed.
  size_t receiving_bytes_max = 64 << 20;
  /// Answers that wait for the client to read, of all streams together. Beyond: what it asks next waits, too.
  size_t waiting_bytes_max = 32 << 20;
  /// Bytes handed to the socket at a time: what a new small answer may have to wait behind.
  size_t output_bytes_max = 256 << 10;
  /// Streams that the client resets, and pings and settings that it sends, within a second. More is an attack (CVE-2023-44487).
  uint32_t resets_per_second_max = 2000;
  uint32_t controls_per_second_max = 1000;
  /// Receive windows: large, so that a client's packed calls never wait for an update.
  uint32_t stream_window_bytes = 1 << 20;
  int32_t connection_window_bytes = 16 << 20;
};

}  // namespace rallypoint::server
