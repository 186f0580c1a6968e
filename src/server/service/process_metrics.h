// The metrics that Prometheus's own clients report for every process: CPU time, memory, open files, start
// time. Read from /proc.
#pragma once

#include <vector>

namespace prometheus {
struct MetricFamily;
}

namespace nibble::server {

std::vector<prometheus::MetricFamily> process_metrics();

}  // namespace nibble::server
