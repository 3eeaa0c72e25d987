// Http1Parser: one HTTP/1.x request, read by Beast's parser straight into strings that the session keeps from request
// to request; of the headers only those that somebody looks at. No allocation per header.
// RFC 9112 (syntax, body length), RFC 9110 10.1.1 (Expect).
#pragma once

#include <boost/beast/http/basic_parser.hpp>
#include <cctype>
#include <cstdint>
#include <string>
#include <vector>

#include "server/rpc/exchange.h"
#include "server/rpc/limits.h"

namespace rallypoint::server {

/// What is kept of a request.
struct Http1Request {
  std::string method;
  std::string target;
  std::string content_type;
  std::string body;
  std::vector<HttpField> metadata;
  int version = 11;  ///< 10 or 11
  bool expects_continue = false;
  bool has_host = false;

  void clear() {
    method.clear();
    target.clear();
    content_type.clear();
    body.clear();
    metadata.clear();
    // A large body is rare; its memory is not kept for the life of the connection.
    if (body.capacity() > kKeptBodyBytes) body.shrink_to_fit();
    expects_continue = has_host = false;
  }
  static constexpr size_t kKeptBodyBytes = 64 << 10;
  static constexpr size_t kMetadataMax = 32;
};

class Http1Parser final : public boost::beast::http::basic_parser<true> {
 public:
  /// `request` is cleared and then filled; it must outlive the parser.
  Http1Parser(Http1Request& request, const HttpLimits& limits) : request_(request), limits_(limits) {
    request_.clear();
    eager(true);
    header_limit(limits.header_bytes_max);
    body_limit(limits.body_bytes_max);
  }

 private:
  using string_view = boost::beast::string_view;
  using error_code = boost::beast::error_code;

  void on_request_impl(boost::beast::http::verb, string_view method, string_view target, int version,
                       error_code&) override {
    request_.version = version;
    request_.method.assign(method.data(), method.size());
    request_.target.assign(target.data(), target.size());
    if (request_.target.starts_with("/v3")) body_limit(limits_.gateway_body_bytes_max);
  }
  void on_field_impl(boost::beast::http::field name, string_view text, string_view value, error_code&) override {
    switch (name) {
      case boost::beast::http::field::content_type: request_.content_type.assign(value.data(), value.size()); break;
      case boost::beast::http::field::host: request_.has_host = true; break;
      case boost::beast::http::field::expect:
        request_.expects_continue = boost::beast::iequals(value, "100-continue");
        break;
      case boost::beast::http::field::authorization:
      case boost::beast::http::field::unknown: add_metadata({text.data(), text.size()}, {value.data(), value.size()}); break;
      default: break;
    }
  }
  void add_metadata(std::string_view text, std::string_view value) {
    std::string name(text);
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (name.starts_with("grpc-metadata-")) name.erase(0, 14);
    else if (name != "authorization" && name != "grpc-timeout" && !name.starts_with("rallypoint-")) return;
    if (request_.metadata.size() < Http1Request::kMetadataMax) request_.metadata.emplace_back(std::move(name), value);
  }
  void on_header_impl(error_code&) override {}
  void on_body_init_impl(const boost::optional<uint64_t>& length, error_code&) override {
    // Already checked against the limit, so a small promise can't make us reserve much.
    if (length && *length <= Http1Request::kKeptBodyBytes) request_.body.reserve(*length);
  }
  size_t on_body_impl(string_view part, error_code&) override {
    request_.body.append(part.data(), part.size());
    return part.size();
  }
  void on_chunk_header_impl(uint64_t, string_view, error_code&) override {}
  size_t on_chunk_body_impl(uint64_t, string_view part, error_code&) override {
    request_.body.append(part.data(), part.size());
    return part.size();
  }
  void on_finish_impl(error_code&) override {}
  void on_response_impl(int, string_view, int, error_code&) override {}

  Http1Request& request_;
  const HttpLimits& limits_;
};

}  // namespace rallypoint::server
