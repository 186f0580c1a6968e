#include "server/service/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <array>
#include <set>
#include <vector>

#include "model/batch.h"
#include "server/service/process_metrics.h"

namespace nibble::server {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using Bounds = std::vector<double>;

// Bounds of histograms of times, in seconds: vLLM's, and smaller ones for fast machines and small models.
const Bounds kShortTimes{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15,
                         0.2,    0.3,   0.4,    0.5,   0.75, 1,     2.5,  5,     10,  40};
const Bounds kFirstTokenTimes{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5,
                              0.75,  1,     2.5,  5,    7.5,  10,   20,   40,  80,   160};
const Bounds kRequestTimes{0.01, 0.05, 0.1, 0.3, 0.5, 0.8, 1,   1.5, 2,   2.5,
                           5,    10,   15,  20,  30,  60,  120, 480, 1920};
const Bounds kOverheadTimes{1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 1e-2, 1e-1};
const Bounds kTokens{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};
const Bounds kBatchSizes{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192};

constexpr std::array<const char*, 4> kOutcomes{"stop", "length", "abort", "error"};  // order: as in Outcome

}  // namespace

Outcome outcome_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStopToken:
    case FinishReason::kStopString:
      return Outcome::kStop;
    case FinishReason::kMaxTokens:
    case FinishReason::kContextFull:
      return Outcome::kLength;
    case FinishReason::kCancelled:
      break;
  }
  return Outcome::kAbort;
}

std::string_view name(Outcome outcome) { return kOutcomes[static_cast<size_t>(outcome)]; }

struct Metrics::Impl {
  Impl(const std::string& model_name, const std::string& version) : labels{{"model_name", model_name}} {
    prometheus::BuildGauge()
        .Name("nibble_build_info")
        .Help("1, with the version of nibble.")
        .Register(registry)
        .Add({{"version", version}})
        .Set(1);
    for (size_t i = 0; i < kOutcomes.size(); ++i)
      ended[i] = &outcomes.Add({{"finished_reason", kOutcomes[i]}});
  }

  prometheus::Family<Gauge>& gauges(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Labels(labels).Register(registry);
  }
  prometheus::Family<Counter>& counters(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Labels(labels).Register(registry);
  }
  Gauge& gauge(const char* name, const char* help) { return gauges(name, help).Add({}); }
  Counter& counter(const char* name, const char* help) { return counters(name, help).Add({}); }
  Histogram& histogram(const char* name, const char* help, const Bounds& bounds) {
    return prometheus::BuildHistogram().Name(name).Help(help).Labels(labels).Register(registry).Add({},
                                                                                                    bounds);
  }
  void copy(const EngineState& state);
  std::string key_label(const std::string& name);

  prometheus::Registry registry;
  const prometheus::Labels labels;

  // Metrics that are copied from the engine's state when Prometheus scrapes.
  Gauge& running = gauge("nibble:num_requests_running", "Running answers.");
  Gauge& waiting = gauge("nibble:num_requests_waiting", "Answers that wait to be scheduled.");
  prometheus::Family<Gauge>& page_share =
      gauges("nibble:kv_cache_usage_perc", "Share of the KV cache pages held by running answers, 0 to 1.");
  // Gateways expect a series without labels: this series shows the pages of full-attention layers, which run
  // out first.
  Gauge& share = page_share.Add({});
  Gauge& full_share = page_share.Add({{"layers", "full"}});
  Gauge& sliding_share = page_share.Add({{"layers", "sliding"}});
  prometheus::Family<Gauge>& pages_used =
      gauges("nibble:kv_cache_pages_used", "KV cache pages held by running answers.");
  Gauge& full_used = pages_used.Add({{"layers", "full"}});
  Gauge& sliding_used = pages_used.Add({{"layers", "sliding"}});
  Gauge& pages = gauges("nibble:kv_cache_pages", "KV cache pages, for both kinds of layer.").Add({});
  // Created when the first state arrives, because its labels come from that state.
  Gauge* cache_config{nullptr};
  Counter& prompt_tokens = counter("nibble:prompt_tokens_total", "Prompt tokens, including cached ones.");
  Counter& queries = counter("nibble:prefix_cache_queries_total", "Tokens looked up in the prefix cache.");
  Counter& hits = counter("nibble:prefix_cache_hits_total", "Tokens found in the prefix cache.");
  std::set<std::string> key_names;  // names of API keys that have time series
  prometheus::Family<Counter>& key_requests =
      counters("nibble:key_requests_total", "HTTP requests, by name of the API key and status.");
  prometheus::Family<Counter>& key_prompt_tokens =
      counters("nibble:key_prompt_tokens_total", "Prompt tokens, including cached ones, by key.");
  prometheus::Family<Counter>& key_cached_tokens =
      counters("nibble:key_cached_tokens_total", "Prompt tokens found in the prefix cache, by key.");
  prometheus::Family<Counter>& key_generation_tokens =
      counters("nibble:key_generation_tokens_total", "Generated tokens, by key.");
  Counter& preemptions =
      counter("nibble:num_preemptions_total", "Answers preempted because the KV cache was full.");
  prometheus::Family<Counter>& steps =
      counters("nibble:backend_steps_total",
               "Steps of a GPU backend, by launch: replayed graph, newly captured graph, no graph.");
  prometheus::Family<Counter>& launches =
      counters("nibble:backend_kernel_launches_total",
               "Launches of a GPU backend's kernels, replayed graphs included.");
  Counter& faults = counter("nibble:engine_faults_total", "Steps that failed.");
  Gauge& without_step = gauge("nibble:engine_seconds_without_step",
                              "Seconds since a step last finished while requests wait; 0 if none waits.");

