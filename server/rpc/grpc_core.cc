#include "server/rpc/grpc_core.h"

#include <algorithm>

#include "server/rpc/grpc_timeout.h"

namespace rallypoint::server {
namespace {

/// A header of constant bytes: nghttp2 need not copy it.
nghttp2_nv constant(std::string_view name, std::string_view value) {
  return {reinterpret_cast<uint8_t*>(const_cast<char*>(name.data())), reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())), name.size(), value.size(),
          NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}
nghttp2_nv copied(std::string_view name, std::string_view value) {
  nghttp2_nv header = constant(name, value);
  header.flags = NGHTTP2_NV_FLAG_NO_COPY_NAME;
  return header;
}

/// Status messages are cut beyond this: a client gives up on longer headers, and some of ours repeat what it has sent.
constexpr size_t kStatusTextMax = 4 << 10;

/// gRPC's percent encoding of status messages: bytes outside of printable ASCII, and '%'.
std::string percent_encoded(std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    if (out.size() >= kStatusTextMax) return out + "...";
    const auto byte = static_cast<uint8_t>(c);
    if (byte >= 0x20 && byte <= 0x7e && byte != '%') {
      out.push_back(c);
    } else {
      out.push_back('%');
      out.push_back(kDigits[byte >> 4]);
      out.push_back(kDigits[byte & 15]);
    }
  }
  return out;
}

/// "application/grpc", or that with a suffix (+proto) or parameters, and not merely something that begins so.
bool is_grpc_type(std::string_view value) {
  constexpr std::string_view kType = "application/grpc";
  return value.starts_with(kType) && (value.size() == kType.size() || value[kType.size()] == '+' || value[kType.size()] == ';');
}

}  // namespace

/// Plain functions between nghttp2 and the core.
struct GrpcCallbacks {
  static GrpcCore& core(void* user) { return *static_cast<GrpcCore*>(user); }

  static int on_begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
    return core(user).begin_headers(frame->hd.stream_id);
  }
  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name, size_t name_size, const uint8_t* value, size_t value_size,
                       uint8_t, void* user) {
    return core(user).header(frame->hd.stream_id, {reinterpret_cast<const char*>(name), name_size}, {reinterpret_cast<const char*>(value), value_size});
  }
  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    GrpcCore& self = core(user);
    const bool end_stream = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    switch (frame->hd.type) {
      case NGHTTP2_SETTINGS:
        self.greeted_ = true;
        return self.count_control() ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
      case NGHTTP2_PING: return self.count_control() ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
      case NGHTTP2_RST_STREAM:
        if (!self.count_control()) return NGHTTP2_ERR_CALLBACK_FAILURE;
        if (++self.resets_ <= self.limits_.resets_per_second_max) return 0;
        self.give_up(NGHTTP2_ENHANCE_YOUR_CALM, "too many streams reset");
        return NGHTTP2_ERR_CALLBACK_FAILURE;
      case NGHTTP2_HEADERS:
        if (GrpcCall* call = self.find(frame->hd.stream_id)) {
          if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) return self.headers_complete(*call, end_stream);
          if (end_stream) self.half_closed(*call);
        }
        return 0;
      case NGHTTP2_DATA:
        if (end_stream)
          if (GrpcCall* call = self.find(frame->hd.stream_id)) self.half_closed(*call);
        return 0;
      default: return 0;
    }
  }
  static int on_data(nghttp2_session*, uint8_t, int32_t stream, const uint8_t* data, size_t size, void* user) {
    return core(user).data(stream, {reinterpret_cast<const char*>(data), size});
  }
  static int on_stream_close(nghttp2_session*, int32_t stream, uint32_t, void* user) { return core(user).stream_closed(stream), 0; }
  static ssize_t on_send(nghttp2_session*, const uint8_t* data, size_t size, int, void* user) {
    GrpcCore& self = core(user);
    if (self.out_->size() >= self.limits_.output_bytes_max) return NGHTTP2_ERR_WOULDBLOCK;
    self.out_->append(reinterpret_cast<const char*>(data), size);
    return static_cast<ssize_t>(size);
  }
  static ssize_t on_read_data(nghttp2_session*, int32_t, uint8_t*, size_t length, uint32_t* flags, nghttp2_data_source* source, void* user) {
    return core(user).read_data(*static_cast<GrpcCall*>(source->ptr), length, flags);
  }
  static int on_send_data(nghttp2_session*, nghttp2_frame*, const uint8_t* head, size_t length, nghttp2_data_source* source, void* user) {
    return core(user).send_data(*static_cast<GrpcCall*>(source->ptr), head, length);
  }
  static int on_frame_sent(nghttp2_session* session, const nghttp2_frame* frame, void*) {
    // We have ended while the client has not: it need not go on (RFC 9113 8.1).
    if (frame->hd.type == NGHTTP2_HEADERS && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0 &&
        nghttp2_session_get_stream_remote_close(session, frame->hd.stream_id) == 0)
      nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
    return 0;
  }
  /// One set for all connections of the process; nghttp2 copies it.
  static const nghttp2_session_callbacks* all() {
    static nghttp2_session_callbacks* const callbacks = [] {
      nghttp2_session_callbacks* made = nullptr;
      nghttp2_session_callbacks_new(&made);
      nghttp2_session_callbacks_set_on_begin_headers_callback(made, on_begin_headers);
      nghttp2_session_callbacks_set_on_header_callback(made, on_header);
      nghttp2_session_callbacks_set_on_frame_recv_callback(made, on_frame);
      nghttp2_session_callbacks_set_on_data_chunk_recv_callback(made, on_data);
      nghttp2_session_callbacks_set_on_stream_close_callback(made, on_stream_close);
      nghttp2_session_callbacks_set_send_callback(made, on_send);
      nghttp2_session_callbacks_set_send_data_callback(made, on_send_data);
      nghttp2_session_callbacks_set_on_frame_send_callback(made, on_frame_sent);
      return made;
    }();
    return callbacks;
  }
};

