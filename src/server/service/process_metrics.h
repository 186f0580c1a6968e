// The metrics that Prometheus's own clients report for every process, from /proc: CPU, memory, files, start.
#pragma once

#include <vector>

namespace prometheus {
struct MetricFamily;
}

namespace nibble::server {

std::vector<prometheus::MetricFamily> process_metrics();

}  // namespace nibble::server
