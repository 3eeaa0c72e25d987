#include "server/api/v3/json.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

#include "storage/etcd_api/rpc.pb.h"

namespace rallypoint::server::v3 {
namespace {

using namespace etcdserverpb;

template <class Message>
std::string to_json(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  std::string out;
  append_json(out, message);
  return out;
}

template <class Message>
std::string from_json(std::string_view text) {
  Message message;
  const Status status = parse_json(text, message);
  return status.is_ok() ? message.ShortDebugString() : status.to_string();
}

TEST(V3JsonOut, LeavesDefaultsOut) {
  EXPECT_EQ(to_json<RangeResponse>(""), "{}");
  EXPECT_EQ(to_json<PutRequest>("lease: 0 prev_kv: false"), "{}");
}

TEST(V3JsonOut, WritesNamesAsInTheProtoFileAnd64BitNumbersAsStrings) {
  EXPECT_EQ(to_json<RangeResponse>("header { cluster_id: 14841639068965178418 member_id: 10276657743932975437 revision: 5 raft_term: 2 } "
                                   "kvs { key: 'foo' create_revision: 2 mod_revision: 3 version: 2 value: 'bar' lease: -1 } more: true count: 3"),
            R"({"header":{"cluster_id":"14841639068965178418","member_id":"10276657743932975437","revision":"5","raft_term":"2"},)"
            R"("kvs":[{"key":"Zm9v","create_revision":"2","mod_revision":"3","version":"2","value":"YmFy","lease":"-1"}],)"
            R"("more":true,"count":"3"})");
}

TEST(V3JsonOut, KeepsNamesThatAreCamelCaseInTheProtoFile) {
  EXPECT_EQ(to_json<LeaseTimeToLiveResponse>("ID: 1 TTL: 2 grantedTTL: 3 keys: 'a' keys: 'bc'"),
            R"({"ID":"1","TTL":"2","grantedTTL":"3","keys":["YQ==","YmM="]})");
  EXPECT_EQ(to_json<Member>("peerURLs: 'http://a:1' isLearner: true"), R"({"peerURLs":["http://a:1"],"isLearner":true})");
}

TEST(V3JsonOut, WritesEnumsByNameAnd32BitNumbersPlainly) {
  EXPECT_EQ(to_json<AlarmResponse>("alarms { memberID: 7 alarm: NOSPACE }"), R"({"alarms":[{"memberID":"7","alarm":"NOSPACE"}]})");
  EXPECT_EQ(to_json<WatchResponse>("watch_id: -1 events { type: DELETE kv { key: 'k' } }"),
            R"({"watch_id":"-1","events":[{"type":"DELETE","kv":{"key":"aw=="}}]})");
  EXPECT_EQ(to_json<HashResponse>("hash: 4294967295"), R"({"hash":4294967295})");
  EXPECT_EQ(to_json<AlarmRequest>("alarm: 99"), R"({"alarm":99})");
}

TEST(V3JsonOut, WritesEmptyMessagesThatAreThere) { EXPECT_EQ(to_json<StatusResponse>("downgradeInfo {}"), R"({"downgradeInfo":{}})"); }

TEST(V3JsonIn, NothingIsAnEmptyMessage) {
  for (const char* text : {"", " \n", "{}"}) EXPECT_EQ(from_json<RangeRequest>(text), "") << text;
}

TEST(V3JsonIn, TakesBothSpellingsOfNames) {
  EXPECT_EQ(from_json<RangeRequest>(R"({"key":"aw==","range_end":"bA==","keysOnly":true})"), R"(key: "k" range_end: "l" keys_only: true)");
  EXPECT_EQ(from_json<LeaseGrantRequest>(R"({"TTL":5,"ID":"7"})"), "TTL: 5 ID: 7");
  EXPECT_EQ(from_json<MemberAddRequest>(R"({"peerURLs":["http://a:1","http://b:1"]})"), R"(peerURLs: "http://a:1" peerURLs: "http://b:1")");
}

TEST(V3JsonIn, TakesNumbersAsStringsToo) {
  for (const char* text : {R"({"limit":1000})", R"({"limit":"1000"})", R"({"limit":1e3})", R"({"limit":1000.0})"})
    EXPECT_EQ(from_json<RangeRequest>(text), "limit: 1000") << text;
  EXPECT_EQ(from_json<RangeRequest>(R"({"revision":"-9223372036854775808"})"), "revision: -9223372036854775808");
  EXPECT_EQ(from_json<RangeRequest>(R"({"revision":9223372036854775807})"), "revision: 9223372036854775807");
  EXPECT_EQ(from_json<MemberRemoveRequest>(R"({"ID":18446744073709551615})"), "ID: 18446744073709551615");
}

TEST(V3JsonIn, RefusesNumbersThatAreNone) {
  for (const char* value : {"\"\"", "\"x\"", "\"1x\"", "\" 1\"", "1.5", "1e300", "9223372036854775808", "\"9223372036854775808\"", "true", "[]", "{}"})
    EXPECT_TRUE(from_json<RangeRequest>(R"({"limit":)" + std::string(value) + "}").starts_with("InvalidArgument: json: etcdserverpb.RangeRequest.limit"))
        << value;
  EXPECT_TRUE(from_json<MemberRemoveRequest>(R"({"ID":-1})").starts_with("InvalidArgument"));
}

TEST(V3JsonIn, TakesEnumsByNameAndByNumber) {
  EXPECT_EQ(from_json<RangeRequest>(R"({"sort_order":"DESCEND","sort_target":3})"), "sort_order: DESCEND sort_target: MOD");
  EXPECT_EQ(from_json<RangeRequest>(R"({"sort_order":77})"), "sort_order: 77") << "validation's business";
  EXPECT_TRUE(from_json<RangeRequest>(R"({"sort_order":"descend"})").starts_with("InvalidArgument"));
  EXPECT_TRUE(from_json<RangeRequest>(R"({"sort_order":"7"})").starts_with("InvalidArgument"));
}

TEST(V3JsonIn, TakesBase64InBothAlphabetsPaddedOrNot) {
  for (const char* text : {"+/8=", "-_8=", "+/8", "-_8"})
    EXPECT_EQ(from_json<PutRequest>(R"({"value":")" + std::string(text) + "\"}"), R"(value: "\373\377")") << text;
  EXPECT_EQ(from_json<PutRequest>(R"({"value":""})"), "");
  for (const char* text : {"a", "abcde", "a b=", "ab==c", "====", "%%%%"})
    EXPECT_TRUE(from_json<PutRequest>(R"({"value":")" + std::string(text) + "\"}").starts_with("InvalidArgument")) << text;
}

TEST(V3JsonIn, IgnoresWhatItDoesNotKnowAndNulls) {
  EXPECT_EQ(from_json<PutRequest>(R"({"nokey":{"deep":[1]},"key":null,"lease":3})"), "lease: 3");
}

TEST(V3JsonIn, RefusesTheWrongKindOfValue) {
  for (const char* text : {R"({"key":5})", R"({"prev_kv":"true"})", R"({"prev_kv":1})"})
    EXPECT_TRUE(from_json<PutRequest>(text).starts_with("InvalidArgument: json: ")) << text;
  for (const char* text : {R"({"compare":{}})", R"({"compare":[5]})", R"({"success":[[]]})", R"({"success":[{"request_put":[]}]})", R"({"success":[null]})"})
    EXPECT_TRUE(from_json<TxnRequest>(text).starts_with("InvalidArgument: json: ")) << text;
}

TEST(V3JsonIn, RefusesWhatIsNoJsonObject) {
  for (const char* text : {"{", "[]", "5", "\"x\"", "null", "{}{}", "{\"key\":\"a\",}", "{'key':1}", "\xff"})
    EXPECT_TRUE(from_json<PutRequest>(text).starts_with("InvalidArgument: json: ")) << text;
}

TEST(V3JsonIn, ReadsTransactions) {
  EXPECT_EQ(from_json<TxnRequest>(R"({"compare":[{"result":"EQUAL","target":"CREATE","key":"aw==","createRevision":"0"}],)"
                                  R"("success":[{"requestPut":{"key":"aw==","value":"dg=="}}],"failure":[{"request_range":{"key":"aw=="}}]})"),
            R"(compare { target: CREATE key: "k" create_revision: 0 } success { request_put { key: "k" value: "v" } } )"
            R"(failure { request_range { key: "k" } })");
}

TEST(V3JsonIn, DepthIsBounded) {
  const auto nested = [](int levels) {
    std::string text = "{}";
    for (int i = 0; i < levels; ++i) text = R"({"success":[{"request_txn":)" + text + "}]}";
    return text;
  };
  EXPECT_FALSE(from_json<TxnRequest>(nested(45)).starts_with("InvalidArgument"));
  EXPECT_TRUE(from_json<TxnRequest>(nested(1000)).starts_with("InvalidArgument"));
  EXPECT_TRUE(from_json<TxnRequest>(std::string(100'000, '[')).starts_with("InvalidArgument"));
}

TEST(V3JsonCut, TakesOneValueAfterTheOther) {
  std::string_view rest = " {\"a\":\"}\"}\n{\"b\":[1]} {} ";
  EXPECT_EQ(cut_json_value(rest).value(), "{\"a\":\"}\"}\n") << "the space behind it included";
  EXPECT_EQ(cut_json_value(rest).value(), "{\"b\":[1]} ");
  EXPECT_EQ(cut_json_value(rest).value(), "{} ");
  EXPECT_EQ(cut_json_value(rest).value(), "");
  EXPECT_EQ(rest, "");
}

TEST(V3JsonCut, RefusesAValueThatDoesNotEnd) {
  for (std::string_view rest : {"{\"a\":", "{", "\"x", "}", "{]"}) EXPECT_FALSE(cut_json_value(rest).is_ok()) << rest;
}

}  // namespace
}  // namespace rallypoint::server::v3