GrpcCore::GrpcCore(Host& host, const RpcTable& table, const GrpcLimits& limits) : host_(host), table_(table), limits_(limits), second_began_(host.now()) {
  nghttp2_option* option = nullptr;
  RALLY_CHECK(nghttp2_option_new(&option) == 0);
  nghttp2_option_set_max_send_header_block_length(option, 64 << 10);
  // Older Go clients send their whole endpoint as :authority ("http://host:2379"), which nghttp2 would refuse as no
  // authority at all. What of HTTP's rules matters to gRPC is looked at in headers_complete().
  nghttp2_option_set_no_http_messaging(option, 1);
  // The library's own limit, 33 in a second, is less than a client with many short watches needs. Ours comes first.
  nghttp2_option_set_stream_reset_rate_limit(option, 2 * limits_.resets_per_second_max, 2 * limits_.resets_per_second_max);
  nghttp2_option_set_no_auto_window_update(option, 1);  // data() says what the client may send more
  RALLY_CHECK(nghttp2_session_server_new2(&session_, GrpcCallbacks::all(), this, option) == 0);
  nghttp2_option_del(option);
  const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits_.streams_max},
                                             {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, limits_.stream_window_bytes},
                                             {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, static_cast<uint32_t>(limits_.header_bytes_max)}};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, std::size(settings));
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, limits_.connection_window_bytes);
}

GrpcCore::~GrpcCore() {
  nghttp2_session_del(session_);
}

// ---- input --------------------------------------------------------------------------------------------------

