// V3State: the part of the replicated state that etcd's v3 API speaks to: keyspace, leases, alarms, and the answers kept
// for idempotency keys. It turns a logged request into changes of them, in the order of the log.
//
// Owned by the state machine; pure. A request that is wrong is an answer, the same on every node; an engine error is a
// Status that stops the node.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "server/state/command.pb.h"
#include "server/state/kept_answers.h"
#include "storage/etcd_api/rpc.pb.h"
#include "storage/lease/lessor.h"
#include "storage/mvcc/keyspace.h"

namespace rallypoint::server {

class V3State {
 public:
  /// Nothing of this may differ between members, or their states would part: what an option bounds (the quota, operations
  /// per transaction) is checked before a request is proposed.
  struct Settings {
    lease::Lessor::Settings lessor;
    mvcc::Keyspace::Settings keyspace{.txn_operations_max = 1 << 20};
  };
  using Alarm = std::pair<uint64_t, int>;  ///< member, etcdserverpb::AlarmType

  static Result<std::unique_ptr<V3State>> open(std::shared_ptr<storage::Engine> engine, const Settings& settings);

  /// `header` of whoever answers; its revision comes from the keyspace. `wanted` = somebody waits for the answer here.
  Result<mvcc::Outcome> apply(const pb::V3Write& write, const mvcc::HeaderInfo& header, bool wanted, Instant now);
  Status apply(const pb::LeaseExpiry& expiry, uint64_t entry_term);
  void apply(const pb::LeaseCheckpoints& checkpoints, uint64_t entry_term);
  /// Cluster time goes on.
  void expire(Instant now) { kept_answers_.expire(now); }

  void collect_changes(storage::WriteBatch& batch);
  void changes_written() { keyspace_->changes_written(); }

  [[nodiscard]] mvcc::Keyspace& keyspace() { return *keyspace_; }
  [[nodiscard]] const mvcc::Keyspace& keyspace() const { return *keyspace_; }
  [[nodiscard]] lease::Lessor& lessor() { return lessor_; }
  [[nodiscard]] const lease::Lessor& lessor() const { return lessor_; }
  /// With whether the quota raised it by itself.
  [[nodiscard]] const std::map<Alarm, bool>& alarms() const { return alarms_; }
  [[nodiscard]] bool has_alarm(int type) const;
  [[nodiscard]] uint64_t digest() const;

  /// Whether the transaction could store something: what the NOSPACE alarm refuses.
  static bool puts_something(const etcdserverpb::TxnRequest& request);

 private:
  explicit V3State(const Settings& settings) : lessor_(settings.lessor) {}
  Result<mvcc::Outcome> execute(const pb::V3Write& write, const mvcc::HeaderInfo* header);
  Result<mvcc::Outcome> grant(std::string_view bytes, const mvcc::HeaderInfo* header);
  Result<mvcc::Outcome> revoke(std::string_view bytes, const mvcc::HeaderInfo* header);
  mvcc::Outcome alarm(const pb::V3Write& write, const mvcc::HeaderInfo* header);

  lease::Lessor lessor_;
  std::unique_ptr<mvcc::Keyspace> keyspace_;
  KeptAnswers kept_answers_;
  std::map<Alarm, bool> alarms_;
  std::set<Alarm> changed_alarms_;
};

/// Fills a response's header.
void fill_header(etcdserverpb::ResponseHeader& out, const mvcc::HeaderInfo& info, int64_t revision);

}  // namespace rallypoint::server
