#include "server/api/v3/validate.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

namespace rallypoint::server::v3 {
namespace {

using namespace etcdserverpb;

template <class Request>
Request from_text(const std::string& text) {
  Request request;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &request)) << text;
  return request;
}

const Status kOk;
Status invalid(std::string text) { return Status::invalid_argument("etcdserver: " + text); }

TEST(V3Validate, Range) {
  EXPECT_EQ(validate(RangeRequest()), invalid("key is not provided"));
  EXPECT_EQ(validate(from_text<RangeRequest>("key: 'k'")), kOk);
  EXPECT_EQ(validate(from_text<RangeRequest>("key: 'k' limit: -1 revision: -5")), kOk) << "both mean none";
  EXPECT_EQ(validate(from_text<RangeRequest>("key: 'k' range_end: 'a'")), kOk) << "an empty range is no error";
  EXPECT_EQ(validate(from_text<RangeRequest>("key: 'k' sort_order: 3")), invalid("invalid sort option"));
  EXPECT_EQ(validate(from_text<RangeRequest>("key: 'k' sort_target: 5")), invalid("invalid sort option"));
  EXPECT_EQ(validate(from_text<RangeRequest>("key: 'k' sort_target: -1")), invalid("invalid sort option"));
}

TEST(V3Validate, RangeStream) {
  EXPECT_EQ(validate_stream(RangeRequest()), invalid("key is not provided"));
  EXPECT_EQ(validate_stream(from_text<RangeRequest>("key: 'k' sort_order: ASCEND")), kOk);
  for (const char* text : {"sort_order: DESCEND", "sort_target: MOD", "sort_target: VALUE sort_order: ASCEND", "min_mod_revision: 1",
                           "max_mod_revision: 1", "min_create_revision: 1", "max_create_revision: 1"})
    EXPECT_EQ(validate_stream(from_text<RangeRequest>("key: 'k' " + std::string(text))).code(), Code::kUnimplemented) << text;
}

TEST(V3Validate, Put) {
  EXPECT_EQ(validate(PutRequest()), invalid("key is not provided"));
  EXPECT_EQ(validate(from_text<PutRequest>("key: 'k'")), kOk);
  EXPECT_EQ(validate(from_text<PutRequest>("key: 'k' value: 'v' ignore_value: true")), invalid("value is provided"));
  EXPECT_EQ(validate(from_text<PutRequest>("key: 'k' ignore_value: true")), kOk);
  EXPECT_EQ(validate(from_text<PutRequest>("key: 'k' lease: 1 ignore_lease: true")), invalid("lease is provided"));
  EXPECT_EQ(validate(from_text<PutRequest>("key: 'k' lease: 1 ignore_value: true")), kOk);
}

TEST(V3Validate, DeleteRange) {
  EXPECT_EQ(validate(DeleteRangeRequest()), invalid("key is not provided"));
  EXPECT_EQ(validate(from_text<DeleteRangeRequest>("key: 'k'")), kOk);
}

TEST(V3Validate, LeaseGrant) {
  EXPECT_EQ(validate(from_text<LeaseGrantRequest>("TTL: 9000000000")), kOk);
  EXPECT_EQ(validate(from_text<LeaseGrantRequest>("TTL: 9000000001")), (Status{Code::kOutOfRange, "etcdserver: too large lease TTL"}));
  EXPECT_EQ(validate(from_text<LeaseGrantRequest>("TTL: -1 ID: -5")), kOk) << "raised to the minimum; ids may be negative";
}

TEST(V3Validate, Alarm) {
  EXPECT_EQ(validate(from_text<AlarmRequest>("action: DEACTIVATE alarm: NOSPACE")), kOk);
  EXPECT_EQ(validate(from_text<AlarmRequest>("action: 3")).code(), Code::kInvalidArgument);
  EXPECT_EQ(validate(from_text<AlarmRequest>("alarm: 3")).code(), Code::kInvalidArgument);
}

