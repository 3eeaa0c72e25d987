// etcdserverpb.Cluster: who the members are, and changing that.
//
// The list comes from the net loop's own picture of the cluster, which may be older than a change that has just been
// answered; so the answer to a change is that picture with the change made to it.

#include <algorithm>

#include "server/api/v3/handler.h"
#include "server/api/v3/make.h"
#include "server/options.h"

namespace rallypoint::server::v3 {
namespace {

namespace pb = etcdserverpb;
using Kind = ChangeMember::Kind;

void fill(pb::Member& out, const Member& member) {
  out.set_id(member.id);
  out.set_name(member.name);
  for (const std::string& url : member.peer_urls) out.add_peerurls(url);
  for (const std::string& url : member.client_urls) out.add_clienturls(url);
  out.set_islearner(member.is_learner);
}

template <class Response>
void fill_members(Response& response, const ClusterView& view) {
  fill_header(*response.mutable_header(), view);
  for (const Member& member : view.members) fill(*response.add_members(), member);
}

class MemberListHandler final : public UnaryHandler {
 public:
  using UnaryHandler::UnaryHandler;

  void on_reply(Reply&& reply) override {
    if (!std::holds_alternative<Bytes>(reply.body)) return UnaryHandler::on_reply(std::move(reply));
    answer_from_view();  // the node has heard from a quorum since
  }

 private:
  void handle(std::string_view message) override {
    auto request = std::make_unique<pb::MemberListRequest>();
    if (!parse(message, *request)) return;
    if (!request->linearizable()) return answer_from_view();
    submit_read(V3Read::Kind::kMemberList, std::move(request), true);
  }
  void answer_from_view() {
    pb::MemberListResponse response;
    fill_members(response, rpc_.backend().cluster_view());
    answer(response);
  }
};

/// Normalised, sorted, without repetitions; empty = one of them is wrong, or there is none.
template <class Urls>
std::vector<std::string> parse_urls(const Urls& texts) {
  std::vector<std::string> urls;
  for (const std::string& text : texts) {
    auto url = Url::parse(text);
    if (!url.is_ok()) return {};
    urls.push_back(url->to_string());
  }
  std::sort(urls.begin(), urls.end());
  urls.erase(std::unique(urls.begin(), urls.end()), urls.end());
  return urls;
}

/// Codes of the node as etcd's, where it has not said so itself.
Status as_of_members(const Status& status) {
  if (status.message().starts_with("etcdserver: ")) return status;
  switch (status.code()) {
    case Code::kNotFound: return kMemberNotFound;
    case Code::kAlreadyExists: return kPeerUrlExists;
    default: return status;
  }
}

template <class Request, class Response, Kind kind>
class ChangeHandler final : public UnaryHandler {
 public:
  using UnaryHandler::UnaryHandler;

  void on_reply(Reply&& reply) override {
    auto* added = std::get_if<Member>(&reply.body);
    const auto* status = std::get_if<Status>(&reply.body);
    if (added == nullptr && status == nullptr) return finish(Status::internal("the node gave an answer of another kind"));
    if (status != nullptr && !status->is_ok()) return finish(as_of_members(*status));
    Response response;
    if constexpr (kind == Kind::kAdd) {
      if (added == nullptr) return finish(Status::internal("the node gave an answer of another kind"));
      fill(*response.mutable_member(), *added);
      member_ = std::move(*added);
    }
    ClusterView view = rpc_.backend().cluster_view();
    apply_to(view.members);
    fill_members(response, view);
    answer(response);
  }

 private:
  void handle(std::string_view message) override {
    Request request;
    if (!parse(message, request)) return;
    ChangeMember change;
    change.kind = kind;
    if constexpr (kind == Kind::kAdd || kind == Kind::kUpdate) {
      change.peer_urls = member_.peer_urls = parse_urls(request.peerurls());
      if (change.peer_urls.empty()) return fail(kMemberBadUrls);
    }
    if constexpr (kind == Kind::kAdd) change.learner = request.islearner();
    else change.id = member_.id = request.id();
    change.call = rpc_.call();
    submit(std::move(change));
  }

  void apply_to(std::vector<Member>& members) const {
    auto at = std::find_if(members.begin(), members.end(), [&](const Member& member) { return member.id == member_.id; });
    if constexpr (kind == Kind::kRemove) {
      if (at != members.end()) members.erase(at);
    } else if constexpr (kind == Kind::kAdd) {
      if (at == members.end())
        members.insert(std::find_if(members.begin(), members.end(), [&](const Member& m) { return m.id > member_.id; }), member_);
    } else if (at != members.end()) {
      if constexpr (kind == Kind::kUpdate) at->peer_urls = member_.peer_urls;
      else at->is_learner = false;
    }
  }

  Member member_;  // what is known of the one that changes
};

}  // namespace

Made make_member_list(Rpc& rpc, const V3Settings& settings) { return std::make_unique<MemberListHandler>(rpc, settings); }
Made make_member_add(Rpc& rpc, const V3Settings& settings) {
  return std::make_unique<ChangeHandler<pb::MemberAddRequest, pb::MemberAddResponse, Kind::kAdd>>(rpc, settings);
}
Made make_member_remove(Rpc& rpc, const V3Settings& settings) {
  return std::make_unique<ChangeHandler<pb::MemberRemoveRequest, pb::MemberRemoveResponse, Kind::kRemove>>(rpc, settings);
}
Made make_member_update(Rpc& rpc, const V3Settings& settings) {
  return std::make_unique<ChangeHandler<pb::MemberUpdateRequest, pb::MemberUpdateResponse, Kind::kUpdate>>(rpc, settings);
}
Made make_member_promote(Rpc& rpc, const V3Settings& settings) {
  return std::make_unique<ChangeHandler<pb::MemberPromoteRequest, pb::MemberPromoteResponse, Kind::kPromote>>(rpc, settings);
}

}  // namespace rallypoint::server::v3
