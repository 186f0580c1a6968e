#include "cli/bench/report.h"

#include <fmt/format.h>

#include "cli/version.h"

namespace nibble::cli {
namespace {

// Quotes a field, as RFC 4180 requires, if it has a comma, a quotation mark or a line break.
std::string csv_text(std::string_view text) {
  if (text.find_first_of(",\"\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

Json result_json(const BenchSetup& setup, const BenchResult& result) {
  const auto [statistics, bytes_per_second, flops_per_second, share, note] = figures_of(setup, result);
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
          {"flops_per_step", result.flops_per_step},
          {"flops_per_second", flops_per_second},
          {"note", note.empty() ? Json() : Json(note)}};
}

// Returns the device's name, and its clocks, power and temperature after the last test.
std::string device_text(const DeviceFacts& device) {
  std::string text = device.name;
  const auto add = [&](const char* format, const auto& value) {
    if (value) text += fmt::format(fmt::runtime(format), *value);
  };
  add(", driver {}", device.driver);
  add(", {} MHz", device.core_mhz);
  add(" (highest {})", device.highest_core_mhz);
  add(", {:.0f} W", device.power_watts);
  add(" (limit {:.0f})", device.power_limit_watts);
  add(", {} °C", device.temperature_celsius);
  return text;
}

std::string device_name(const BenchSetup& setup) {
  return setup.record.machine.device ? setup.record.machine.device->name : "";
}

}  // namespace

Figures figures_of(const BenchSetup& setup, const BenchResult& result) {
  Figures figures{.speed = statistics_of(result.tokens_per_second), .note = {}};
  figures.bytes_per_second = figures.speed.mean * result.bytes_per_token();
  figures.flops_per_second = figures.speed.mean * result.flops_per_token();
  figures.share = figures.bytes_per_second / setup.read_bandwidth;
  figures.note = figures.speed.note;
  if (const std::string_view note = note_of_share(figures.share, setup.reuse()); !note.empty())
    figures.note += fmt::format("{}{}", figures.note.empty() ? "" : ", ", note);
  return figures;
}

std::string markdown_footer(const BenchSetup& setup) {
  const Build build = this_build();
  std::string kernels;
  for (const KernelChoice& row : setup.record.kernels)
    kernels += fmt::format("{}{} ({}): {}", kernels.empty() ? "" : "; ", name(row.operation), row.weights,
                           row.kernel);
  std::string counters;
  for (const Counter& counter : setup.counters)
    counters += fmt::format("{}{} {}", counters.empty() ? "- counted: " : ", ", counter.value, counter.name);
  if (!counters.empty()) counters += '\n';
  if (setup.tuning)
    counters += fmt::format("- settings found by nibble tune: {}\n", to_json(*setup.tuning).dump());
  const Machine& machine = setup.record.machine;
  return fmt::format(
      "\n- `{}`, {}: nibble {}, commit {}, {}, {}\n"
      "- {}{}, {} cores; read bandwidth, measured before the tests: {:.1f} GB/s (\"share\" is relative to "
      "it)\n"
      "- t/s: {} repetitions (warm-up: {}), mean ± standard deviation in a list and medians in a "
      "grid; steps of at most\n  {} tokens; GB/s: the weights and the KV cache that a step has to read\n"
      "{}{}"
      "- kernels: {}\n",
      setup.record.command_line, setup.record.date, build.version, build.commit, build.kind, build.compiler,
      machine.device ? device_text(*machine.device) + "; " : "", machine.cpu, machine.num_cores,
      setup.read_bandwidth / 1e9, setup.num_repetitions, setup.record.num_warmups, setup.max_batch_tokens,
      coherence_line(setup.coherence), counters, kernels);
}

std::string csv_header() {
  return "model,weight_bytes,num_parameters,backend,threads,max_batch_tokens,test,tokens_per_second,"
         "standard_deviation,median,repetitions,bytes_per_second,flops_per_second,share_of_read_bandwidth,"
         "read_bytes_per_second,note,date,commit,cpu,device\n";
}

std::string csv_row(const BenchSetup& setup, const BenchResult& result) {
  const auto [statistics, bytes_per_second, flops_per_second, share, note] = figures_of(setup, result);
  return fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", csv_text(setup.model),
                     setup.weight_bytes, setup.num_parameters, setup.backend, setup.num_threads,
                     setup.max_batch_tokens, name(result.test), statistics.mean,
                     statistics.standard_deviation, statistics.median, setup.num_repetitions,
                     bytes_per_second, flops_per_second, share, setup.read_bandwidth, csv_text(note),
                     setup.record.date, this_build().commit, csv_text(setup.record.machine.cpu),
                     csv_text(device_name(setup)));
}

Json bench_json(const BenchSetup& setup, std::span<const BenchResult> results) {
  Json json = to_json(setup.record);
  json["machine"]["read_bytes_per_second"] = setup.read_bandwidth;
  if (!setup.preset_run.empty()) json["preset_run"] = setup.preset_run;
  json["model"] = setup.model;
  json["weight_bytes"] = setup.weight_bytes;
  json["num_parameters"] = setup.num_parameters;
  json["backend"] = setup.backend;
  json["threads"] = setup.num_threads;
  json["tuning"] = setup.tuning ? to_json(*setup.tuning) : Json();
  json["max_batch_tokens"] = setup.max_batch_tokens;
  json["num_repetitions"] = setup.num_repetitions;
  json["counters"] = Json::object();
  for (const Counter& counter : setup.counters) json["counters"][std::string(counter.name)] = counter.value;
  json["kernel_launches"] = Json::object();
  for (const KernelLaunches& launched : setup.launches)
    json["kernel_launches"][std::string(launched.kernel)] = launched.count;
  json["coherence"] = to_json(setup.coherence);
  json["contradictions"] = contradictions(results, setup.read_bandwidth, setup.reuse());
  json["tests"] = Json::array();
  for (const BenchResult& result : results) json["tests"].push_back(result_json(setup, result));
  return json;
}

}  // namespace nibble::cli
