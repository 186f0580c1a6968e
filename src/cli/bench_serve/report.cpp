#include "cli/bench_serve/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "cli/measure/run_record.h"
#include "cli/version.h"

namespace nibble::cli {
namespace {

struct Column {
  const char* title;
  int width;
};
constexpr Column kColumns[]{{"load", 11},         {"requests", 8},      {"failed", 6},   {"req/s", 7},
                            {"prompt tok/s", 12}, {"output tok/s", 12}, {"tok/s", 9},    {"tok/s/GPU", 9},
                            {"tok/s/user", 10},   {"pp tok/s", 9},      {"TTFR ms", 23}, {"est_ppt ms", 23},
                            {"TTFT ms", 23},      {"ITL ms", 23},       {"TPOT ms", 23}, {"E2E ms", 26}};
constexpr Column kSloColumn{"SLO met", 7};

// Formats a row of the table: the load is aligned left, figures right. The last column is "SLO met".
std::string table_row(const std::vector<std::string>& cells) {
  std::string row;
  for (size_t i = 0; i < cells.size(); ++i) {
    const int width = (i < std::size(kColumns) ? kColumns[i] : kSloColumn).width;
    row += i == 0 ? fmt::format("| {:<{}} ", cells[i], width) : fmt::format("| {:>{}} ", cells[i], width);
  }
  return row + "|\n";
}

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

// Lists the requests in the order in which their answers ended. `sent_ms` is the time since the first request
// of the load was sent. All other times of a request are times since this request was sent.
Json requests_json(const std::vector<TimedAnswer>& answers) {
  const auto by_sent = [](const TimedAnswer& one, const TimedAnswer& other) { return one.sent < other.sent; };
  const double start = std::ranges::min_element(answers, by_sent)->sent;
  const auto in_ms = [](double seconds) { return std::round(seconds * 1e6) / 1e3; };
  Json list = Json::array();
  for (const TimedAnswer& answer : answers) {
    Json tokens = Json::array();
    for (size_t i = 0; i < answer.events.size(); ++i)
      for (int64_t n = 0; n < answer.event_tokens.at(i); ++n)
        tokens.push_back(in_ms(answer.events[i] - answer.sent));
    Json first;
    if (answer.first_response) first = in_ms(*answer.first_response - answer.sent);
    list.push_back({{"sent_ms", in_ms(answer.sent - start)},
                    {"ttfr_ms", std::move(first)},
                    {"token_ms", std::move(tokens)},
                    {"e2e_ms", in_ms(answer.ended - answer.sent)},
                    {"num_prompt_tokens", or_null(answer.num_prompt_tokens)},
                    {"num_cached_tokens", or_null(answer.num_cached_tokens)},
                    {"num_output_tokens", or_null(answer.num_output_tokens)},
                    {"error", answer.error.empty() ? Json() : Json(answer.error)}});
  }
  return list;
}

Json result_json(const BenchServeResult& result, int num_gpus) {
  const LoadSummary& summary = result.summary;
  Json json{{"load", name(result.load)},
            {"num_clients", or_null(result.load.num_clients)},
            {"rate", or_null(result.load.rate)},
            {"num_warmups", result.num_warmups},
            {"num_requests", summary.num_requests},
            {"num_failed", summary.num_failed},
            {"max_open", summary.max_open},
            {"seconds", summary.seconds},
            {"num_prompt_tokens", summary.num_prompt_tokens},
            {"num_cached_tokens", or_null(summary.num_cached_tokens)},
            {"num_output_tokens", summary.num_output_tokens},
            {"num_uncounted", summary.num_uncounted},
            {"requests_per_second", summary.requests_per_second()},
            {"prompt_tokens_per_second", summary.prompt_tokens_per_second()},
            {"output_tokens_per_second", summary.output_tokens_per_second()},
            {"tokens_per_second", summary.tokens_per_second()},
            {"tokens_per_second_per_gpu", summary.tokens_per_second() / num_gpus},
            {"interactivity", or_null(summary.interactivity())}};
  json["prefill_tokens_per_second"] = percentiles_json(summary.prefill_speed);
  json["ttfr_seconds"] = percentiles_json(summary.ttfr);
  json["est_ppt_seconds"] = percentiles_json(summary.est_ppt);
  json["ttft_seconds"] = percentiles_json(summary.ttft);
  json["itl_seconds"] = percentiles_json(summary.itl);
  json["tpot_seconds"] = percentiles_json(summary.tpot);
  json["e2e_seconds"] = percentiles_json(summary.e2e);
  json["slo_share"] = or_null(result.slo_share);
  json["errors"] = errors_json(summary);
  if (!result.answers.empty()) json["requests"] = requests_json(result.answers);
  return json;
}

std::string workload_text(const BenchServeSetup& setup) {
  const Workload& workload = setup.workload;
  std::string text = workload.trace.empty()
                         ? fmt::format("prompts of {} tokens", setup.prompt_tokens)
                         : fmt::format("{} requests of {}", workload.trace.size(), *setup.workload_name);
  if (workload.num_prefix_tokens > 0)
    text += fmt::format(" after one of {} shared prefixes of {}", workload.num_prefixes,
                        workload.num_prefix_tokens);
  if (workload.trace.empty()) text += fmt::format(", answers of {}", setup.output_tokens);
  if (workload.num_turns > 1) text += fmt::format(", conversations of {} turns", workload.num_turns);
  return text;
}

std::string drafts_text(const Json& drafts) {  // empty if nothing was drafted
  if (drafts.is_null() || drafts.at("acceptance").is_null()) return "";
  return fmt::format("; drafts: {} tokens, {:.1f} % accepted", drafts.at("drafted_tokens").get<int64_t>(),
                     100 * drafts["acceptance"].get<double>());
}

std::string server_text(const Json& server) {
  if (server.at("server").is_null()) return "";
  std::vector<std::string> launches;
  for (const auto& [label, count] : server.at("launches").items())
    launches.push_back(fmt::format("{} {}", label, count.get<int64_t>()));
  return fmt::format("- server: nibble {} on {}{}{}{}\n", server["server"]["version"].get<std::string>(),
                     server["server"]["device"].get<std::string>(),
                     launches.empty() ? "" : "; steps: ", fmt::join(launches, ", "),
                     drafts_text(server.at("drafts")));
}

std::string latency_text(const BenchServeSetup& setup) {
  if (!setup.latency)
    return fmt::format("- est_ppt is unknown: the latency could not be measured (--latency-mode {})\n",
                       setup.latency_mode);
  return fmt::format(
      "- est_ppt is TTFR less a latency of {:.2f} ms (--latency-mode {}); pp tok/s: prompt tokens that "
      "were not cached / est_ppt, median\n",
      *setup.latency * 1e3, setup.latency_mode);
}

std::string bounds_text(const RateBounds& bounds) {
  const double percent = 100 * kHoldingShare;
  if (!bounds.holds)
    return fmt::format("- no rate holds the SLO for {:g} % of the requests; {:.4g} /s does not\n", percent,
                       *bounds.fails);
  return fmt::format("- highest rate that holds the SLO for {:g} % of the requests: {:.4g} /s{}\n", percent,
                     *bounds.holds, bounds.fails ? fmt::format("; {:.4g} /s does not", *bounds.fails) : "");
}

std::string doubts_text(const BenchServeResult& result) {
  std::string out;
  if (result.summary.num_uncounted > 0)
    out +=
        fmt::format("- {}: {} answers did not report their usage; their events with tokens count as tokens\n",
                    name(result.load), result.summary.num_uncounted);
  for (const auto& [kind, error] : result.summary.errors)
    out += fmt::format("- {}: {} failed: {}{}\n", name(result.load), error.count, kind,
                       error.example == kind ? "" : ", such as '" + error.example + "'");
  return out;
}

}  // namespace

std::string serve_markdown_header(const BenchServeSetup& setup) {
  std::vector<std::string> titles, rules;
  const auto add = [&](const Column& column) {
    titles.emplace_back(column.title);
    rules.push_back(std::string(static_cast<size_t>(column.width) - 1, '-') + (rules.empty() ? "-" : ":"));
  };
  for (const Column& column : kColumns) add(column);
  if (setup.slo) add(kSloColumn);
  return table_row(titles) + table_row(rules);
}

std::string serve_markdown_row(const BenchServeSetup& setup, const BenchServeResult& result) {
  const LoadSummary& summary = result.summary;
  const auto number = [](double value) { return fmt::format("{:.1f}", value); };
  const std::optional<double> interactivity = summary.interactivity();
  std::vector<std::string> cells{name(result.load),
                                 fmt::to_string(summary.num_requests),
                                 fmt::to_string(summary.num_failed),
                                 number(summary.requests_per_second()),
                                 number(summary.prompt_tokens_per_second()),
                                 number(summary.output_tokens_per_second()),
                                 number(summary.tokens_per_second()),
                                 number(summary.tokens_per_second() / setup.num_gpus),
                                 interactivity ? number(*interactivity) : "-",
                                 summary.prefill_speed ? number(summary.prefill_speed->p50) : "-",
                                 milliseconds(summary.ttfr),
                                 milliseconds(summary.est_ppt),
                                 milliseconds(summary.ttft),
                                 milliseconds(summary.itl),
                                 milliseconds(summary.tpot),
                                 milliseconds(summary.e2e)};
  if (result.slo_share) cells.push_back(fmt::format("{:.1f} %", 100 * *result.slo_share));
  return table_row(cells);
}

std::string serve_markdown_footer(const BenchServeSetup& setup, const BenchServeRun& run) {
  const Build build = this_build();
  const Workload& workload = setup.workload;
  std::string out = fmt::format(
      "\n- `{}`, {}: nibble {}, commit {}, {}, {}, on {}\n- {}{} of {}: {}, ids below {}, seed {}; warm-up "
      "requests: {}\n"
      "- times: 50th / 90th / 99th percentile; TTFR to the first event, TTFT to the first event with a "
      "token,\n"
      "  ITL from event to event, TPOT (E2E - TTFT) / (output tokens - 1), tok/s/user 1 / median TPOT;\n"
      "  tok/s: prompt and output\n",
      setup.record.command_line, setup.record.date, build.version, build.commit, build.kind, build.compiler,
      setup.record.machine.cpu, setup.url,
      workload.api == BenchApi::kChat ? "/chat/completions" : "/completions", workload.model,
      workload_text(setup), workload.vocab_size, workload.seed, setup.record.num_warmups);
  out += latency_text(setup);
  out += server_text(run.server);
  out += coherence_line(run.coherence);
  if (run.bounds) out += bounds_text(*run.bounds);
  for (const BenchServeResult& result : run.results) out += doubts_text(result);
  return out;
}

Json serve_json(const BenchServeSetup& setup, const BenchServeRun& run) {
  const Workload& workload = setup.workload;
  const bool is_trace = !workload.trace.empty();
  Json json = to_json(setup.record);
  json.update(run.server);
  json["url"] = setup.url;
  json["api"] = workload.api == BenchApi::kChat ? "chat" : "completions";
  json["model"] = workload.model;
  json["workload"] = or_null(setup.workload_name);
  json["prompt_tokens"] = is_trace ? Json() : Json(setup.prompt_tokens);
  json["output_tokens"] = is_trace ? Json() : Json(setup.output_tokens);
  json["num_prefix_tokens"] = workload.num_prefix_tokens;
  json["num_prefixes"] = workload.num_prefixes;
  json["num_turns"] = workload.num_turns;
  json["vocab_size"] = workload.vocab_size;
  json["temperature"] = workload.temperature;
  json["seed"] = workload.seed;
  json["num_gpus"] = setup.num_gpus;
  json["latency_mode"] = setup.latency_mode;
  json["latency_seconds"] = or_null(setup.latency);
  json["slo_seconds"] = setup.slo ? Json(setup.slo->limits) : Json();
  if (run.bounds)
    json["highest_rate"] = {{"holds", or_null(run.bounds->holds)}, {"fails", or_null(run.bounds->fails)}};
  json["coherence"] = to_json(run.coherence);
  if (!workload.extra_body.empty()) json["extra_body"] = workload.extra_body;
  json["loads"] = Json::array();
  for (const BenchServeResult& result : run.results)
    json["loads"].push_back(result_json(result, setup.num_gpus));
  return json;
}

}  // namespace nibble::cli
