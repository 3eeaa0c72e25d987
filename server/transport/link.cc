#include "server/transport/link.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>

#include "server/transport/address.h"

namespace rallypoint::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::array<int64_t, 7> kBackoffMillis = {20, 50, 100, 200, 400, 800, 1000};
/// A dying process may close its connections before its listening port; a dial in between is accepted by the
/// kernel and then reset. So a link that breaks while it greets is dialled again at once, a few times.
constexpr int kImmediateDials = 3;

/// The host has no such kind of address: says nothing about the peer.
bool is_local_trouble(const error_code& error) {
  return error == asio::error::network_unreachable || error == asio::error::address_family_not_supported ||
         error == error_code(EADDRNOTAVAIL, boost::system::system_category());
}

}  // namespace

Link::Link(LoopContext& context, NodeId peer, Lane lane, Events& events)
    : context_(context),
      peer_(peer),
      lane_(lane),
      events_(events),
      resolver_(context.io),
      socket_(context.io),
      timer_(context.io),
      random_(context.options.self.value() * 0x9E3779B97F4A7C15 + peer.value() * kLanes +
              static_cast<uint64_t>(lane)) {}

std::string Link::name() const {
  return "peer=" + std::to_string(peer_.value()) + " lane=" + lane_name(lane_);
}

void Link::set_endpoints(std::vector<HostPort> endpoints) {
  if (endpoints_ == endpoints) return;
  endpoints_ = std::move(endpoints);
  if (waiting_ && !closed_) dial();
}

void Link::dial_now() {
  if (!waiting_ || closed_) return;
  failures_ = 0;
  dial();
}

void Link::close() {
  closed_ = true;
  ++dial_;
  up_ = false;
  if (connection_) connection_->close();
  connection_.reset();
  resolver_.cancel();
  timer_.cancel();
  error_code ignored;
  socket_.close(ignored);
}

void Link::tick() {
  if (connection_) {
    connection_->tick();
  } else if (connecting_ && context_.now - connect_began_ > context_.rounds(context_.options.connect_timeout)) {
    error_code ignored;
    socket_.close(ignored);  // its handler comes with operation_aborted and goes on
  }
}

// ---- dialling -------------------------------------------------------------------------------------------------

void Link::dial() {
  ++dial_;
  waiting_ = false;
  connecting_ = false;
  timer_.cancel();
  candidates_.clear();
  dial_errors_.clear();
  any_refused_ = any_other_error_ = false;
  resolve_from(0);
}

void Link::resolve_from(size_t endpoint) {
  for (; endpoint < endpoints_.size(); ++endpoint) {
    const Result<SplitAddress> address = split_address(endpoints_[endpoint]);
    if (!address.is_ok()) {
      any_other_error_ = true;
      dial_errors_ += address.status().message() + "; ";
      continue;
    }
    if (const auto numeric = numeric_endpoint(*address)) {
      candidates_.push_back(*numeric);
      continue;
    }
    resolver_.async_resolve(
        address->host, std::to_string(address->port),
        [self = shared_from_this(), dial = dial_, endpoint](const error_code& error, const auto& results) {
          if (dial != self->dial_) return;
          if (error) {
            self->any_other_error_ = true;
            self->dial_errors_ += self->endpoints_[endpoint] + ": " + error.message() + "; ";
          }
          for (const auto& result : results) self->candidates_.push_back(result.endpoint());
          self->resolve_from(endpoint + 1);
        });
    return;
  }
  connect_from(0);
}

void Link::connect_from(size_t candidate) {
  connecting_ = false;
  if (candidate == candidates_.size()) {
    if (candidates_.empty() && dial_errors_.empty()) dial_errors_ = "it has no address; ";
    dial_failed(dial_errors_.substr(0, dial_errors_.size() - 2), any_refused_ && !any_other_error_);
    return;
  }
  socket_ = tcp::socket(context_.io);
  connecting_ = true;
  connect_began_ = context_.now;
  socket_.async_connect(candidates_[candidate],
                        [self = shared_from_this(), dial = dial_, candidate](const error_code& error) {
                          if (dial != self->dial_) return;
                          if (error) return self->on_connect_failed(error, candidate);
                          self->on_connected();
                        });
}

void Link::on_connect_failed(const error_code& error, size_t candidate) {
  const bool timed_out = error == asio::error::operation_aborted;
  if (error == asio::error::connection_refused) {
    any_refused_ = true;
  } else if (!is_local_trouble(error)) {
    any_other_error_ = true;
  }
  dial_errors_ += to_text(candidates_[candidate]) + ": " + (timed_out ? "no answer in time" : error.message()) + "; ";
  connect_from(candidate + 1);
}

