#include "cli/bench/report.h"

#include <fmt/format.h>

#include "cli/measure/kernels_json.h"
#include "cli/measure/sample_statistics.h"
#include "cli/version.h"
#include "core/bytes_text.h"

namespace nibble::cli {
namespace {

using Json = nlohmann::ordered_json;

// Columns of every row. Numbers to the right, text to the left.
constexpr const char* kRow{
    "| {:<22} | {:>8} | {:>8} | {:<9} | {:>7} | {:<15} | {:>19} | {:>9} | {:>7} | {:>6} | {:<18} |\n"};
constexpr const char* kRule{
    "| {:-<22} | {:->7}: | {:->7}: | {:-<9} | {:->6}: | {:-<15} | {:->18}: | {:->8}: | {:->6}: | "
    "{:->5}: | {:-<18} |\n"};

std::string parameters_text(size_t count) {
  const auto parameters = static_cast<double>(count);
  return parameters < 1e9 ? fmt::format("{:.2f} M", parameters / 1e6)
                          : fmt::format("{:.2f} B", parameters / 1e9);
}

// The figures of a row: everything follows the mean of the repetitions.
struct Figures {
  SampleStatistics tokens_per_second;
  double bytes_per_second;
  double share;  // of the bandwidth
};
Figures figures_of(const BenchSetup& setup, const BenchResult& result) {
  const SampleStatistics statistics = statistics_of(result.tokens_per_second);
  const double bytes_per_second = statistics.mean * result.bytes_per_token();
  return {statistics, bytes_per_second, bytes_per_second / setup.read_bandwidth};
}

// RFC 4180.
std::string csv_text(std::string_view text) {
  if (text.find_first_of(",\"\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

Json result_json(const BenchSetup& setup, const BenchResult& result) {
  const auto [statistics, bytes_per_second, share] = figures_of(setup, result);
  return {{"test", name(result.test)},
          {"kind", result.test.kind == BenchKind::kPrefill ? "prefill" : "decode"},
          {"num_tokens", result.test.num_tokens},
          {"depth", result.test.depth},
          {"tokens_per_second",
           {{"mean", statistics.mean},
            {"standard_deviation", statistics.standard_deviation},
            {"median", statistics.median},
            {"samples", result.tokens_per_second}}},
          {"num_steps", result.num_steps},
          {"bytes_per_step", result.bytes_per_step},
          {"bytes_per_second", bytes_per_second},
          {"share_of_read_bandwidth", share},
          {"note", statistics.note.empty() ? Json() : Json(statistics.note)}};
}

}  // namespace

std::string markdown_header() {
  return fmt::format(kRow, "model", "size", "params", "backend", "threads", "test", "t/s", "median", "GB/s",
                     "share", "note") +
         fmt::format(kRule, "", "", "", "", "", "", "", "", "", "", "");
}

std::string markdown_row(const BenchSetup& setup, const BenchResult& result) {
  const auto [statistics, bytes_per_second, share] = figures_of(setup, result);
  return fmt::format(kRow, setup.model, bytes_text(setup.weight_bytes), parameters_text(setup.num_parameters),
                     setup.backend, setup.num_threads, name(result.test),
                     fmt::format("{:.2f} ± {:.2f}", statistics.mean, statistics.standard_deviation),
                     fmt::format("{:.2f}", statistics.median), fmt::format("{:.1f}", bytes_per_second / 1e9),
                     fmt::format("{:.1f} %", 100 * share), statistics.note);
}

std::string markdown_footer(const BenchSetup& setup) {
  const Build build = this_build();
  std::string kernels;
  for (const KernelChoice& row : setup.kernels)
    kernels +=
        fmt::format("{}{} ({}): {}", kernels.empty() ? "" : "; ", row.operation, row.weights, row.kernel);
  std::string counters;
  for (const Counter& counter : setup.counters)
    counters += fmt::format("{}{} {}", counters.empty() ? "- counted: " : ", ", counter.value, counter.name);
  if (!counters.empty()) counters += '\n';
  if (setup.tuning) counters += fmt::format("- as nibble tune found: {}\n", to_json(*setup.tuning).dump());
  return fmt::format(
      "\n- `{}`: nibble {}, commit {}, {}, {}\n"
      "- {}{}, {} cores; read bandwidth, measured before the tests: {:.1f} GB/s, of which share is\n"
      "- t/s: mean ± standard deviation of {} repetitions, steps of at most {} tokens; GB/s: the weights and "
      "the\n"
      "  KV cache that they have to read\n"
      "{}"
      "- kernels: {}\n",
      setup.command_line, build.version, build.commit, build.kind, build.compiler,
      setup.device.empty() ? "" : setup.device + "; ", setup.cpu, setup.num_cores, setup.read_bandwidth / 1e9,
      setup.num_repetitions, setup.max_batch_tokens, counters, kernels);
}

std::string csv_header() {
  return "model,weight_bytes,num_parameters,backend,threads,max_batch_tokens,test,tokens_per_second,"
         "standard_deviation,median,repetitions,bytes_per_second,share_of_read_bandwidth,"
         "read_bytes_per_second,note,commit,cpu,device\n";
}

std::string csv_row(const BenchSetup& setup, const BenchResult& result) {
  const auto [statistics, bytes_per_second, share] = figures_of(setup, result);
  return fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", csv_text(setup.model),
                     setup.weight_bytes, setup.num_parameters, setup.backend, setup.num_threads,
                     setup.max_batch_tokens, name(result.test), statistics.mean,
                     statistics.standard_deviation, statistics.median, setup.num_repetitions,
                     bytes_per_second, share, setup.read_bandwidth, statistics.note, this_build().commit,
                     csv_text(setup.cpu), csv_text(setup.device));
}

Json bench_json(const BenchSetup& setup, std::span<const BenchResult> results) {
  Json json{{"command_line", setup.command_line},
            {"nibble", build_json()},
            {"machine",
             {{"cpu", setup.cpu},
              {"num_cores", setup.num_cores},
              {"device", setup.device},
              {"read_bytes_per_second", setup.read_bandwidth}}},
            {"model", setup.model},
            {"weight_bytes", setup.weight_bytes},
            {"num_parameters", setup.num_parameters},
            {"backend", setup.backend},
            {"threads", setup.num_threads},
            {"tuning", setup.tuning ? to_json(*setup.tuning) : Json()},
            {"max_batch_tokens", setup.max_batch_tokens},
            {"num_repetitions", setup.num_repetitions},
            {"kernels", kernels_json(setup.kernels)},
            {"counters", Json::object()},
            {"tests", Json::array()}};
  for (const Counter& counter : setup.counters) json["counters"][counter.name] = counter.value;
  for (const BenchResult& result : results) json["tests"].push_back(result_json(setup, result));
  return json;
}

}  // namespace nibble::cli