  Counter& num_drafts =
      counter("nibble:spec_decode_num_drafts_total", "Drafts verified: one per answer and step.");
  Counter& draft_tokens = counter("nibble:spec_decode_num_draft_tokens_total", "Drafted tokens.");
  Counter& accepted_tokens =
      counter("nibble:spec_decode_num_accepted_tokens_total", "Drafted tokens that were accepted.");
  prometheus::Family<Counter>& accepted_at =
      counters("nibble:spec_decode_num_accepted_tokens_per_pos_total",
               "Drafted tokens that were accepted, by position in the draft from 0.");

  // Metrics that are updated at each event.
  Counter& generation_tokens = counter("nibble:generation_tokens_total", "Generated tokens.");
  prometheus::Family<Counter>& outcomes =
      counters("nibble:request_success_total", "Completed answers, by reason: stop, length, abort, error.");
  std::array<Counter*, kOutcomes.size()> ended{};
  Histogram& first_token = histogram("nibble:time_to_first_token_seconds",
                                     "Time from the request to the first token.", kFirstTokenTimes);
  Histogram& next_token =
      histogram("nibble:inter_token_latency_seconds", "Time from one token to the next.", kShortTimes);
  Histogram& e2e = histogram("nibble:e2e_request_latency_seconds",
                             "Time from the request to the end of its answer.", kRequestTimes);
  Histogram& queue = histogram("nibble:request_queue_time_seconds",
                               "Time from the request to its first step.", kRequestTimes);
  Histogram& prefill = histogram("nibble:request_prefill_time_seconds",
                                 "Time from the first step to the first token.", kRequestTimes);
  Histogram& decode = histogram("nibble:request_decode_time_seconds",
                                "Time from the first token to the last.", kRequestTimes);
  Histogram& request_prompt_tokens =
      histogram("nibble:request_prompt_tokens", "Prompt tokens per request.", kTokens);
  Histogram& request_generation_tokens =
      histogram("nibble:request_generation_tokens", "Generated tokens per answer.", kTokens);
  Histogram& step_tokens =
      histogram("nibble:iteration_tokens_total", "Tokens per step: prefill and decode.", kBatchSizes);
  Histogram& step_sequences =
      histogram("nibble:iteration_sequences", "Answers per step: the batch size.", kBatchSizes);
  Histogram& step_seconds =
      histogram("nibble:iteration_seconds", "Time of a step, including the model.", kShortTimes);
  Histogram& overhead =
      histogram("nibble:scheduler_step_seconds",
                "Time of a step outside the model: scheduling it and delivering its tokens.", kOverheadTimes);
  Histogram* device_idle{nullptr};  // created if the device reports its idle time
  prometheus::Family<Counter>& responses = counters(
      "nibble:http_requests_total", "HTTP requests, by endpoint and status (499: the client disconnected).");
  prometheus::Family<Histogram>& response_times =
      prometheus::BuildHistogram()
          .Name("nibble:http_request_duration_seconds")
          .Help("Time from a request's header to the end of its answer.")
          .Labels(labels)
          .Register(registry);
};

// Copies the engine's state, raising counters to its totals.
void Metrics::Impl::copy(const EngineState& state) {
  const auto raise = [](Counter& counter, uint64_t value) {
    counter.Increment(static_cast<double>(value) - counter.Value());
  };
  running.Set(state.num_running);
  waiting.Set(state.num_waiting);
  pages.Set(state.num_pages);
  full_used.Set(state.pages_held.full);
  sliding_used.Set(state.pages_held.sliding);
  if (!cache_config)
    cache_config = &gauges("nibble:cache_config_info", "Tokens per page, and number of pages.")
                        .Add({{"block_size", std::to_string(kPageTokens)},
                              {"num_gpu_blocks", std::to_string(state.num_pages)}});
  cache_config->Set(1);
  const auto share_of = [&](int num_pages) { return static_cast<double>(num_pages) / state.num_pages; };
  share.Set(share_of(state.pages_held.total()));
  full_share.Set(share_of(state.pages_held.full));
  sliding_share.Set(share_of(state.pages_held.sliding));
  raise(prompt_tokens, state.counts.num_prompt_tokens);
  raise(queries, state.counts.num_prompt_tokens);
  raise(hits, state.counts.num_cached_tokens);
  raise(preemptions, state.counts.num_preemptions);
  raise(faults, state.num_faults);
  without_step.Set(state.progress.seconds);
  for (const nibble::Counter& launched : state.steps)
    raise(steps.Add({{"launch", std::string(launched.label)}}), launched.value);
  for (const KernelLaunches& launched : state.launches)
    raise(launches.Add({{"kernel", std::string(launched.kernel)}}), launched.count);
  raise(num_drafts, state.drafts.num_drafts);
  raise(draft_tokens, state.drafts.num_tokens);
  raise(accepted_tokens, state.drafts.num_accepted);
  for (size_t place = 0; place < state.drafts.accepted_at.size(); ++place)
    raise(accepted_at.Add({{"position", std::to_string(place)}}), state.drafts.accepted_at[place]);
}