bool GrpcCore::receive(std::string_view bytes) {
  if (over_) return false;
  const ssize_t used = nghttp2_session_mem_recv(session_, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  // A protocol error has put a GOAWAY into the output; the rest of what the client sends means nothing.
  if (used < 0) over_ = true;
  else release_held();
  retired_.clear();
  return !over_;
}

bool GrpcCore::count_control() {
  const Instant now = host_.now();
  if (now - second_began_ > Duration::seconds(1)) {
    second_began_ = now;
    resets_ = controls_ = 0;
  }
  if (++controls_ <= limits_.controls_per_second_max + limits_.resets_per_second_max) return true;
  give_up(NGHTTP2_ENHANCE_YOUR_CALM, "too many control frames");
  return false;
}

int GrpcCore::begin_headers(int32_t stream) {
  if (stopping_) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  auto call = std::make_unique<GrpcCall>(*this, stream);
  nghttp2_session_set_stream_user_data(session_, stream, call.get());
  calls_.emplace(stream, std::move(call));
  return 0;
}

int GrpcCore::header(int32_t stream, std::string_view name, std::string_view value) {
  GrpcCall* call = find(stream);
  if (call == nullptr) return 0;
  call->header_bytes_ += name.size() + value.size() + 32;
  if (call->header_bytes_ > limits_.header_bytes_max) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  if (name.starts_with(':')) {
    if (name == ":path") {
      if (!keep(*call, value.size())) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
      call->path_ = value;
    }
    else if (name == ":method") call->is_post_ = value == "POST";
    return 0;
  }
  if (name == "content-type") {
    call->is_grpc_ = is_grpc_type(value);
  } else if (name == "grpc-timeout") {
    call->timeout_is_malformed_ = false;
    if (const auto timeout = parse_grpc_timeout(value)) call->deadline_ = host_.now() + *timeout;
    else call->timeout_is_malformed_ = true;
  } else if (name == "te" || name == "user-agent" || name == "grpc-accept-encoding" || name == "accept-encoding") {
    // Nobody asks for these.
  } else {
    if (!keep(*call, name.size() + value.size() + 64)) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    call->metadata_.emplace_back(name, value);
  }
  return 0;
}

/// A header that is one byte on the wire, by the connection's table, is kilobytes here: all calls together have a bound.
bool GrpcCore::keep(GrpcCall& call, size_t bytes) {
  if (kept_bytes_ + bytes > limits_.kept_headers_bytes_max) return false;
  kept_bytes_ += bytes;
  call.kept_bytes_ += bytes;
  return true;
}

int GrpcCore::headers_complete(GrpcCall& call, bool end_stream) {
  ++requests_;
  if (!call.is_post_ || !call.is_grpc_) {
    // Not gRPC at all: said in HTTP's own words.
    const nghttp2_nv headers[] = {constant(":status", call.is_post_ ? "415" : "405")};
    call.finished_ = call.responded_ = true;
    nghttp2_submit_response(session_, call.stream_, headers, 1, nullptr);
    return 0;
  }
  if (call.timeout_is_malformed_) {
    call.finish(Status::internal(std::string(kMalformedTimeout)));
    return 0;
  }
  if (call.deadline_.us != 0) schedule(call.deadline_, call.stream_);
  call.method_ = table_.find(call.path_);
  if (call.method_ == nullptr) {
    const std::string_view path = call.path_;
    const size_t slash = path.rfind('/');
    const std::string service(slash == std::string_view::npos || slash == 0 ? path : path.substr(1, slash - 1));
    const std::string method(slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1));
    call.finish(Status::unimplemented(table_.has_service(service) ? "unknown method " + method + " for service " + service : "unknown service " + service));
    return 0;
  }
  call.handler_ = call.method_->make(call);
  if (end_stream) half_closed(call);
  return 0;
}

int GrpcCore::data(int32_t stream, std::string_view bytes) {
  GrpcCall* call = find(stream);
  if (call == nullptr || call->finished_ || call->handler_ == nullptr) {
    nghttp2_session_consume(session_, stream, bytes.size());
    return 0;
  }
  receiving_bytes_ += bytes.size();
  call->in_.append(bytes);
  if (call->held_ || is_full()) {
    // The client hears nothing of a larger window either, so what is held has a bound.
    call->unconsumed_ += bytes.size();
    if (!std::exchange(call->held_, true)) held_.push_back(stream);
    return 0;
  }
  nghttp2_session_consume(session_, stream, bytes.size());
  take_messages(*call);
  if (receiving_bytes_ > limits_.receiving_bytes_max) {
    give_up(NGHTTP2_ENHANCE_YOUR_CALM, "too many half sent messages");
    return NGHTTP2_ERR_CALLBACK_FAILURE;
  }
  return 0;
}

void GrpcCore::release_held() {
  while (!held_.empty() && !is_full()) {
    const int32_t stream = held_.front();
    held_.pop_front();
    auto it = calls_.find(stream);
    if (it == calls_.end()) continue;
    GrpcCall& call = *it->second;
    call.held_ = false;
    nghttp2_session_consume(session_, stream, std::exchange(call.unconsumed_, 0));
    if (!call.finished_) take_messages(call);
    if (call.half_closed_) request_ended(call);
  }
}

void GrpcCore::take_messages(GrpcCall& call) {
  size_t at = 0;
  while (!call.finished_ && call.in_.size() - at >= 5) {
    const auto* head = reinterpret_cast<const uint8_t*>(call.in_.data() + at);
    const size_t size = size_t{head[1]} << 24 | size_t{head[2]} << 16 | size_t{head[3]} << 8 | head[4];
    if (head[0] != 0) {
      cancel(call);
      call.finish(Status::unimplemented("grpc: this server takes no compressed messages (grpc-encoding: identity)"));
      break;
    }
    if (size > limits_.message_bytes_max) {
      cancel(call);
      call.finish(Status::resource_exhausted("grpc: received message larger than max (" + std::to_string(size) + " vs. " + std::to_string(limits_.message_bytes_max) + ")"));
      break;
    }
    if (call.in_.size() - at - 5 < size) break;
    if (call.message_seen_ && !call.method_->client_streams) {
      cancel(call);
      call.finish(Status::internal("grpc: a second message for a method that takes one"));
      break;
    }
    call.message_seen_ = true;
    const std::string_view message(call.in_.data() + at + 5, size);
    at += 5 + size;
    call.handler_->on_message(message);
  }
  if (call.finished_) at = call.in_.size();
  receiving_bytes_ -= std::min(receiving_bytes_, at);
  call.in_.erase(0, at);
}

