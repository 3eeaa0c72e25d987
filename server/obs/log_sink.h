// DescriptorSink: writes log lines to a file descriptor without ever being stuck on it: a pipe that nobody reads
// makes it drop lines (and say how many, once it can). Used by the one log thread.
#pragma once

#include <spdlog/sinks/base_sink.h>

#include <atomic>
#include <condition_variable>
#include <mutex>

namespace rallypoint::server {

class DescriptorSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  /// `owned`: close it at the end.
  DescriptorSink(int descriptor, bool owned) : descriptor_(descriptor), owned_(owned) {}
  ~DescriptorSink() override;

  /// From now on: no waiting for room at all.
  void hurry() { wait_ms_ = 0; }
  /// Waits until flush_() has run for the `count`th time, for at most `limit_ms`.
  void wait_for_flush(uint64_t count, int limit_ms);

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override;
  void flush_() override;

 private:
  bool write_all(const char* data, size_t size);

  int descriptor_;
  bool owned_;
  uint64_t dropped_ = 0;
  std::atomic<int> wait_ms_{100};
  std::mutex mutex_;
  std::condition_variable flushed_;
  uint64_t flush_count_ = 0;
};

}  // namespace rallypoint::server