TEST(V3Validate, Downgrade) {
  EXPECT_EQ(validate(from_text<DowngradeRequest>("action: CANCEL")), kOk);
  EXPECT_EQ(validate(from_text<DowngradeRequest>("action: 7")).code(), Code::kInvalidArgument);
  for (const char* version : {"", "3", "3.", ".5", "3..5", "3.5.1.2", "3.5a", "v3.5"})
    EXPECT_EQ(validate(from_text<DowngradeRequest>("version: '" + std::string(version) + "'")),
              invalid("wrong downgrade target version format")) << version;
  for (const char* version : {"3.5", "3.5.0"})
    EXPECT_EQ(validate(from_text<DowngradeRequest>("version: '" + std::string(version) + "'")), kOk) << version;
}

// ---- transactions ----

struct TxnCase {
  const char* text;
  Status expected;
};

class V3ValidateTxn : public ::testing::TestWithParam<TxnCase> {};

TEST_P(V3ValidateTxn, IsJudgedAsEtcdDoes) {
  EXPECT_EQ(validate(from_text<TxnRequest>(GetParam().text), 128), GetParam().expected) << GetParam().text;
}

INSTANTIATE_TEST_SUITE_P(Shape, V3ValidateTxn, ::testing::Values(
    TxnCase{"", kOk},
    TxnCase{"compare {}", invalid("key is not provided")},
    TxnCase{"compare { key: 'k' result: 9 target: 9 }", kOk},
    TxnCase{"success {}", invalid("key not found")},
    TxnCase{"failure {}", invalid("key not found")},
    TxnCase{"success { request_range {} }", invalid("key is not provided")},
    TxnCase{"success { request_range { key: 'k' sort_order: 9 } }", invalid("invalid sort option")},
    TxnCase{"failure { request_put {} }", invalid("key is not provided")},
    TxnCase{"failure { request_put { key: 'k' value: 'v' ignore_value: true } }", invalid("value is provided")},
    TxnCase{"success { request_delete_range {} }", invalid("key is not provided")},
    TxnCase{"success { request_txn { failure { request_txn { success {} } } } }", invalid("key not found")},
    TxnCase{"success { request_txn { compare {} } }", invalid("key is not provided")}));

INSTANTIATE_TEST_SUITE_P(Duplicates, V3ValidateTxn, ::testing::Values(
    TxnCase{"success { request_put { key: 'a' } } success { request_put { key: 'b' } }", kOk},
    TxnCase{"success { request_put { key: 'a' } } success { request_put { key: 'a' } }", invalid("duplicate key given in txn request")},
    TxnCase{"failure { request_put { key: 'a' } } failure { request_put { key: 'a' } }", invalid("duplicate key given in txn request")},
    TxnCase{"success { request_put { key: 'a' } } failure { request_put { key: 'a' } }", kOk},
    TxnCase{"success { request_put { key: 'a' } } success { request_delete_range { key: 'a' } }", invalid("duplicate key given in txn request")},
    TxnCase{"success { request_delete_range { key: 'a' } } success { request_put { key: 'a' } }", invalid("duplicate key given in txn request")},
    TxnCase{"success { request_delete_range { key: 'a' } } success { request_put { key: 'a\\0' } }", kOk},
    TxnCase{"success { request_delete_range { key: 'a' range_end: 'c' } } success { request_put { key: 'b' } }", invalid("duplicate key given in txn request")},
    TxnCase{"success { request_delete_range { key: 'a' range_end: 'c' } } success { request_put { key: 'c' } }", kOk},
    TxnCase{"success { request_delete_range { key: 'c' range_end: 'a' } } success { request_put { key: 'b' } }", kOk},
    TxnCase{"success { request_delete_range { key: 'a' range_end: '\\0' } } success { request_put { key: 'zz' } }", invalid("duplicate key given in txn request")},
    TxnCase{"success { request_delete_range { key: 'b' range_end: '\\0' } } success { request_put { key: 'a' } }", kOk},
    TxnCase{"success { request_delete_range { key: 'a' range_end: 'z' } } success { request_delete_range { key: 'b' range_end: 'y' } }", kOk},
    TxnCase{"success { request_delete_range { key: 'a' range_end: 'c' } } success { request_delete_range { key: 'b' range_end: 'e' } } "
            "success { request_put { key: 'd' } }", invalid("duplicate key given in txn request")},
    TxnCase{"success { request_put { key: 'a' } } success { request_range { key: 'a' } }", kOk}));

