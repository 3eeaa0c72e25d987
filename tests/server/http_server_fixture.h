// A running HttpServer on a free loopback port, with a FakeBackend behind it and short time-outs.
#pragma once

#include <gtest/gtest.h>

#include "server/rpc/http_server.h"
#include "tests/server/fake_backend.h"
#include "tests/server/raw_client.h"

namespace rallypoint::server {

class HttpServerTest : public testing::Test {
 protected:
  HttpServerTest() {
    options.listen_client_urls = {{"http", "127.0.0.1", 0}};
    options.net_threads = 1;
  }
  ~HttpServerTest() override {
    if (server) server->stop();
  }
  void start() {
    server = std::make_unique<HttpServer>(options, backend, limits);
    const Status status = server->listen();
    ASSERT_TRUE(status.is_ok()) << status;
    server->start();
  }
  RawClient connect() { return RawClient(server->port()); }

  static std::string get(std::string_view target) {
    return "GET " + std::string(target) + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  }
  static std::string put(std::string_view target, std::string_view form) {
    return "PUT " + std::string(target) + " HTTP/1.1\r\nHost: localhost\r\n" +
           "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: " + std::to_string(form.size()) +
           "\r\n\r\n" + std::string(form);
  }

  Options options;
  HttpLimits limits;
  FakeBackend backend;
  std::unique_ptr<HttpServer> server;
};

}  // namespace rallypoint::server