void Link::on_connected() {
  connecting_ = false;
  // Dialling a free port of this host's ephemeral range can, by TCP's simultaneous open, connect to itself.
  error_code error;
  const auto local = socket_.local_endpoint(error);
  const auto remote = error ? tcp::endpoint() : socket_.remote_endpoint(error);
  if (error || local == remote) {
    socket_.close(error);
    dial_failed(to_text(remote) + ": Connection refused", true);
    return;
  }
  connection_ = std::make_shared<Connection>(context_, std::move(socket_), *this);
  const TransportOptions& options = context_.options;
  connection_->enqueue(FrameType::kHello, encode_hello({kPeerProtocolVersion, lane_, options.cluster_id, options.self,
                                                        peer_, options.directory, context_.facts.founding, own_endpoints()}));
  connection_->start();
  connection_->flush();
}

std::vector<HostPort> Link::own_endpoints() const {
  for (const PeerAddress& peer : context_.facts.peers)
    if (peer.id == context_.options.self) return peer.endpoints;
  return {};
}

void Link::dial_failed(const std::string& why, bool refused) {
  const bool just_broke = immediate_dials_left_ > 0;
  immediate_dials_left_ = 0;
  if (why != last_logged_) {
    last_logged_ = why;
    log_warning(name() + " can not be reached, will go on trying: " + why);
  }
  retry_after(next_backoff());
  if (just_broke && refused) events_.on_link_refused(peer_, lane_);
}

Duration Link::next_backoff() {
  const int64_t base = kBackoffMillis[std::min(failures_++, kBackoffMillis.size() - 1)] * 1000;
  // Nodes that lost the same peer must not come back in step.
  return Duration::micros(base - static_cast<int64_t>(random_.below(static_cast<uint64_t>(base / 4))));
}

void Link::retry_after(Duration delay) {
  waiting_ = true;
  timer_.expires_after(std::chrono::microseconds(delay.us));
  timer_.async_wait([self = shared_from_this(), dial = dial_](const error_code& error) {
    if (!error && dial == self->dial_ && !self->closed_) self->dial();
  });
}

// ---- what the connection tells --------------------------------------------------------------------------------

Status Link::on_frame(Frame frame) {
  if (up_) return Status::invalid_argument("the acceptor sent a frame, only keep-alives are its to send");
  if (frame.type == FrameType::kReject) {
    const Result<Reject> reject = decode_reject(frame.body.view());
    if (reject.is_ok() && reject->reason == RejectReason::kRemoved) events_.on_link_removed(peer_);
    return Status(Code::kFailedPrecondition, reject.is_ok() ? reject.value().text : reject.status().message());
  }
  if (frame.type != FrameType::kWelcome) return Status::invalid_argument("no answer to the hello but another frame");
  const Result<Welcome> welcome = decode_welcome(frame.body.view());
  if (!welcome.is_ok()) return welcome.status();

  connection_->established();
  up_ = true;
  immediate_dials_left_ = 0;
  failures_ = 0;
  last_logged_.clear();
  context_.stats.links_up.fetch_add(1, std::memory_order_relaxed);
  log_info(name() + " up at=" + connection_->remote() + " directory=" +
           std::to_string(welcome.value().directory.value()));
  events_.on_link_up(peer_, lane_);
  return Status::ok();
}

void Link::on_closed(const Status& why) {
  connection_.reset();
  if (up_) {
    up_ = false;
    immediate_dials_left_ = kImmediateDials;
    context_.stats.links_up.fetch_sub(1, std::memory_order_relaxed);
    context_.stats.links_broken.fetch_add(1, std::memory_order_relaxed);
    log_warning(name() + " broke, dialling again: " + why.message());
    events_.on_link_down(peer_, lane_);
    if (!closed_) dial();
  } else if (why.code() == Code::kFailedPrecondition) {
    immediate_dials_left_ = 0;
    if (why.message() != last_logged_) {
      last_logged_ = why.message();
      log_warning(name() + " refuses this member, check the cluster token, names and peer URLs: " + why.message());
    }
    retry_after(context_.options.refused_retry);
  } else if (immediate_dials_left_ > 1) {
    --immediate_dials_left_;
    dial();
  } else {
    dial_failed("hung up during the handshake: " + why.message(), false);
  }
}

}  // namespace rallypoint::server