void GrpcCore::half_closed(GrpcCall& call) {
  if (call.half_closed_) return;
  call.half_closed_ = true;
  if (!call.held_) request_ended(call);
}

void GrpcCore::request_ended(GrpcCall& call) {
  if (call.finished_ || call.handler_ == nullptr) return;
  if (!call.in_.empty() || (!call.message_seen_ && !call.method_->client_streams)) {
    cancel(call);
    return call.finish(Status::internal(call.in_.empty() ? "grpc: the request has no message" : "grpc: the request ends inside of a message"));
  }
  if (call.method_->client_streams) call.handler_->on_half_close();
}

void GrpcCore::stream_closed(int32_t stream) {
  auto it = calls_.find(stream);
  if (it == calls_.end()) return;
  GrpcCall& call = *it->second;
  if (!call.finished_) {
    call.finished_ = true;
    cancel(call);
    retire(call);
  }
  if (call.unconsumed_ != 0) nghttp2_session_consume_connection(session_, call.unconsumed_);
  kept_bytes_ -= call.kept_bytes_;
  receiving_bytes_ -= std::min(receiving_bytes_, call.in_.size());
  waiting_bytes_ -= std::min(waiting_bytes_, call.queued_bytes());
  calls_.erase(it);
}

// ---- the calls ----------------------------------------------------------------------------------------------

void GrpcCore::on_reply(Reply&& reply) {
  auto it = by_token_.find(reply.token);
  if (it == by_token_.end()) return;  // the call is over
  GrpcCall& call = *it->second;
  if (call.handler_ != nullptr) call.handler_->on_reply(std::move(reply));
  retired_.clear();
}

/// The handler lets go of what the backend holds for it.
void GrpcCore::cancel(GrpcCall& call) {
  if (call.handler_ != nullptr) call.handler_->on_cancel();
}

/// The handler is done with; it may be on the stack, so it goes a little later.
void GrpcCore::retire(GrpcCall& call) {
  if (call.token_ != 0) by_token_.erase(call.token_);
  call.token_ = 0;
  if (call.handler_ != nullptr) retired_.push_back(std::move(call.handler_));
}

void GrpcCore::schedule(Instant at, int32_t stream) {
  if (timers_.size() >= prune_timers_at_) {
    // Those of calls that have ended: clients ask for minutes and are answered in milliseconds.
    std::erase_if(timers_, [&](const Timer& timer) { return !calls_.contains(timer.stream); });
    std::make_heap(timers_.begin(), timers_.end());
    prune_timers_at_ = kTimersMin + 2 * timers_.size();
  }
  const bool is_next = timers_.empty() || at < timers_.front().at;
  timers_.push_back({at, stream});
  std::push_heap(timers_.begin(), timers_.end());
  if (is_next) host_.arm(at);
}

void GrpcCore::on_time(Instant now) {
  while (!timers_.empty() && timers_.front().at <= now) {
    const int32_t stream = timers_.front().stream;
    std::pop_heap(timers_.begin(), timers_.end());
    timers_.pop_back();
    auto it = calls_.find(stream);
    if (it == calls_.end() || it->second->finished_) continue;
    GrpcCall& call = *it->second;
    if (call.deadline_.us != 0 && call.deadline_ <= now) {
      cancel(call);
      call.finish({Code::kDeadlineExceeded, "context deadline exceeded"});
    } else if (call.wake_at_.us != 0 && call.wake_at_ <= now && call.handler_ != nullptr) {
      call.wake_at_ = Instant();
      call.handler_->on_wake();
    }
  }
  retired_.clear();
  if (!timers_.empty()) host_.arm(timers_.front().at);
}

void GrpcCore::lost() {
  for (auto& [stream, call] : calls_) {
    if (call->finished_) continue;
    call->finished_ = true;
    cancel(*call);
    retire(*call);
  }
  over_ = true;
  retired_.clear();
}

