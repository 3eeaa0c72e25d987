#include "server/transport/loop.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "raft/base/check.h"
#include "raft/wire.h"
#include "server/transport/address.h"

namespace rallypoint::server {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {
constexpr int kListenBacklog = 128;
constexpr auto kAcceptRetry = std::chrono::milliseconds(100);
constexpr Duration kRejectedLogPeriod = Duration::seconds(1);
}  // namespace

Transport::Loop::Loop(TransportOptions options, TransportHandler& handler, Rounds* shared)
    : options_(std::move(options)),
      own_rounds_(shared == nullptr ? std::make_unique<Rounds>() : nullptr),
      rounds_(shared == nullptr ? *own_rounds_ : *shared),
      context_{io_, options_, handler, stats_, 0, Duration::micros(options_.keepalive_interval.us / 4)} {
  const Status valid = options_.validate();
  RALLY_CHECK(valid.is_ok(), "status", valid);
}

Transport::Loop::~Loop() { stop(); }

// ---- from other threads ---------------------------------------------------------------------------------------

void Transport::Loop::start() {
  for (const auto& acceptor : acceptors_) accept(*acceptor);
  schedule_round();
  if (own_rounds_) thread_ = std::thread([this] { io_.run(); });
}

void Transport::Loop::stop() {
  if (std::exchange(stopped_, true)) return;
  if (own_rounds_) io_.stop();
  if (thread_.joinable()) thread_.join();
  for (auto& acceptor : acceptors_) {
    error_code ignored;
    acceptor->close(ignored);
  }
  for (auto& [id, peer] : peers_) {
    for (auto& link : peer.links) link->close();
  }
  for (auto& inbound : inbound_) inbound->close();
}

void Transport::Loop::set_cluster(ClusterFacts facts) {
  rounds_.post([this, facts = std::move(facts)]() mutable { apply_facts(std::move(facts)); });
}

void Transport::Loop::wake(bool was_empty) {
  if (was_empty) rounds_.post([this] { drain_mailbox(); });
}

void Transport::Loop::send(std::vector<raft::Message>&& messages) {
  if (messages.empty()) return;
  bool was_empty = false;
  size_t dropped = 0;
  {
    std::lock_guard lock(mutex_);
    was_empty = mailbox_.empty() && app_mailbox_.empty();
    if (mailbox_.empty()) {
      mailbox_ = std::move(messages);
    } else if (mailbox_.size() + messages.size() <= options_.mailbox_messages_max) {
      std::move(messages.begin(), messages.end(), std::back_inserter(mailbox_));
    } else {
      dropped = messages.size();
    }
  }
  messages.clear();
  if (dropped > 0) stats_.dropped_messages.fetch_add(dropped, std::memory_order_relaxed);
  wake(was_empty);
}

void Transport::Loop::send_app(NodeId to, uint8_t type, Bytes payload) {
  bool was_empty = false;
  {
    std::lock_guard lock(mutex_);
    was_empty = mailbox_.empty() && app_mailbox_.empty();
    if (app_mailbox_.size() < options_.mailbox_messages_max) {
      app_mailbox_.push_back({to, type, std::move(payload)});
    } else {
      stats_.dropped_app.fetch_add(1, std::memory_order_relaxed);
    }
  }
  wake(was_empty);
}

// ---- sending --------------------------------------------------------------------------------------------------

void Transport::Loop::drain_mailbox() {
  {
    std::lock_guard lock(mutex_);
    std::swap(mailbox_, draining_);
    std::swap(app_mailbox_, app_draining_);
  }
  for (const raft::Message& message : draining_) enqueue(message);
  for (const App& app : app_draining_) enqueue(app);
  draining_.clear();
  app_draining_.clear();
  // One write per link for all that waited. A flush may break its link, which touches neither dirty_ nor peers_.
  for (Link* link : dirty_) link->flush();
  dirty_.clear();
}

Link* Transport::Loop::link_to(NodeId to, Lane lane) {
  const auto it = peers_.find(to);
  return it == peers_.end() ? nullptr : it->second.links[static_cast<size_t>(lane)].get();
}

void Transport::Loop::mark_dirty(Link* link) {
  if (std::find(dirty_.begin(), dirty_.end(), link) == dirty_.end()) dirty_.push_back(link);
}

void Transport::Loop::enqueue(const raft::Message& message) {
  Link* link = link_to(message.to, is_urgent(message) ? Lane::kUrgent : Lane::kBulk);
  bool taken = false;
  if (link != nullptr && link->is_up()) {
    head_.clear();
    payloads_.clear();
    raft::encode(message, head_, payloads_);
    size_t bytes = head_.size();
    for (const Bytes& payload : payloads_) bytes += payload.size();
    // The receiver would end the connection for a larger one.
    taken = bytes <= options_.frame_bytes_max && link->enqueue(FrameType::kRaft, head_, payloads_);
    payloads_.clear();
  }
  if (taken) {
    mark_dirty(link);
  } else {
    stats_.dropped_messages.fetch_add(1, std::memory_order_relaxed);
  }
}

void Transport::Loop::enqueue(const App& app) {
  Link* link = link_to(app.to, Lane::kBulk);
  const char type = static_cast<char>(app.type);
  const std::span<const Bytes> payload(&app.payload, app.payload.empty() ? 0 : 1);
  if (link != nullptr && app.payload.size() < options_.frame_bytes_max &&
      link->enqueue(FrameType::kApp, {&type, 1}, payload)) {
    mark_dirty(link);
  } else {
    stats_.dropped_app.fetch_add(1, std::memory_order_relaxed);
  }
}

// ---- peers ----------------------------------------------------------------------------------------------------

void Transport::Loop::apply_facts(ClusterFacts facts) {
  context_.facts = std::move(facts);
  apply_peers(context_.facts.peers);
  // Whoever would not be welcome any more says hello again, and is told then.
  const auto all = inbound_;
  for (const auto& inbound : all) {
    if (!inbound->is_greeted() || inbound->is_welcome()) continue;
    inbound->close();
    remove_later(*inbound);
  }
}

void Transport::Loop::apply_peers(const std::vector<PeerAddress>& peers) {
  for (auto it = peers_.begin(); it != peers_.end();) {
    const bool is_member = std::any_of(peers.begin(), peers.end(), [&](const auto& peer) { return peer.id == it->first; });
    if (is_member) it->second.is_guest = false;
    it = is_member || it->second.is_guest ? std::next(it) : drop_peer(it);
  }
  for (const PeerAddress& address : peers) {
    if (address.id == options_.self || address.id.is_zero()) continue;
    add_peer(address);
  }
}

Transport::Loop::Peer& Transport::Loop::add_peer(const PeerAddress& address) {
  Peer& peer = peers_[address.id];
  for (Lane lane : {Lane::kUrgent, Lane::kBulk}) {
    auto& link = peer.links[static_cast<size_t>(lane)];
    if (!link) link = std::make_shared<Link>(context_, address.id, lane, *this);
    link->set_endpoints(address.endpoints);
  }
  return peer;
}

std::unordered_map<NodeId, Transport::Loop::Peer>::iterator Transport::Loop::drop_peer(std::unordered_map<NodeId, Peer>::iterator peer) {
  for (auto& link : peer->second.links) {
    if (link->is_up()) stats_.links_up.fetch_sub(1, std::memory_order_relaxed);
    link->close();
  }
  return peers_.erase(peer);
}

bool Transport::Loop::is_connected_to_us(NodeId peer) const {
  return std::any_of(inbound_.begin(), inbound_.end(), [&](const auto& one) { return one->is_greeted() && one->peer() == peer; });
}

void Transport::Loop::on_link_up(NodeId id, Lane) {
  const auto it = peers_.find(id);
  if (it == peers_.end()) return;
  Peer& peer = it->second;
  peer.lost_told = false;
  const bool all = std::all_of(peer.links.begin(), peer.links.end(), [](const auto& link) { return link->is_up(); });
  if (!all || std::exchange(peer.up_told, true)) return;
  context_.handler.on_peer_up(id);
}

void Transport::Loop::on_link_down(NodeId id, Lane) {
  const auto it = peers_.find(id);
  if (it != peers_.end()) it->second.up_told = false;
}

void Transport::Loop::on_link_refused(NodeId id, Lane) {
  const auto it = peers_.find(id);
  if (it == peers_.end() || std::exchange(it->second.lost_told, true)) return;
  log_warning("peer=" + std::to_string(id.value()) + " is gone: its connection broke and its port refuses a new one");
  context_.handler.on_peer_lost(id);
}

// ---- accepting ------------------------------------------------------------------------------------------------

Status Transport::Loop::bind(const tcp::endpoint& endpoint) {
  auto acceptor = std::make_unique<Acceptor>(io_);
  error_code error;
  acceptor->open(endpoint.protocol(), error);
  if (!error) acceptor->set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor->bind(endpoint, error);
  if (!error) acceptor->listen(kListenBacklog, error);
  if (error) {
    return Status::unavailable("can not listen for members on " + to_text(endpoint) + ": " + error.message());
  }
  acceptors_.push_back(std::move(acceptor));
  return Status::ok();
}

Status Transport::Loop::listen() {
  for (const HostPort& text : options_.listen) {
    Result<SplitAddress> address = split_address(text);
    if (!address.is_ok()) return address.status();
    if (const auto endpoint = numeric_endpoint(*address)) {
      RALLY_RETURN_IF_ERROR(bind(*endpoint));
      continue;
    }
    error_code error;
    tcp::resolver resolver(io_);
    const auto results = resolver.resolve(address->host, std::to_string(address->port), error);
    if (error) return Status::unavailable("can not resolve peer address " + text + ": " + error.message());
    // A name like localhost may have an IPv6 address on a host without IPv6: one that works is enough.
    Status last = Status::unavailable("peer address " + text + " has no address");
    bool bound = false;
    for (const auto& result : results) {
      last = bind(result.endpoint());
      bound = bound || last.is_ok();
    }
    if (!bound) return last;
  }
  return Status::ok();
}

std::vector<HostPort> Transport::Loop::listening() const {
  std::vector<HostPort> all;
  for (const auto& acceptor : acceptors_) {
    error_code error;
    const auto endpoint = acceptor->local_endpoint(error);
    if (!error) all.push_back(to_text(endpoint));
  }
  return all;
}

void Transport::Loop::accept(Acceptor& acceptor) {
  acceptor.async_accept(io_, [this, &acceptor](const error_code& error, tcp::socket socket) {
    if (!error) {
      on_accepted(std::move(socket));
      accept(acceptor);
    } else if (error != asio::error::operation_aborted) {
      // Out of file descriptors, most likely: it would fail again at once.
      log_rejected("can not accept a connection: " + error.message());
      accept_timer_.expires_after(kAcceptRetry);
      accept_timer_.async_wait([this, &acceptor](const error_code&) { accept(acceptor); });
    }
  });
}

void Transport::Loop::on_accepted(tcp::socket socket) {
  if (!make_room_for_inbound()) {
    stats_.rejected.fetch_add(1, std::memory_order_relaxed);
    log_rejected("refused a connection: all " + std::to_string(options_.inbound_connections_max) +
                 " are taken by members");
    return;
  }
  inbound_.push_back(std::make_shared<Inbound>(context_, std::move(socket), *this));
  stats_.inbound.store(inbound_.size(), std::memory_order_relaxed);
  inbound_.back()->start();
}

bool Transport::Loop::make_room_for_inbound() {
  if (inbound_.size() < options_.inbound_connections_max) return true;
  const auto it = std::find_if(inbound_.begin(), inbound_.end(), [](const auto& one) { return !one->is_greeted(); });
  if (it == inbound_.end()) return false;
  stats_.rejected.fetch_add(1, std::memory_order_relaxed);
  log_rejected("ended the connection from " + (*it)->remote() + ", which had not said hello, for a newer one");
  (*it)->close();
  remove_later(**it);
  return true;
}

void Transport::Loop::remove_later(Inbound& inbound) {
  const auto it = std::find_if(inbound_.begin(), inbound_.end(), [&](const auto& one) { return one.get() == &inbound; });
  if (it == inbound_.end()) return;
  // It may be in one of its own functions just now.
  rounds_.post([keep = std::move(*it)] {});
  inbound_.erase(it);
  if (const auto guest = peers_.find(inbound.peer()); guest != peers_.end() && guest->second.is_guest && !is_connected_to_us(guest->first))
    drop_peer(guest);
  stats_.inbound.store(inbound_.size(), std::memory_order_relaxed);
}

void Transport::Loop::on_inbound_hello(Inbound& inbound) {
  // A member that has come back is spoken to again at once: until then it would hear no vote, and if the leader died
  // right now, nobody could be elected before the back-off ends.
  if (const auto peer = peers_.find(inbound.peer()); peer != peers_.end())
    for (const auto& link : peer->second.links) link->dial_now();
  // One that is not known here may be known to all the others, and lead them: whoever was away learns of it only from
  // the log that it brings, and it brings more only when it is answered.
  else if (!inbound.endpoints().empty())
    add_peer({inbound.peer(), inbound.endpoints()}).is_guest = true;
  // The peer dials a lane again only after it gave the old connection up, whatever that one looks like from here.
  const auto old = std::find_if(inbound_.begin(), inbound_.end(), [&](const auto& one) {
    return one.get() != &inbound && one->is_greeted() && one->peer() == inbound.peer() && one->lane() == inbound.lane();
  });
  if (old == inbound_.end()) return;
  (*old)->close();
  remove_later(**old);
}

void Transport::Loop::on_inbound_closed(Inbound& inbound, const Status& why) {
  // Others have just left: peers tell about that on their side, and port probes are nobody's business.
  if (why.code() == Code::kInvalidArgument || why.code() == Code::kDeadlineExceeded) {
    stats_.rejected.fetch_add(1, std::memory_order_relaxed);
    log_rejected("ended the connection from " + inbound.remote() + ": " + why.message());
  }
  remove_later(inbound);
}

void Transport::Loop::log_rejected(const std::string& line) {
  uint64_t suppressed = 0;
  if (!rejected_limiter_.allow(context_.now, context_.rounds(kRejectedLogPeriod), suppressed)) return;
  log_warning(suppressed == 0 ? line : line + " (and " + std::to_string(suppressed) + " more like this)");
}

// ---- housekeeping ---------------------------------------------------------------------------------------------

void Transport::Loop::schedule_round() {
  round_timer_.expires_after(std::chrono::microseconds(context_.round.us));
  round_timer_.async_wait([this](const error_code& error) {
    if (!error) round();
  });
}

void Transport::Loop::round() {
  ++context_.now;
  for (auto& [id, peer] : peers_) {
    for (auto& link : peer.links) link->tick();
  }
  const auto all = inbound_;  // a tick may remove its connection
  for (const auto& inbound : all) inbound->tick();
  schedule_round();
}

}  // namespace rallypoint::server
