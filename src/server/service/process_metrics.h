// Metrics of every Prometheus client, from /proc: CPU time, memory, open files, start time.
#pragma once

#include <vector>

namespace prometheus {
struct MetricFamily;
}

namespace nibble::server {

std::vector<prometheus::MetricFamily> process_metrics();

}  // namespace nibble::server