// Returns the label for a key's name; "other" after 256 names, because every reload can add names, and each
// name adds time series.
std::string Metrics::Impl::key_label(const std::string& name) {
  constexpr size_t kMaxNames{256};
  if (key_names.size() < kMaxNames) key_names.insert(name);
  return key_names.contains(name) ? name : "other";
}

Metrics::Metrics(const std::string& model_name, const std::string& version)
    : impl_(std::make_unique<Impl>(model_name, version)) {}
Metrics::~Metrics() = default;

void Metrics::observe_step(const StepReport& report) {
  impl_->step_tokens.Observe(report.num_tokens);
  impl_->step_sequences.Observe(report.num_sequences);
  impl_->step_seconds.Observe(report.backend_seconds + report.other_seconds);
  impl_->overhead.Observe(report.other_seconds);
  if (!report.device_idle_seconds) return;
  if (!impl_->device_idle)
    impl_->device_idle = &impl_->histogram("nibble:device_idle_seconds",
                                           "GPU idle time between two decode steps.", kOverheadTimes);
  impl_->device_idle->Observe(*report.device_idle_seconds);
}

void Metrics::observe_first_token(double seconds) {
  impl_->generation_tokens.Increment();
  impl_->first_token.Observe(seconds);
}

void Metrics::observe_next_token(double seconds) {
  impl_->generation_tokens.Increment();
  impl_->next_token.Observe(seconds);
}

void Metrics::observe_end(Outcome outcome, double seconds) {
  impl_->ended[static_cast<size_t>(outcome)]->Increment();
  impl_->e2e.Observe(seconds);
}

void Metrics::observe_end(Outcome outcome, double seconds, const FinishedEvent& event) {
  observe_end(outcome, seconds);
  impl_->queue.Observe(event.queue_seconds);
  if (event.num_output_tokens == 0) return;  // cancelled before its first token
  impl_->prefill.Observe(event.prefill_seconds);
  impl_->decode.Observe(event.decode_seconds);
  impl_->request_prompt_tokens.Observe(event.num_prompt_tokens);
  impl_->request_generation_tokens.Observe(event.num_output_tokens);
}

void Metrics::observe_http_answer(std::string_view path, int status, double seconds) {
  impl_->responses.Add({{"endpoint", std::string(path)}, {"status", std::to_string(status)}}).Increment();
  impl_->response_times.Add({{"endpoint", std::string(path)}}, kRequestTimes).Observe(seconds);
}

void Metrics::observe_key(const Exchange& exchange) {
  const RequestRecord& record = exchange.record();
  if (record.key_name.empty()) return;
  const std::string key = impl_->key_label(record.key_name);
  const auto add = [&](prometheus::Family<Counter>& family, int count) {
    if (count > 0) family.Add({{"key", key}}).Increment(count);
  };
  impl_->key_requests.Add({{"key", key}, {"status", std::to_string(exchange.status())}}).Increment();
  add(impl_->key_prompt_tokens, record.num_prompt_tokens);
  add(impl_->key_cached_tokens, record.num_cached_tokens);
  add(impl_->key_generation_tokens, record.num_output_tokens);
}

MetricsTotals Metrics::totals() const {
  const prometheus::ClientMetric::Histogram steps = impl_->step_tokens.Collect().histogram;
  return {.num_generated_tokens = static_cast<uint64_t>(impl_->generation_tokens.Value()),
          .num_steps = steps.sample_count,
          .num_rows = static_cast<uint64_t>(steps.sample_sum),
          .step_seconds = impl_->step_seconds.Collect().histogram.sample_sum};
}

std::string Metrics::text(const std::optional<EngineState>& state, MetricsFormat format) {
  if (state) impl_->copy(*state);
  std::vector<prometheus::MetricFamily> families = impl_->registry.Collect();
  for (prometheus::MetricFamily& family : process_metrics()) families.push_back(std::move(family));
  return print_metrics(std::move(families), format);
}

}  // namespace nibble::server