INSTANTIATE_TEST_SUITE_P(NestedDuplicates, V3ValidateTxn, ::testing::Values(
    TxnCase{"success { request_txn { success { request_put { key: 'a' } } failure { request_put { key: 'a' } } } }", kOk},
    TxnCase{"success { request_put { key: 'a' } } success { request_txn { success { request_put { key: 'a' } } } }",
            invalid("duplicate key given in txn request")},
    TxnCase{"success { request_txn { failure { request_put { key: 'a' } } } } success { request_put { key: 'a' } }",
            invalid("duplicate key given in txn request")},
    TxnCase{"success { request_txn { success { request_put { key: 'a' } } } } success { request_txn { failure { request_put { key: 'a' } } } }",
            invalid("duplicate key given in txn request")},
    TxnCase{"success { request_txn { success { request_delete_range { key: 'a' } } } } success { request_put { key: 'a' } }",
            invalid("duplicate key given in txn request")},
    TxnCase{"success { request_txn { success { request_put { key: 'b' } } } } success { request_delete_range { key: 'a' range_end: 'c' } }",
            invalid("duplicate key given in txn request")},
    TxnCase{"success { request_txn { success { request_put { key: 'a' } } } } success { request_txn { success { request_delete_range { key: 'a' } } } }",
            invalid("duplicate key given in txn request")},
    TxnCase{"success { request_txn { success { request_delete_range { key: 'a' range_end: 'c' } } } } "
            "success { request_txn { failure { request_put { key: 'b' } } } }", invalid("duplicate key given in txn request")},
    TxnCase{"success { request_txn { success { request_put { key: 'a' } } failure { request_delete_range { key: 'a' } } } }", kOk},
    TxnCase{"success { request_txn { success { request_delete_range { key: 'a' } } } } success { request_txn { failure { request_delete_range { key: 'a' } } } }",
            kOk}));

TEST(V3ValidateTxnLimits, AListMayHoldAsManyOperationsAsTheLimit) {
  TxnRequest request;
  for (int i = 0; i < 128; ++i) request.add_success()->mutable_request_put()->set_key(std::to_string(i));
  EXPECT_EQ(validate(request, 128), kOk);
  request.add_success()->mutable_request_put()->set_key("x");
  EXPECT_EQ(validate(request, 128), invalid("too many operations in txn request"));
  TxnRequest compares;
  for (int i = 0; i < 129; ++i) compares.add_compare()->set_key("k");
  EXPECT_EQ(validate(compares, 128), invalid("too many operations in txn request"));
}

TEST(V3ValidateTxnLimits, NestedOnesHaveWhatTheOuterLeaves) {
  TxnRequest request;
  for (int i = 0; i < 127; ++i) request.add_compare()->set_key("k");
  TxnRequest& inner = *request.add_success()->mutable_request_txn();
  inner.add_success()->mutable_request_put()->set_key("a");
  EXPECT_EQ(validate(request, 128), kOk);
  inner.add_success()->mutable_request_put()->set_key("b");
  EXPECT_EQ(validate(request, 128), invalid("too many operations in txn request"));
}

TEST(V3ValidateTxnLimits, NestingEndsWhereTheOperationsDo) {
  for (const int depth : {128, 129}) {
    TxnRequest request;
    TxnRequest* inner = &request;
    for (int i = 0; i < depth; ++i) inner = inner->add_success()->mutable_request_txn();
    EXPECT_EQ(validate(request, 128), depth == 128 ? kOk : invalid("too many operations in txn request")) << depth;
  }
}

}  // namespace
}  // namespace rallypoint::server::v3
