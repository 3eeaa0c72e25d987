// etcdserverpb.Watch: one stream, many watchers. Who watches what is the node's business (storage/watch); here messages go
// in, and what comes back gets its watch_id and goes out.
//
// The stream lasts until the client goes: one that says it sends nothing more still wants its events. When the connection
// doesn't take them as fast as they come, the node is told to hold them back; it reads them from history later.

#include <google/protobuf/io/coded_stream.h>

#include "server/api/v3/handler.h"
#include "server/api/v3/make.h"

namespace rallypoint::server::v3 {
namespace {

/// Field 2 of a WatchResponse, to be put behind the rest of it. `space` takes a tag and ten bytes.
std::string_view encode_watch_id(int64_t watch_id, uint8_t* space) {
  if (watch_id == 0) return {};  // the default is not encoded
  uint8_t* end = google::protobuf::io::CodedOutputStream::WriteTagToArray(2 << 3, space);
  end = google::protobuf::io::CodedOutputStream::WriteVarint64ToArray(static_cast<uint64_t>(watch_id), end);
  return {reinterpret_cast<const char*>(space), static_cast<size_t>(end - space)};
}

class WatchHandler final : public StreamHandler {
 public:
  using StreamHandler::StreamHandler;

  void on_reply(Reply&& reply) override {
    if (const auto* parts = std::get_if<WatchParts>(&reply.body)) {
      for (const WatchPart& part : parts->parts) {
        uint8_t space[16];
        rpc_.send(part.response, encode_watch_id(part.watch_id, space));
      }
      if (!held_ && rpc_.queued_bytes() > kRpcStreamHighWater) {
        held_ = true;
        submit(V3WatchFlow{rpc_.call(), false});
      }
      return;
    }
    const auto* status = std::get_if<Status>(&reply.body);
    finish(status != nullptr ? *status : Status::internal("the node gave an answer of another kind"));
  }

  void on_writable() override {
    if (!held_) return;
    held_ = false;
    submit(V3WatchFlow{rpc_.call(), true});
  }

 private:
  void handle(std::string_view message) override {
    auto request = std::make_unique<etcdserverpb::WatchRequest>();
    if (parse(message, *request)) submit(V3WatchMessage{rpc_.call(), std::move(request)});
  }

  bool held_ = false;  // the node holds events back
};

}  // namespace

Made make_watch(Rpc& rpc, const V3Settings& settings) { return std::make_unique<WatchHandler>(rpc, settings); }

}  // namespace rallypoint::server::v3
