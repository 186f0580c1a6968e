// Metrics for Prometheus, with vLLM's names and meanings, but the prefix "nibble:". Metrics that vLLM also
// has are exported with the prefix "vllm:" too, for its dashboards and gateways. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine/engine.h"
#include "server/http/exchange.h"
#include "server/service/metrics_text.h"

namespace nibble::server {

enum class Outcome { kStop, kLength, kAbort, kError };  // how an answer ended: the label "finished_reason"
Outcome outcome_of(FinishReason reason);
std::string_view name(Outcome outcome);

struct MetricsTotals {  // totals since the start of the server
  uint64_t num_generated_tokens{0};
  uint64_t num_steps{0}, num_rows{0};  // num_rows: tokens of prompts and answers, over all steps
  double step_seconds{0};
};

class Metrics {
 public:
  Metrics(const std::string& model_name, const std::string& version);
  ~Metrics();

  void observe_step(const StepReport& report);
  void observe_first_token(double seconds);  // time since the request arrived at the engine
  void observe_next_token(double seconds);   // time since the previous token
  void observe_end(Outcome outcome, double seconds);
  void observe_end(Outcome outcome, double seconds, const FinishedEvent& event);
  // Counts an HTTP request; `path`: the path of its route.
  void observe_http_answer(std::string_view path, int status, double seconds);

  void observe_key(const Exchange& exchange);  // counts a completed request for its API key's name

  MetricsTotals totals() const;

  // Returns all metrics as text. `state` is empty until the model is loaded.
  std::string text(const std::optional<EngineState>& state, MetricsFormat format = MetricsFormat::kText);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nibble::server
