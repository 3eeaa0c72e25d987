// The stock client: grpc++ with one completion queue and one thread, a channel with a TCP connection of its own per
// connection asked for. Methods are called by name, so that the product's messages serve and no stubs are generated.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/bench/v3_client.h"

namespace rallypoint::bench {

/// Connection i goes to endpoints[i % size]. Endpoints are "host:port".
std::unique_ptr<Client> make_stock_client(const std::vector<std::string>& endpoints, size_t connections);

}  // namespace rallypoint::bench
