// GET /status.json: the data of the page /status.

#include "core/text/json.h"
#include "model/batch.h"
#include "server/api/reply.h"
#include "server/endpoints/endpoints.h"
#include "server/service/engine_gate.h"

namespace nibble::server {
namespace {

std::string_view name(ServiceState state) {
  switch (state) {
    case ServiceState::kLoading:
      return "loading";
    case ServiceState::kReady:
      return "ready";
    case ServiceState::kLeaving:
    case ServiceState::kDraining:
      break;
  }
  return "draining";
}

Json engine_json(const EngineState& state, const MetricsTotals& totals) {
  Json launches = Json::object();  // way in which steps were launched -> number of steps; empty on a CPU
  for (const Counter& launched : state.steps) launches[std::string(launched.label)] = launched.value;
  Json kernel_launches = Json::object();  // empty on a CPU
  for (const KernelLaunches& launched : state.launches)
    kernel_launches[std::string(launched.kernel)] = launched.count;
  return {{"running", state.num_running},
          {"waiting", state.num_waiting},
          {"page_tokens", kPageTokens},
          {"pages",
           {{"all", state.num_pages},
            {"held", {{"full", state.pages_held.full}, {"sliding", state.pages_held.sliding}}}}},
          {"prompt_tokens", state.counts.num_prompt_tokens},
          {"cached_tokens", state.counts.num_cached_tokens},
          {"generated_tokens", totals.num_generated_tokens},
          {"preemptions", state.counts.num_preemptions},
          {"faults", state.num_faults},
          {"seconds_without_step", state.progress.seconds},
          {"steps", totals.num_steps},
          {"step_rows", totals.num_rows},
          {"step_seconds", totals.step_seconds},
          {"launches", std::move(launches)},
          {"kernel_launches", std::move(kernel_launches)},
          {"drafts",
           {{"drafts", state.drafts.num_drafts},
            {"drafted_tokens", state.drafts.num_tokens},
            {"accepted_tokens", state.drafts.num_accepted}}}};
}

Json requests_json(const RecentRequests& requests) {
  Json list = Json::array();
  requests.for_each([&](const RecentRequests::Request& request) {
    const RequestTimes& times = request.times;
    const auto or_null = [](const std::optional<double>& seconds) {
      return seconds ? Json(*seconds) : Json();
    };
    list.push_back({{"status", request.status},
                    {"prompt_tokens", request.num_prompt_tokens},
                    {"cached_tokens", request.num_cached_tokens},
                    {"output_tokens", request.num_output_tokens},
                    {"seconds",
                     {{"tokenised", or_null(times.tokenised)},
                      {"queued", or_null(times.queued)},
                      {"first_kernel", or_null(times.first_kernel)},
                      {"first_token", or_null(times.first_token)},
                      {"first_byte", or_null(times.first_byte)},
                      {"last_token", or_null(times.last_token)},
                      {"end", request.seconds}}}});
  });
  return list;
}

Json setup_json(const SetupFacts& setup) {
  Json memory = Json::array();
  for (const SetupFacts::Memory& part : setup.memory)
    memory.push_back({{"what", part.what}, {"bytes", part.bytes}});
  return {{"backend", setup.backend}, {"device", setup.device},      {"num_devices", setup.num_devices},
          {"kernels", setup.kernels}, {"memory", std::move(memory)}, {"memory_budget", setup.memory_budget}};
}

Json defaults_json(const RequestDefaults& defaults) {
  const SampleParams& sample = defaults.sample;
  return {{"temperature", decimal(sample.temperature)},
          {"top_k", sample.top_k},
          {"top_p", decimal(sample.top_p)},
          {"min_p", decimal(sample.min_p)},
          {"repetition_penalty", decimal(sample.repetition_penalty)},
          {"presence_penalty", decimal(sample.presence_penalty)},
          {"frequency_penalty", decimal(sample.frequency_penalty)},
          {"reasoning_effort", harmony::name(defaults.effort)},
          {"instructions", defaults.instructions}};
}

}  // namespace

asio::awaitable<void> status(Service& service, Exchange& exchange) {
  Json json{{"model", service.options.model_id},
            {"version", service.options.version},
            {"state", name(service.state)}};
  if (service.gate) {  // a gate exists only once the model is loaded
    json["max_context"] = service.model->max_context;
    json["vocab"] = service.model->vocab;
    json["engine"] = engine_json(service.gate->engine().state(), service.metrics.totals());
    json["answers"] = Json::array();
    for (const EngineGate::InWork& answer : service.gate->in_work())
      json["answers"].push_back({{"seconds", answer.seconds}, {"tokens", answer.num_tokens}});
    json["kept_answers"] = {{"count", service.kept_answers.num_answers()},
                            {"bytes", service.kept_answers.num_bytes()}};
    json["requests"] = requests_json(service.recent_requests);
    json["defaults"] = defaults_json(service.options.defaults);
    json["setup"] = setup_json(service.model->setup);
  }
  return reply_json(exchange, 200, json);
}

}  // namespace nibble::server
