#include "server/proposals.h"

#include <algorithm>

#include "server/state/command.pb.h"

namespace rallypoint::server {

uint64_t Proposals::add(Call call, Kind kind, std::string body, Instant deadline) {
  const uint64_t sequence = first_sequence_ + window_.size();
  window_.push_back({{call, kind}, Bytes(std::move(body)), deadline, {}});
  earliest_ = std::min(earliest_, deadline);
  ++waiting_;
  to_propose_.push_back(sequence);
  return sequence;
}

Proposals::Write* Proposals::find(uint64_t sequence) {
  if (sequence < first_sequence_ || sequence - first_sequence_ >= window_.size()) return nullptr;
  Write& write = window_[sequence - first_sequence_];
  return write.done ? nullptr : &write;
}

void Proposals::end(Write& write) {
  write.done = true;
  write.command = {};
  --waiting_;
  while (!window_.empty() && window_.front().done) {
    window_.pop_front();
    ++first_sequence_;
  }
}

std::vector<Bytes> Proposals::take(Instant now) {
  std::vector<Bytes> commands;
  if (incarnation_ == 0) return commands;
  commands.reserve(to_propose_.size());
  for (uint64_t sequence : to_propose_) {
    Write* write = find(sequence);
    if (write == nullptr) continue;
    if (!write->encoded) {
      // Protobuf messages concatenate: the origin is put before the body.
      pb::Command origin;
      origin.set_node(self_.value());
      origin.set_incarnation(incarnation_);
      origin.set_sequence(sequence);
      origin.set_low_water(first_sequence_);
      std::string command;
      command.reserve(48 + write->command.size());
      origin.AppendToString(&command);
      command.append(write->command.view());
      write->command = Bytes(std::move(command));
      write->encoded = true;
    }
    write->proposed = now;
    commands.push_back(write->command);
  }
  to_propose_.clear();
  return commands;
}

void Proposals::again() {
  to_propose_.clear();
  for (size_t i = 0; i < window_.size(); ++i)
    if (!window_[i].done) to_propose_.push_back(first_sequence_ + i);
}

void Proposals::retry(Instant now, Duration retry_after) {
  for (size_t i = 0; i < window_.size(); ++i) {
    Write& write = window_[i];
    if (write.done || write.proposed.us == 0 || now <= write.proposed + retry_after) continue;
    write.proposed = now;
    to_propose_.push_back(first_sequence_ + i);
  }
}

std::optional<Proposals::Waiter> Proposals::finish(uint64_t sequence) {
  Write* write = find(sequence);
  if (write == nullptr) return std::nullopt;
  const Waiter waiter = write->waiter;
  end(*write);
  return waiter;
}

void Proposals::expire(Instant now, const std::function<void(const Waiter&, bool)>& ended) {
  if (now <= earliest_) return;
  earliest_ = kNever;
  for (uint64_t sequence = first_sequence_, last = first_sequence_ + window_.size(); sequence < last; ++sequence) {
    Write* write = find(sequence);
    if (write == nullptr) continue;
    if (now <= write->deadline) {
      earliest_ = std::min(earliest_, write->deadline);
      continue;
    }
    const Waiter waiter = write->waiter;
    const bool proposed = write->proposed.us != 0;
    end(*write);
    ended(waiter, proposed);
  }
}

void Proposals::finish_if(const std::function<bool(uint64_t)>& is_applied, const std::function<void(const Waiter&)>& ended) {
  for (uint64_t sequence = first_sequence_, last = first_sequence_ + window_.size(); sequence < last; ++sequence) {
    Write* write = find(sequence);
    if (write == nullptr || !is_applied(sequence)) continue;
    const Waiter waiter = write->waiter;
    end(*write);
    ended(waiter);
  }
}

}  // namespace rallypoint::server
