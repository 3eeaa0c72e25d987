#include "server/obs/log_sink.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace rallypoint::server {

DescriptorSink::~DescriptorSink() {
  if (owned_) ::close(descriptor_);
}

void DescriptorSink::sink_it_(const spdlog::details::log_msg& message) {
  // A line that was begun must be ended, or the next one would hang on to it.
  const std::string_view text(message.payload.data(), message.payload.size());
  if (dropped_ != 0) {
    const std::string note = "warning \"log lines were dropped: nobody reads them\" count=" + std::to_string(dropped_) + "\n";
    if (!write_all(note.data(), note.size())) {
      ++dropped_;
      return;
    }
    dropped_ = 0;
  }
  if (!write_all(text.data(), text.size())) ++dropped_;
}

bool DescriptorSink::write_all(const char* data, size_t size) {
  // poll() reports a pipe as writable when PIPE_BUF bytes fit, so a piece of that size does not block. The flag
  // O_NONBLOCK is no way: it would be set for everybody who shares the terminal.
  while (size > 0) {
    pollfd entry{descriptor_, POLLOUT, 0};
    const int ready = ::poll(&entry, 1, wait_ms_.load());
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0 || (entry.revents & POLLOUT) == 0) return false;
    const ssize_t written = ::write(descriptor_, data, std::min<size_t>(size, PIPE_BUF));
    if (written < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (written < 0) return false;
    data += written;
    size -= static_cast<size_t>(written);
  }
  return true;
}

void DescriptorSink::flush_() {
  std::lock_guard lock(mutex_);
  ++flush_count_;
  flushed_.notify_all();
}

void DescriptorSink::wait_for_flush(uint64_t count, int limit_ms) {
  std::unique_lock lock(mutex_);
  flushed_.wait_for(lock, std::chrono::milliseconds(limit_ms), [&] { return flush_count_ >= count; });
}

}  // namespace rallypoint::server
