// Every bound of the client port, with its reason. Tests make the times short.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace rallypoint::server {

struct HttpLimits {
  using Millis = std::chrono::milliseconds;

  /// Request line and headers together. Torch's are below 1 KiB; more than this is an attack. Beyond: 431.
  uint32_t header_bytes_max = 64 << 10;
  /// One request's body, as etcd's max-request-bytes. Beyond: 413.
  uint64_t body_bytes_max = 3 << 19;
  /// The same below /v3: a request of that size in JSON, whose base64 takes a third more. Beyond: 413.
  uint64_t gateway_body_bytes_max = 4 << 20;
  /// Bytes that a client may send ahead of the answer (pipelining). Beyond: not read until it is answered.
  size_t ahead_bytes_max = 64 << 10;
  /// Bytes of a streaming watch that wait for a slow client. Beyond: the connection is closed; the client comes back
  /// with the index it has seen last.
  size_t stream_bytes_max = 8 << 20;
  /// The same for a stream that goes at the client's pace: what may come between the word to stop and its taking effect.
  size_t exchange_bytes_max = 64 << 20;
  /// gRPC calls at a time on one connection. Beyond: the client waits, as the protocol has it.
  uint32_t streams_max = 10'000;
  /// Silence of a gRPC client after which it is pinged (0 = never), and how long its answer may take.
  Millis keepalive_interval{7'200'000};
  Millis keepalive_timeout{20'000};
  /// Open client connections per node. Beyond: 503 and close.
  size_t connections_max = 20000;

  /// From the first byte of a request to the end of its headers: half-open sockets and slow attackers.
  Millis header_timeout{30'000};
  /// From the end of the headers to the end of the body.
  Millis body_timeout{60'000};
  /// Between requests. Python's pools keep connections for the whole life of a job, so: long.
  Millis idle_timeout{1'800'000};
  /// No byte of the answer taken for so long.
  Millis write_timeout{60'000};
  /// After the last answer, for the client's half of the close.
  Millis linger_timeout{2'000};
  /// After a refusal so much is still read, so that a client that is sending sees the answer; then the connection is
  /// cut, whoever goes on. Bytes.
  size_t linger_bytes_max = 8 << 20;
  /// How often the above are looked at; they are this exact.
  Millis tick{500};
};

}  // namespace rallypoint::server
