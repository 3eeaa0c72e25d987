// v3electionpb.Election: the leader is whoever is first in the queue under the election's name; what it proclaims is its
// key's value. A leader proves itself by its key's create_revision, which is also its fencing token.

#include "server/api/v3/make.h"
#include "server/api/v3/queue.h"
#include "storage/etcd_api/election.pb.h"

namespace rallypoint::server::v3 {
namespace {

namespace pb = etcdserverpb;
using v3electionpb::LeaderKey;

pb::TxnRequest proclamation(const std::string& key, int64_t revision, int64_t lease, const std::string& value) {
  pb::TxnRequest txn;
  compare_age(txn, key, revision);
  pb::PutRequest& put = *txn.add_success()->mutable_request_put();
  put.set_key(key);
  put.set_value(value);
  if (lease != 0) put.set_lease(lease);
  else put.set_ignore_lease(true);
  return txn;
}

class CampaignHandler final : public QueueHandler {
 public:
  using QueueHandler::QueueHandler;

 private:
  void begin(std::string_view message) override {
    v3electionpb::CampaignRequest request;
    if (parse(message, request)) enter(request.name(), request.lease(), request.value());
  }
  void on_other_value() override {
    write(V3WriteKind::kTxn, proclamation(key_, revision_, lease_, value_), [this](std::string_view bytes) {
      pb::TxnResponse response;
      response.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
      if (!response.succeeded()) return give_up(kElectionNotLeader);
      look();
    });
  }
  void on_first(const pb::ResponseHeader& header) override {
    v3electionpb::CampaignResponse response;
    *response.mutable_header() = header;
    LeaderKey& leader = *response.mutable_leader();
    leader.set_name(name_);
    leader.set_key(key_);
    leader.set_rev(revision_);
    leader.set_lease(lease_);
    answer(response);
  }
  Status session_expired() const override { return kElectionSessionExpired; }
};

class ProclaimHandler final : public StepsHandler {
 public:
  using StepsHandler::StepsHandler;

 private:
  void begin(std::string_view message) override {
    v3electionpb::ProclaimRequest request;
    if (!parse(message, request)) return;
    if (!request.has_leader()) return fail(kMissingLeaderKey);
    const LeaderKey& leader = request.leader();
    if (leader.key().empty()) return fail(kElectionNotLeader);
    write(V3WriteKind::kTxn, proclamation(leader.key(), leader.rev(), leader.lease(), request.value()), [this](std::string_view bytes) {
      pb::TxnResponse done;
      done.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
      if (!done.succeeded()) return fail(kElectionNotLeader);
      v3electionpb::ProclaimResponse response;
      *response.mutable_header() = done.header();
      answer(response);
    });
  }
};

class ResignHandler final : public StepsHandler {
 public:
  using StepsHandler::StepsHandler;

 private:
  void begin(std::string_view message) override {
    v3electionpb::ResignRequest request;
    if (!parse(message, request)) return;
    if (!request.has_leader()) return fail(kMissingLeaderKey);
    if (request.leader().key().empty()) return fail(kEmptyKey);
    pb::TxnRequest txn;
    compare_age(txn, request.leader().key(), request.leader().rev());
    txn.add_success()->mutable_request_delete_range()->set_key(request.leader().key());
    write(V3WriteKind::kTxn, txn, [this](std::string_view bytes) {
      pb::TxnResponse done;
      done.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
      v3electionpb::ResignResponse response;  // also of one who was no leader any more
      *response.mutable_header() = done.header();
      answer(response);
    });
  }
};

class LeaderHandler final : public StepsHandler {
 public:
  using StepsHandler::StepsHandler;

 private:
  void begin(std::string_view message) override {
    v3electionpb::LeaderRequest request;
    if (!parse(message, request)) return;
    read(in_queue(request.name(), pb::RangeRequest::ASCEND, 0), [this](std::string_view bytes) {
      pb::RangeResponse first;
      first.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
      if (first.kvs_size() == 0) return fail(kElectionNoLeader);
      v3electionpb::LeaderResponse response;
      *response.mutable_header() = first.header();
      *response.mutable_kv() = first.kvs(0);
      answer(response);
    });
  }
};

/// The leader and each of its proclamations, then the next leader.
class ObserveHandler final : public StepsHandler {
 public:
  using StepsHandler::StepsHandler;

 private:
  void begin(std::string_view message) override {
    v3electionpb::LeaderRequest request;
    if (!parse(message, request)) return;
    name_ = request.name();
    look();
  }

  void look() {
    read(in_queue(name_, pb::RangeRequest::ASCEND, 0), [this](std::string_view bytes) {
      pb::RangeResponse first;
      first.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
      has_leader_ = first.kvs_size() != 0;
      const int64_t next = first.header().revision() + 1;
      if (!has_leader_) return watch_from(next, queue_prefix(name_), queue_end(name_));
      tell(first.header(), first.kvs(0));
      watch_from(next, first.kvs(0).key());
    });
  }

  bool on_watch(const pb::WatchResponse& response) override {
    for (const mvccpb::Event& event : response.events()) {
      if (event.type() == mvccpb::Event::DELETE) {
        if (!has_leader_) continue;  // of one that came and went before this watch
        return look(), false;
      }
      pb::ResponseHeader header = response.header();
      header.set_revision(event.kv().mod_revision());
      tell(header, event.kv());
      if (!has_leader_) {
        has_leader_ = true;
        return watch_from(event.kv().mod_revision() + 1, event.kv().key()), false;
      }
    }
    if (response.canceled() && response.compact_revision() == 0) return fail(Status::unavailable(response.cancel_reason())), false;
    if (response.canceled()) return look(), false;  // compacted meanwhile
    return true;
  }

  /// Once for each proclamation, however often it is looked up.
  void tell(const pb::ResponseHeader& header, const mvccpb::KeyValue& leader) {
    if (leader.mod_revision() == told_) return;
    told_ = leader.mod_revision();
    v3electionpb::LeaderResponse response;
    *response.mutable_header() = header;
    *response.mutable_kv() = leader;
    rpc_.send(Bytes(response.SerializeAsString()));
  }

  std::string name_;
  bool has_leader_ = false;
  int64_t told_ = 0;
};

}  // namespace

Made make_campaign(Rpc& rpc, const V3Settings& settings) { return std::make_unique<CampaignHandler>(rpc, settings); }
Made make_proclaim(Rpc& rpc, const V3Settings& settings) { return std::make_unique<ProclaimHandler>(rpc, settings); }
Made make_leader(Rpc& rpc, const V3Settings& settings) { return std::make_unique<LeaderHandler>(rpc, settings); }
Made make_observe(Rpc& rpc, const V3Settings& settings) { return std::make_unique<ObserveHandler>(rpc, settings); }
Made make_resign(Rpc& rpc, const V3Settings& settings) { return std::make_unique<ResignHandler>(rpc, settings); }

}  // namespace rallypoint::server::v3
