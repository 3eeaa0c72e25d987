// Status and Result<T>: errors are values, with gRPC's canonical codes so that the API layer maps nothing, plus
// one of our own: kOutcomeUnknown, for a request that may or may not have been executed (a leader lost after
// propose). It is never reported as a failure.
//
// The message names the thing, its value, what is allowed and what to do next. No exception crosses a unit.
#pragma once

#include <ostream>
#include <string>
#include <utility>
#include <variant>

#include "raft/base/check.h"

namespace rallypoint {

/// gRPC status codes (numbers are the wire's), and kOutcomeUnknown above them.
enum class Code : int {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
  kOutcomeUnknown = 100,
};

/// The code's name as gRPC spells it, e.g. "InvalidArgument".
const char* code_name(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status ok() { return {}; }
  static Status invalid_argument(std::string m) { return {Code::kInvalidArgument, std::move(m)}; }
  static Status not_found(std::string m) { return {Code::kNotFound, std::move(m)}; }
  static Status already_exists(std::string m) { return {Code::kAlreadyExists, std::move(m)}; }
  static Status failed_precondition(std::string m) { return {Code::kFailedPrecondition, std::move(m)}; }
  static Status resource_exhausted(std::string m) { return {Code::kResourceExhausted, std::move(m)}; }
  static Status unavailable(std::string m) { return {Code::kUnavailable, std::move(m)}; }
  static Status internal(std::string m) { return {Code::kInternal, std::move(m)}; }
  static Status unimplemented(std::string m) { return {Code::kUnimplemented, std::move(m)}; }
  /// Stored data is damaged or missing: travels up to the one place that stops the node.
  static Status data_loss(std::string m) { return {Code::kDataLoss, std::move(m)}; }
  static Status outcome_unknown(std::string m) { return {Code::kOutcomeUnknown, std::move(m)}; }

  [[nodiscard]] bool is_ok() const { return code_ == Code::kOk; }
  [[nodiscard]] Code code() const { return code_; }
  [[nodiscard]] const std::string& message() const { return message_; }
  /// "DataLoss: segment 3 ..." for logs; "OK" when fine.
  [[nodiscard]] std::string to_string() const;

  friend bool operator==(const Status&, const Status&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Status& status) { return out << status.to_string(); }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

/// A value, or the Status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit by design
  Result(Status status) : state_(std::in_place_index<1>, std::move(status)) {  // NOLINT
    RALLY_CHECK(!std::get<1>(state_).is_ok());
  }

  [[nodiscard]] bool is_ok() const { return state_.index() == 0; }
  [[nodiscard]] Status status() const { return is_ok() ? Status::ok() : std::get<1>(state_); }

  [[nodiscard]] T& value() & { return require(), std::get<0>(state_); }
  [[nodiscard]] const T& value() const& { return require(), std::get<0>(state_); }
  [[nodiscard]] T&& value() && { return require(), std::get<0>(std::move(state_)); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }

 private:
  void require() const { RALLY_CHECK(is_ok(), "status", std::get<1>(state_)); }
  std::variant<T, Status> state_;
};

}  // namespace rallypoint

/// Returns the Status of `expression` from the enclosing function unless it is OK.
#define RALLY_RETURN_IF_ERROR(expression)                                 \
  do {                                                                    \
    if (::rallypoint::Status rally_status = (expression); !rally_status.is_ok()) return rally_status; \
  } while (false)
