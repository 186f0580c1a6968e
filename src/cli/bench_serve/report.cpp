#include "cli/bench_serve/report.h"

#include <fmt/format.h>

#include "cli/version.h"

namespace nibble::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kLoadRow{
    "| {:<11} | {:>8} | {:>6} | {:>7} | {:>12} | {:>12} | {:>23} | {:>23} | {:>23} | {:>26} |\n"};
constexpr const char* kLoadRule{
    "| {:-<11} | {:->7}: | {:->5}: | {:->6}: | {:->11}: | {:->11}: | {:->22}: | {:->22}: | {:->22}: | "
    "{:->25}: |\n"};

std::string milliseconds(const std::optional<Percentiles>& spread) {
  if (!spread) return "-";
  return fmt::format("{:.2f} / {:.2f} / {:.2f}", spread->p50 * 1e3, spread->p90 * 1e3, spread->p99 * 1e3);
}

Json percentiles_json(const std::optional<Percentiles>& spread) {
  if (!spread) return nullptr;
  return {{"mean", spread->mean}, {"p50", spread->p50}, {"p90", spread->p90},
          {"p95", spread->p95},   {"p99", spread->p99}, {"max", spread->most}};
}

Json errors_json(const LoadSummary& summary) {
  Json errors = Json::array();
  for (const auto& [kind, error] : summary.errors)
    errors.push_back({{"kind", kind}, {"count", error.count}, {"example", error.example}});
  return errors;
}

Json result_json(const BenchServeResult& result) {
  const LoadSummary& summary = result.summary;
  Json json{{"load", name(result.load)},
            {"num_clients", result.load.num_clients > 0 ? Json(result.load.num_clients) : Json()},
            {"rate", result.load.num_clients > 0 ? Json() : Json(result.load.rate)},
            {"num_requests", summary.num_requests},
            {"num_failed", summary.num_failed},
            {"max_open", summary.max_open},
            {"seconds", summary.seconds},
            {"num_prompt_tokens", summary.num_prompt_tokens},
            {"num_cached_tokens", summary.num_cached_tokens ? Json(*summary.num_cached_tokens) : Json()},
            {"num_output_tokens", summary.num_output_tokens},
            {"num_uncounted", summary.num_uncounted},
            {"requests_per_second", summary.requests_per_second()},
            {"prompt_tokens_per_second", summary.prompt_tokens_per_second()},
            {"output_tokens_per_second", summary.output_tokens_per_second()}};
  json["ttft_seconds"] = percentiles_json(summary.ttft);
  json["itl_seconds"] = percentiles_json(summary.itl);
  json["tpot_seconds"] = percentiles_json(summary.tpot);
  json["e2e_seconds"] = percentiles_json(summary.e2e);
  json["errors"] = errors_json(summary);
  return json;
}

std::string prefix_text(const Workload& workload) {
  if (workload.num_prefix_tokens == 0) return "";
  return fmt::format(" after one of {} shared prefixes of {}", workload.num_prefixes,
                     workload.num_prefix_tokens);
}

}  // namespace

std::string name(const BenchLoad& load) {
  return load.num_clients > 0 ? fmt::format("{} client{}", load.num_clients, load.num_clients == 1 ? "" : "s")
                              : fmt::format("{:g} /s", load.rate);
}

std::string serve_markdown_header() {
  return fmt::format(kLoadRow, "load", "requests", "failed", "req/s", "prompt tok/s", "output tok/s",
                     "TTFT ms", "ITL ms", "TPOT ms", "E2E ms") +
         fmt::format(kLoadRule, "", "", "", "", "", "", "", "", "", "");
}

std::string serve_markdown_row(const BenchServeResult& result) {
  const LoadSummary& summary = result.summary;
  const auto number = [](double value) { return fmt::format("{:.1f}", value); };
  return fmt::format(kLoadRow, name(result.load), summary.num_requests, summary.num_failed,
                     number(summary.requests_per_second()), number(summary.prompt_tokens_per_second()),
                     number(summary.output_tokens_per_second()), milliseconds(summary.ttft),
                     milliseconds(summary.itl), milliseconds(summary.tpot), milliseconds(summary.e2e));
}

std::string serve_markdown_footer(const BenchServeSetup& setup,
                                  const std::vector<BenchServeResult>& results) {
  const Build build = this_build();
  const Workload& workload = setup.workload;
  std::string out = fmt::format(
      "\n- `{}`, {}: nibble {}, commit {}, {}, {}, on {}\n- {}{} of {}: prompts of {} tokens{}, answers of "
      "{}, seed {}; warm-up requests before each load: {}\n"
      "- times: 50th / 90th / 99th percentile; TTFT to the first event with text, ITL from event to event, "
      "TPOT\n"
      "  (E2E - TTFT) / (output tokens - 1)\n",
      setup.record.command_line, setup.record.date, build.version, build.commit, build.kind, build.compiler,
      setup.record.machine.cpu, setup.url,
      workload.api == BenchApi::kChat ? "/chat/completions" : "/completions", workload.model,
      setup.prompt_tokens, prefix_text(workload), setup.output_tokens, workload.seed,
      setup.record.num_warmups);
  for (const BenchServeResult& result : results) {
    if (result.summary.num_uncounted > 0)
      out +=
          fmt::format("- {}: {} answers did not report their usage; their events with text count as tokens\n",
                      name(result.load), result.summary.num_uncounted);
    for (const auto& [kind, error] : result.summary.errors)
      out += fmt::format("- {}: {} failed: {}{}\n", name(result.load), error.count, kind,
                         error.example == kind ? "" : ", such as '" + error.example + "'");
  }
  return out;
}

Json serve_json(const BenchServeSetup& setup, const std::vector<BenchServeResult>& results) {
  const Workload& workload = setup.workload;
  Json json = to_json(setup.record);
  json["url"] = setup.url;
  json["api"] = workload.api == BenchApi::kChat ? "chat" : "completions";
  json["model"] = workload.model;
  json["prompt_tokens"] = setup.prompt_tokens;
  json["output_tokens"] = setup.output_tokens;
  json["num_prefix_tokens"] = workload.num_prefix_tokens;
  json["num_prefixes"] = workload.num_prefixes;
  json["temperature"] = workload.temperature;
  json["seed"] = workload.seed;
  if (!workload.extra_body.empty()) json["extra_body"] = workload.extra_body;
  json["loads"] = Json::array();
  for (const BenchServeResult& result : results) json["loads"].push_back(result_json(result));
  return json;
}

}  // namespace nibble::cli
