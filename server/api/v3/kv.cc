// etcdserverpb.KV: keys, transactions, compaction.
//
// Put and Range are the hot path: a request is parsed once, into memory that is used again, and what is right travels on
// as the bytes that came.

#include <google/protobuf/io/coded_stream.h>

#include "server/api/v3/handler.h"
#include "server/api/v3/make.h"
#include "server/api/v3/validate.h"

namespace rallypoint::server::v3 {
namespace {

namespace pb = etcdserverpb;

class RangeHandler final : public UnaryHandler {
 public:
  using UnaryHandler::UnaryHandler;

 private:
  void handle(std::string_view message) override {
    auto request = std::make_unique<pb::RangeRequest>();
    if (!parse(message, *request)) return;
    if (Status status = validate(*request); !status.is_ok()) return fail(std::move(status));
    const bool linearizable = !request->serializable();
    submit_read(V3Read::Kind::kRange, std::move(request), linearizable);
  }
};

class RangeStreamHandler final : public PartsHandler {
 public:
  using PartsHandler::PartsHandler;

 private:
  void handle(std::string_view message) override {
    auto request = std::make_unique<pb::RangeRequest>();
    if (!parse(message, *request)) return;
    if (Status status = validate_stream(*request); !status.is_ok()) return fail(std::move(status));
    const bool linearizable = !request->serializable();
    submit_read(V3Read::Kind::kRangeStream, std::move(request), linearizable);
  }
};

/// A write that needs no more than its own message's validation.
template <class Request, V3WriteKind kind>
class WriteHandler final : public UnaryHandler {
 public:
  using UnaryHandler::UnaryHandler;

 private:
  void handle(std::string_view message) override {
    thread_local Request request;  // keeps its memory from call to call
    if (!parse(message, request)) return;
    if constexpr (!std::is_same_v<Request, pb::CompactionRequest>)
      if (Status status = validate(request); !status.is_ok()) return fail(std::move(status));
    submit_write(kind, message);
  }
};

class TxnHandler final : public UnaryHandler {
 public:
  using UnaryHandler::UnaryHandler;

 private:
  void handle(std::string_view message) override {
    auto request = std::make_unique<pb::TxnRequest>();
    if (!request->ParseFromArray(message.data(), static_cast<int>(message.size()))) {
      if (nested_too_deep(message)) return fail(kTooManyOps);
      parse(message, *request);  // says what is wrong
      return;
    }
    if (Status status = validate(*request, settings_.txn_operations_max); !status.is_ok()) return fail(std::move(status));
    if (!reads_only(*request)) {
      submit_write(V3WriteKind::kTxn, message);
      return;
    }
    const bool linearizable = !is_serializable(*request);
    submit_read(V3Read::Kind::kTxn, std::move(request), linearizable);
  }

  /// protobuf gives up on deep nesting as on any malformed message; a client should hear what is wrong with it.
  static bool nested_too_deep(std::string_view message) {
    google::protobuf::io::CodedInputStream input(reinterpret_cast<const uint8_t*>(message.data()), static_cast<int>(message.size()));
    input.SetRecursionLimit(1000);
    pb::TxnRequest request;
    return request.ParseFromCodedStream(&input) && input.ConsumedEntireMessage();
  }
};

}  // namespace

Made make_range(Rpc& rpc, const V3Settings& settings) { return std::make_unique<RangeHandler>(rpc, settings); }
Made make_range_stream(Rpc& rpc, const V3Settings& settings) { return std::make_unique<RangeStreamHandler>(rpc, settings); }
Made make_put(Rpc& rpc, const V3Settings& settings) {
  return std::make_unique<WriteHandler<pb::PutRequest, V3WriteKind::kPut>>(rpc, settings);
}
Made make_delete_range(Rpc& rpc, const V3Settings& settings) {
  return std::make_unique<WriteHandler<pb::DeleteRangeRequest, V3WriteKind::kDeleteRange>>(rpc, settings);
}
Made make_txn(Rpc& rpc, const V3Settings& settings) { return std::make_unique<TxnHandler>(rpc, settings); }
Made make_compact(Rpc& rpc, const V3Settings& settings) {
  return std::make_unique<WriteHandler<pb::CompactionRequest, V3WriteKind::kCompact>>(rpc, settings);
}

}  // namespace rallypoint::server::v3
