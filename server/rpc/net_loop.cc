#include "server/rpc/net_loop.h"

#include <ctime>

#include "server/rpc/http1_session.h"
#include "server/rpc/http2_session.h"

namespace rallypoint::server {

namespace asio = boost::asio;

NetLoop::NetLoop(Backend& backend, const Router& router, const RpcTable& rpcs, const HttpLimits& limits, HttpCounters& counters,
                 Rounds* shared)
    : backend_(backend),
      router_(router),
      rpcs_(rpcs),
      limits_(limits),
      counters_(counters),
      own_rounds_(shared == nullptr ? std::make_unique<Rounds>() : nullptr),
      rounds_(shared == nullptr ? *own_rounds_ : *shared),
      timer_(context()) {
  update_date();
}

NetLoop::~NetLoop() { close_all(); }

void NetLoop::run() {
  arm_tick();
  context().run();
}

void NetLoop::stop() {
  post([this] {
    stopping_ = true;
    close_all();
    flush_requests();
    context().stop();
  });
}

void NetLoop::start_shared() { arm_tick(); }

void NetLoop::stop_shared() {
  stopping_ = true;
  drain();
  close_all();
}

void NetLoop::deliver(std::vector<Reply>&& replies) {
  bool was_empty = false;
  {
    std::lock_guard lock(mutex_);
    was_empty = mailbox_.empty();
    if (was_empty) {
      mailbox_ = std::move(replies);
    } else {
      for (Reply& reply : replies) mailbox_.push_back(std::move(reply));
    }
  }
  if (was_empty) post([this] { drain(); });
}

void NetLoop::drain() {
  std::vector<Reply> replies;
  {
    std::lock_guard lock(mutex_);
    replies.swap(mailbox_);
  }
  for (Reply& reply : replies) {
    const uint64_t slot = reply.token & kSlotMask;
    if (slot >= slots_.size() || !slots_[slot]) continue;  // the client has gone
    Connection& connection = *slots_[slot];
    connection.on_reply(std::move(reply));
    if (!connection.resume_pending) {
      connection.resume_pending = true;
      to_resume_.push_back(connection.shared_from_this());
    }
  }
  for (auto& connection : to_resume_) {
    connection->resume_pending = false;
    connection->resume();
  }
  to_resume_.clear();
}

void NetLoop::submit(Request&& request) {
  // The first request of a round posts the flush: it runs behind the sockets that are ready in the same round, and
  // their requests go along.
  if (requests_.empty()) post([this] { flush_requests(); });
  requests_.push_back(std::move(request));
}

void NetLoop::flush_requests() {
  if (requests_.empty()) return;
  std::vector<Request> batch;
  batch.swap(requests_);
  backend_.submit(std::move(batch));
}

void NetLoop::adopt(asio::ip::tcp::socket&& socket, const Router& router) {
  if (stopping_) {
    counters_.connections.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  // HTTP/1.1 until the first bytes say otherwise.
  auto connection = std::make_shared<Http1Session>(*this, std::move(socket), router);
  if (free_slots_.empty()) {
    RALLY_CHECK(slots_.size() <= kSlotMask, "slots", slots_.size());
    free_slots_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  connection->slot = free_slots_.back();
  free_slots_.pop_back();
  slots_[connection->slot] = connection;
  connection->start();
}

void NetLoop::become_http2(Connection& old, asio::ip::tcp::socket&& socket, std::string&& received) {
  auto connection = std::make_shared<Http2Session>(*this, std::move(socket), std::move(received));
  connection->slot = old.slot;
  slots_[old.slot] = connection;
  connection->start();
}

void NetLoop::remove(Connection& connection) {
  RALLY_CHECK(slots_[connection.slot].get() == &connection, "slot", connection.slot);
  counters_.connections.fetch_sub(1, std::memory_order_relaxed);
  free_slots_.push_back(connection.slot);
  slots_[connection.slot].reset();
}

uint64_t NetLoop::make_token(const Connection& connection) { return ++serial_ << kSlotBits | connection.slot; }

void NetLoop::arm_tick() {
  timer_.expires_after(limits_.tick);
  timer_.async_wait([this](boost::system::error_code error) {
    if (error || stopping_) return;
    ++tick_;
    update_date();
    for (size_t slot = 0; slot < slots_.size(); ++slot)
      if (std::shared_ptr<Connection> connection = slots_[slot]) connection->on_tick(tick_);
    arm_tick();
  });
}

void NetLoop::update_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[40];
  date_.assign(text, std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts));
}

void NetLoop::close_all() {
  for (size_t slot = 0; slot < slots_.size(); ++slot)
    if (std::shared_ptr<Connection> connection = slots_[slot]) connection->close();
}

}  // namespace rallypoint::server