void GrpcCore::ping() { nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr); }

void GrpcCore::stop() {
  stopping_ = true;
  std::vector<GrpcCall*> open;
  for (auto& [stream, call] : calls_)
    if (!call->finished_) open.push_back(call.get());
  for (GrpcCall* call : open) {
    cancel(*call);
    call->finish(Status::unavailable("etcdserver: server stopped"));
  }
  nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(session_), NGHTTP2_NO_ERROR, nullptr, 0);
  retired_.clear();
}

void GrpcCore::give_up(uint32_t error_code, std::string_view reason) {
  nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(session_), error_code,
                        reinterpret_cast<const uint8_t*>(reason.data()), reason.size());
}

// ---- output -------------------------------------------------------------------------------------------------

void GrpcCore::respond(GrpcCall& call) {
  call.responded_ = true;
  if (call.finished_ && call.out_.empty()) {  // an error, or an empty stream: one frame says it all
    const std::string code = std::to_string(static_cast<int>(call.status_.code() == Code::kOutcomeUnknown ? Code::kUnavailable : call.status_.code()));
    const std::string text = percent_encoded(call.status_.message());
    const nghttp2_nv headers[] = {constant(":status", "200"), constant("content-type", "application/grpc"), copied("grpc-status", code), copied("grpc-message", text)};
    nghttp2_submit_response(session_, call.stream_, headers, text.empty() ? 3 : 4, nullptr);
    return;
  }
  const nghttp2_nv headers[] = {constant(":status", "200"), constant("content-type", "application/grpc")};
  nghttp2_data_provider provider{};
  provider.source.ptr = &call;
  provider.read_callback = GrpcCallbacks::on_read_data;
  nghttp2_submit_response(session_, call.stream_, headers, 2, &provider);
}

ssize_t GrpcCore::read_data(GrpcCall& call, size_t length, uint32_t* flags) {
  const size_t available = call.queued_bytes();
  if (available == 0 && !call.finished_) {
    call.deferred_ = true;
    return NGHTTP2_ERR_DEFERRED;
  }
  const size_t size = std::min(length, available);
  *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
  if (size == available && call.finished_) {
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    submit_trailers(call);
  }
  return static_cast<ssize_t>(size);
}

void GrpcCore::submit_trailers(GrpcCall& call) {
  if (call.status_.is_ok()) {
    const nghttp2_nv trailers[] = {constant("grpc-status", "0")};
    nghttp2_submit_trailer(session_, call.stream_, trailers, 1);
    return;
  }
  const std::string code = std::to_string(static_cast<int>(call.status_.code() == Code::kOutcomeUnknown ? Code::kUnavailable : call.status_.code()));
  const std::string text = percent_encoded(call.status_.message());
  const nghttp2_nv trailers[] = {copied("grpc-status", code), copied("grpc-message", text)};
  nghttp2_submit_trailer(session_, call.stream_, trailers, text.empty() ? 1 : 2);
}

int GrpcCore::send_data(GrpcCall& call, const uint8_t* frame_head, size_t length) {
  if (out_->size() >= limits_.output_bytes_max) return NGHTTP2_ERR_WOULDBLOCK;
  out_->append(reinterpret_cast<const char*>(frame_head), 9);
  out_->append(call.out_, call.sent_, length);
  call.sent_ += length;
  waiting_bytes_ -= std::min(waiting_bytes_, length);
  if (call.sent_ == call.out_.size()) {
    call.out_.clear();
    call.sent_ = 0;
    if (call.out_.capacity() > (64 << 10)) call.out_.shrink_to_fit();
  } else if (call.sent_ > (1 << 20)) {  // a long queue does not keep what is out
    call.out_.erase(0, call.sent_);
    call.sent_ = 0;
  }
  return 0;
}

void GrpcCore::produce(std::string& out) {
  out_ = &out;
  nghttp2_session_send(session_);
  out_ = nullptr;
  // Handlers that had filled their queue go on now; what they send goes out with the next turn.
  for (int32_t stream : std::exchange(high_, {})) {
    auto it = calls_.find(stream);
    if (it == calls_.end() || it->second->finished_) continue;
    GrpcCall& call = *it->second;
    if (call.queued_bytes() >= kRpcStreamLowWater) {
      high_.push_back(stream);
      continue;
    }
    call.was_high_ = false;
    call.handler_->on_writable();
  }
  release_held();
  retired_.clear();
}

}  // namespace rallypoint::server
