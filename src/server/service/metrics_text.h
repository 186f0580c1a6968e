// Prints metrics for Prometheus, under nibble's names and vLLM's.
#pragma once

#include <string>
#include <vector>

namespace prometheus {
struct MetricFamily;
}

namespace nibble::server {

enum class MetricsFormat {
  kText,         // Prometheus's text format 0.0.4
  kOpenMetrics,  // OpenMetrics 1.0
};

std::string print_metrics(std::vector<prometheus::MetricFamily> families, MetricsFormat format);

}  // namespace nibble::server
