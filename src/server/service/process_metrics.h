// What Prometheus's own clients tell of every process: processor time, memory, open files, start. Read from /proc.
#pragma once

#include <vector>

namespace prometheus {
struct MetricFamily;
}

namespace nibble::server {

std::vector<prometheus::MetricFamily> process_metrics();

}  // namespace nibble::server
