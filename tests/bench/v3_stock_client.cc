#include "tests/bench/v3_stock_client.h"

#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <deque>

#include "raft/base/check.h"

namespace rallypoint::bench {
namespace {

grpc::ByteBuffer encode(const google::protobuf::MessageLite& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return {&slice, 1};
}

/// Calls `take` with the buffer's bytes in one piece.
template <typename Take>
void with_bytes(grpc::ByteBuffer& buffer, Take&& take) {
  grpc::Slice slice;
  if (!buffer.TrySingleSlice(&slice).ok()) {
    RALLY_CHECK(buffer.DumpToSingleSlice(&slice).ok());
  }
  take(std::string_view(reinterpret_cast<const char*>(slice.begin()), slice.size()));
}

/// One operation on the completion queue.
class Operation {
 public:
  virtual ~Operation() = default;
  virtual void on_complete(bool ok) = 0;
};

class UnaryCall final : public Operation {
 public:
  explicit UnaryCall(Receiver& receiver) : receiver_(receiver) {}

  void start(grpc::GenericStub& stub, const std::string& path, const grpc::ByteBuffer& request,
             grpc::CompletionQueue& queue) {
    reader_ = stub.PrepareUnaryCall(&context_, path, request, &queue);
    reader_->StartCall();
    reader_->Finish(&answer_, &status_, this);
  }
  void on_complete(bool) override {
    std::unique_ptr<UnaryCall> self(this);
    if (!status_.ok()) {
      receiver_.on_failure(status_.error_message());
      return;
    }
    with_bytes(answer_, [this](std::string_view bytes) { receiver_.on_message(bytes); });
  }

 private:
  Receiver& receiver_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader_;
  grpc::ByteBuffer answer_;
  grpc::Status status_;
};

/// gRPC allows one write and one read at a time; what is sent meanwhile waits here.
class StockStream final : public Stream {
 public:
  StockStream(grpc::GenericStub& stub, const std::string& path, grpc::CompletionQueue& queue, Receiver& receiver)
      : receiver_(receiver), started_(*this), written_(*this), read_(*this) {
    stream_ = stub.PrepareCall(&context_, path, &queue);
    stream_->StartCall(&started_);
    pending_ = 1;
  }
  void send(const google::protobuf::MessageLite& message) override {
    waiting_.push_back(encode(message));
    write_next();
  }
  void cancel() {
    closing_ = true;
    context_.TryCancel();
  }
  [[nodiscard]] bool idle() const { return pending_ == 0; }

 private:
  struct Started final : Operation {
    explicit Started(StockStream& stream) : stream(stream) {}
    void on_complete(bool ok) override {
      --stream.pending_;
      if (!ok) return stream.end();
      stream.open_ = true;
      stream.read_next();
      stream.write_next();
    }
    StockStream& stream;
  };
  struct Written final : Operation {
    explicit Written(StockStream& stream) : stream(stream) {}
    void on_complete(bool ok) override {
      --stream.pending_;
      stream.writing_ = false;
      if (ok) stream.write_next();
    }
    StockStream& stream;
  };
  struct Read final : Operation {
    explicit Read(StockStream& stream) : stream(stream) {}
    void on_complete(bool ok) override {
      --stream.pending_;
      if (!ok || stream.closing_) return stream.end();
      with_bytes(stream.message_, [this](std::string_view bytes) { stream.receiver_.on_message(bytes); });
      stream.message_.Clear();
      stream.read_next();
    }
    StockStream& stream;
  };

  void write_next() {
    if (!open_ || writing_ || waiting_.empty()) return;
    writing_ = true;
    ++pending_;
    stream_->Write(waiting_.front(), &written_);
    waiting_.pop_front();
  }
  void read_next() {
    ++pending_;
    stream_->Read(&message_, &read_);
  }
  void end() {
    open_ = false;
    if (!closing_) receiver_.on_failure("the stream ended");
  }

  Receiver& receiver_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  Started started_;
  Written written_;
  Read read_;
  std::deque<grpc::ByteBuffer> waiting_;
  grpc::ByteBuffer message_;
  size_t pending_ = 0;  // operations on the queue that point here
  bool open_ = false;
  bool closing_ = false;  // the receiver may be gone
  bool writing_ = false;
};

/// What the works hold; the stream itself stays with the client until the queue has let go of it.
class StreamHandle final : public Stream {
 public:
  explicit StreamHandle(StockStream& stream) : stream_(stream) {}
  void send(const google::protobuf::MessageLite& message) override { stream_.send(message); }

 private:
  StockStream& stream_;
};

class StockClient final : public Client {
 public:
  StockClient(const std::vector<std::string>& endpoints, size_t connections) {
    for (size_t i = 0; i < connections; ++i) {
      grpc::ChannelArguments arguments;
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // else equal channels share a connection
      arguments.SetMaxReceiveMessageSize(-1);
      auto channel = grpc::CreateCustomChannel(endpoints[i % endpoints.size()], grpc::InsecureChannelCredentials(), arguments);
      RALLY_CHECK(channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(10)));
      stubs_.push_back(std::make_unique<grpc::GenericStub>(channel));
    }
  }
  ~StockClient() override {
    for (auto& stream : streams_) stream->cancel();
    const auto busy = [this] { return std::any_of(streams_.begin(), streams_.end(), [](auto& stream) { return !stream->idle(); }); };
    while (busy() && turn(std::chrono::seconds(5))) {
    }
    queue_.Shutdown();
    void* tag;
    bool ok;
    while (queue_.Next(&tag, &ok)) {
    }
  }
  void call(size_t connection, const std::string& path, const google::protobuf::MessageLite& request,
            Receiver& receiver) override {
    (new UnaryCall(receiver))->start(*stubs_[connection % stubs_.size()], path, encode(request), queue_);
  }
  std::unique_ptr<Stream> open(size_t connection, const std::string& path, Receiver& receiver) override {
    streams_.push_back(std::make_unique<StockStream>(*stubs_[connection % stubs_.size()], path, queue_, receiver));
    return std::make_unique<StreamHandle>(*streams_.back());
  }
  bool turn(std::chrono::milliseconds patience) override {
    void* tag;
    bool ok;
    if (queue_.AsyncNext(&tag, &ok, std::chrono::system_clock::now() + patience) != grpc::CompletionQueue::GOT_EVENT) {
      return false;
    }
    static_cast<Operation*>(tag)->on_complete(ok);
    return true;
  }

 private:
  grpc::CompletionQueue queue_;
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs_;
  std::vector<std::unique_ptr<StockStream>> streams_;
};

}  // namespace

std::unique_ptr<Client> make_stock_client(const std::vector<std::string>& endpoints, size_t connections) {
  return std::make_unique<StockClient>(endpoints, connections);
}

}  // namespace rallypoint::bench
