#include "server/service/metrics_text.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string_view>

#include "core/text/word_list.h"

namespace nibble::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;

constexpr std::string_view kOurs{"nibble:"}, kTotal{"_total"};

// Metrics that vLLM has too, with the same meaning.
constexpr std::string_view kOfVllm{
    "num_requests_running num_requests_waiting kv_cache_usage_perc cache_config_info prompt_tokens_total "
    "generation_tokens_total prefix_cache_queries_total prefix_cache_hits_total num_preemptions_total "
    "request_success_total time_to_first_token_seconds inter_token_latency_seconds "
    "e2e_request_latency_seconds request_queue_time_seconds request_prefill_time_seconds "
    "request_decode_time_seconds request_prompt_tokens request_generation_tokens iteration_tokens_total "
    "spec_decode_num_drafts_total spec_decode_num_draft_tokens_total spec_decode_num_accepted_tokens_total "
    "spec_decode_num_accepted_tokens_per_pos_total"};

bool has_label(const ClientMetric& metric, std::string_view name) {
  return std::ranges::any_of(metric.label,
                             [&](const ClientMetric::Label& label) { return label.name == name; });
}

// Adds copies of the families that vLLM has too, with vLLM's prefix. Leaves out series with the label
// "layers", which vLLM lacks.
void add_vllms(std::vector<MetricFamily>& families) {
  std::vector<MetricFamily> copies;
  for (const MetricFamily& family : families) {
    const std::string_view name = std::string_view(family.name).substr(kOurs.size());
    if (!has_word(kOfVllm, name)) continue;
    MetricFamily& copy = copies.emplace_back(family);
    copy.name = "vllm:" + std::string(name);
    std::erase_if(copy.metric, [](const ClientMetric& metric) { return has_label(metric, "layers"); });
    for (ClientMetric& metric : copy.metric) metric.label.push_back({"engine", "0"});
  }
  families.insert(families.end(), copies.begin(), copies.end());
}

// Converts to OpenMetrics, where the name of a counter family lacks the "_total" of its samples.
std::string open_metrics(const std::string& text, const std::vector<MetricFamily>& families) {
  std::set<std::string_view> counters;
  for (const MetricFamily& family : families)
    if (family.type == prometheus::MetricType::Counter) counters.insert(family.name);
  std::string out;
  std::istringstream lines(text);
  lines.exceptions(std::ios::badbit);
  for (std::string line; std::getline(lines, line); out += line + "\n") {
    if (!line.starts_with("# ")) continue;
    const size_t begin = line.find(' ', 2) + 1, end = line.find(' ', begin);
    if (counters.contains(std::string_view(line).substr(begin, end - begin)))
      line.erase(end - kTotal.size(), kTotal.size());
  }
  return out + "# EOF\n";
}

}  // namespace

std::string print_metrics(std::vector<MetricFamily> families, MetricsFormat format) {
  add_vllms(families);
  std::ostringstream text;
  text.exceptions(std::ios::badbit);  // otherwise the stream swallows std::bad_alloc
  prometheus::TextSerializer().Serialize(text, families);
  return format == MetricsFormat::kOpenMetrics ? open_metrics(text.str(), families) : text.str();
}

}  // namespace nibble::server
