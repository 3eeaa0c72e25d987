// FakeResponder: an HTTP session as one handler sees it.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>

#include "raft/base/check.h"
#include "server/rpc/exchange.h"

namespace rallypoint::server {

class FakeResponder final : public Responder {
 public:
  void respond(const ResponseHead& head, std::string_view text) override {
    RALLY_CHECK(status == 0);
    take(head);
    body = text;
    ended = true;
  }
  void begin_stream(const ResponseHead& head) override {
    RALLY_CHECK(status == 0);
    take(head);
    streaming = true;
  }
  void stream_part(std::string_view part) override {
    RALLY_CHECK(streaming && !ended);
    body += part;
  }
  void end_stream() override {
    RALLY_CHECK(streaming && !ended);
    ended = true;
    streaming = false;
  }
  bool is_streaming() const override { return streaming; }
  Call await(const Handler&, bool) override { return new_call(); }
  void submit(Request&& request) override { requests.push_back(std::move(request)); }
  void keep(std::unique_ptr<Exchange> kept) override { exchange = std::move(kept); }
  Call new_call() override { return {nullptr, ++token}; }
  size_t queued_bytes() const override { return queued; }
  void wake_after(Duration) override {}
  std::string& scratch() override { return scratch_.clear(), scratch_; }

  int status = 0;
  std::string content_type, body;
  std::map<std::string, std::string> fields;
  bool streaming = false, ended = false;
  std::unique_ptr<Exchange> exchange;
  std::deque<Request> requests;
  size_t queued = 0;
  uint64_t token = 0;

 private:
  void take(const ResponseHead& head) {
    status = head.status();
    content_type = head.content_type();
    for (const auto& [name, value] : head) fields.emplace(name, value);
  }
  std::string scratch_;
};

}  // namespace rallypoint::server
