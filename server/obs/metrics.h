// /metrics in Prometheus' text format 0.0.4, under etcd's names where etcd has one, so that its dashboards and alerts
// work; our own begin with rallypoint_. Reads /proc/self for the process's own figures.
#pragma once

#include <string>

#include "server/api/api.h"

namespace rallypoint::server {

struct HttpCounters;

void append_metrics(std::string& out, const ClusterView& view, const HttpCounters& counters);

}  // namespace rallypoint::server
