#include "cli/predict/report.h"

#include <fmt/format.h>

#include "cli/measure/run_record.h"
#include "core/text/bytes_text.h"
#include "core/text/json.h"

namespace nibble::cli {
namespace {

void print_operations(const PredictedTest& test) {
  fmt::print("\n{}, microseconds per step{}\n\n", name(test),
             test.num_steps > 1 ? fmt::format(" (mean of {} steps)", test.num_steps) : "");
  fmt::print("| {:<12} | {:>8} | {:>10} | {:>9} | {:>9} | {:>9} | {:>9} | {:>9} | {:<8} |\n", "operation",
             "launches", "bytes", "memory", "issue", "products", "serial", "all", "rules");
  fmt::print("| {:-<12} | {:->8} | {:->10} | {:->9} | {:->9} | {:->9} | {:->9} | {:->9} | {:-<8} |\n", "",
             ":", ":", ":", ":", ":", ":", ":", "");
  for (const PredictedTime& row : test.operations)
    fmt::print("| {:<12} | {:>8} | {:>10} | {:9.1f} | {:9.1f} | {:9.1f} | {:9.1f} | {:9.1f} | {:<8} |\n",
               name(row.operation), row.num_launches, bytes_text(row.bytes), row.memory, row.issue,
               row.products, row.serial, row.total(), row.bound());
}

// Returns the ratio of a GPU's largest load, `most`, to the mean load. `of_all`: sum over all GPUs.
double unevenness(double most, double of_all, int count) { return most * count / of_all; }

void print_whole_experts(const Predictions& found) {
  fmt::print("\nwhole experts on each GPU (--expert-parallel) compared with a part of every expert\n\n");
  fmt::print("| {:<18} | {:>9} | {:>9} | {:>7} | {:>20} | {:>13} |\n", "predicted", "parts t/s", "whole t/s",
             "gain", "most experts hit", "most pairs");
  fmt::print("| {:-<18} | {:->9} | {:->9} | {:->7} | {:->20} | {:->13} |\n", "", ":", ":", ":", ":", ":");
  for (size_t i = 0; i < found.tests.size(); ++i) {
    const PredictedTest &parts = found.tests[i], &whole = found.of_experts[i];
    fmt::print("| {:<18} | {:>9.0f} | {:>9.0f} | {:>+5.1f} % | {:>5.1f} ({:.3f} x mean) | {:.3f} x mean |\n",
               name(parts), parts.tokens_per_second(), whole.tokens_per_second(),
               100 * (whole.tokens_per_second() / parts.tokens_per_second() - 1), whole.load.hit,
               unevenness(whole.load.hit, parts.load.hit, found.count),
               unevenness(whole.load.pairs, parts.load.pairs, found.count));
  }
}

void print_memory(const PredictedMemory& memory) {
  fmt::print(
      "\nmemory per GPU: weights {}, workspace {}, of {} for these and the KV cache ({} in total); a "
      "sequence of {} tokens needs {}: {} fit\n",
      bytes_text(memory.weight_bytes), bytes_text(memory.workspace_bytes), bytes_text(memory.budget_bytes),
      bytes_text(memory.total_bytes), memory.context, bytes_text(memory.sequence_bytes),
      memory.most_sequences);
  fmt::print("\n| {:>9} | {:>27} |\n| {:->9} | {:->27} |\n", "sequences", "room for more tokens", ":", ":");
  for (const PredictedMemory::Row& row : memory.rows)
    fmt::print("| {:>9} | {:>27} |\n", row.num_sequences,
               row.free_tokens >= 0 ? fmt::to_string(row.free_tokens) : "do not fit");
}

void print_replicas(const Predictions& found) {
  const Request& request = found.request;
  fmt::print("\nrequests of {} tokens in and {} out{}\n\n", request.prompt_tokens, request.answer_tokens,
             request.prefix_tokens == 0 ? ""
                                        : fmt::format(", of which the first {} are one of {} prefixes",
                                                      request.prefix_tokens, request.num_prefixes));
  fmt::print("| {:>8} | {:>10} | {:<11} | {:>10} | {:>10} | {:>10} | {:>10} |\n", "replicas", "concurrent",
             "routing", "cached", "requests/s", "t/s", "seconds");
  fmt::print("| {:->8} | {:->10} | {:-<11} | {:->10} | {:->10} | {:->10} | {:->10} |\n", ":", ":", "", ":",
             ":", ":", ":");
  for (const PredictedReplicas& row : found.replicas)
    fmt::print("| {:>8} | {:>10} | {:<11} | {:>10} | {:>10.1f} | {:>10.0f} | {:>10.2f} |\n", row.num_replicas,
               row.num_running, row.by_prefix ? "by prefix" : "round robin",
               row.found ? fmt::format("{:.0f} %", 100 * *row.found) : "", row.requests_per_second(),
               row.requests_per_second() * request.answer_tokens, row.round.seconds());
}

Json operations_json(const PredictedTest& test) {
  Json rows = Json::array();
  for (const PredictedTime& row : test.operations)
    rows.push_back({{"operation", name(row.operation)},
                    {"launches", row.num_launches},
                    {"bytes", row.bytes},
                    {"memory_us", row.memory},
                    {"issue_us", row.issue},
                    {"products_us", row.products},
                    {"serial_us", row.serial},
                    {"us", row.total()},
                    {"rules", row.bound()}});
  return rows;
}

Json test_json(const PredictedTest& test, double read_bandwidth) {
  return {{"test", name(test)},
          {"kind", test.test.kind == BenchKind::kDecode ? "decode" : "prefill"},
          {"num_tokens", test.test.num_tokens},
          {"depth", test.test.depth},
          {"num_sequences", test.num_sequences},
          {"tokens_per_second", test.tokens_per_second()},
          {"num_steps", test.num_steps},
          {"bytes_per_step", test.bytes()},
          {"sums_us", test.sums},
          {"share_of_read_bandwidth", test.bytes_per_second() / read_bandwidth},
          {"operations", operations_json(test)}};
}

Json memory_json(const PredictedMemory& memory) {
  Json json{{"bytes", memory.total_bytes},
            {"budget_bytes", memory.budget_bytes},
            {"weight_bytes", memory.weight_bytes},
            {"workspace_bytes", memory.workspace_bytes},
            {"sequence_bytes", memory.sequence_bytes},
            {"context", memory.context},
            {"most_sequences", memory.most_sequences},
            {"batches", Json::array()}};
  for (const PredictedMemory::Row& row : memory.rows)
    json["batches"].push_back({{"num_sequences", row.num_sequences},
                               {"fits", row.free_tokens >= 0},
                               {"free_tokens", row.free_tokens >= 0 ? Json(row.free_tokens) : Json()}});
  return json;
}

Json replicas_json(const Predictions& found) {
  Json rows = Json::array();
  for (const PredictedReplicas& row : found.replicas)
    rows.push_back({{"num_replicas", row.num_replicas},
                    {"num_running", row.num_running},
                    {"by_prefix", row.by_prefix},
                    {"found_share", row.found ? Json(*row.found) : Json()},
                    {"requests_per_second", row.requests_per_second()},
                    {"output_tokens_per_second", row.requests_per_second() * found.request.answer_tokens},
                    {"prompt_seconds", row.round.prompt_seconds},
                    {"answer_seconds", row.round.answer_seconds}});
  return rows;
}

}  // namespace

void print_text(const Predictions& found) {
  fmt::print("A prediction, not a measurement: {} on {}\n", found.model, found.device.description);
  if (found.count > 1)
    fmt::print(
        "{} GPUs, linked at {:.0f} GB/s one way ({}: {}), all-reduce latency {:.1f} us; shares are per GPU\n",
        found.count, found.link.bandwidth / 1e9, found.link.is_measured ? "measured" : "expected",
        found.link.source, found.link.sum_seconds * 1e6);
  if (!found.refusal.empty()) fmt::print("nibble does not run the model there: {}\n", found.refusal);
  fmt::print("read bandwidth {:.0f} GB/s ({}: {})\n\n", found.device.read_bandwidth / 1e9,
             found.device.is_read_measured ? "measured" : "expected", found.device.read_source);
  fmt::print("| {:<18} | {:>9} | {:>7} | {:>7} |\n", "predicted", "t/s", "GB/s", "share");
  fmt::print("| {:-<18} | {:->9} | {:->7} | {:->7} |\n", "", ":", ":", ":");
  for (const PredictedTest& test : found.tests)
    fmt::print("| {:<18} | {:>9} | {:>7.0f} | {:>5.1f} % |\n", name(test),
               fmt::format("{:.{}f}", test.tokens_per_second(), test.tokens_per_second() < 1000 ? 1 : 0),
               test.bytes_per_second() / 1e9, 100 * test.bytes_per_second() / found.device.read_bandwidth);
  if (found.count > 1)
    for (const PredictedTest& test : found.tests)
      fmt::print(
          "{}: all-reduces take {:.1f} of the {:.1f} us of a step; they are part of \"serial\" of project "
          "and experts down\n",
          name(test), test.sums, test.microseconds());
  if (!found.of_experts.empty()) print_whole_experts(found);
  print_memory(found.memory);
  if (!found.replicas.empty()) print_replicas(found);
  for (const PredictedTest& test : found.tests) print_operations(test);
}

void print_json(const Predictions& found) {
  Json json{{"is_prediction", true},
            {"command_line", found.command_line},
            {"model", found.model},
            {"gpu",
             {{"name", found.device.description},
              {"refusal", found.refusal.empty() ? Json() : Json(found.refusal)},
              {"read_bytes_per_second", found.device.read_bandwidth},
              {"is_read_measured", found.device.is_read_measured},
              {"read_source", found.device.read_source}}},
            {"num_gpus", found.count},
            {"max_batch_tokens", found.max_batch_tokens}};
  if (found.count > 1)
    json["link"] = {{"bytes_per_second", found.link.bandwidth},
                    {"sum_seconds", found.link.sum_seconds},
                    {"is_measured", found.link.is_measured},
                    {"source", found.link.source}};
  for (const PredictedTest& test : found.tests)
    json["tests"].push_back(test_json(test, found.device.read_bandwidth));
  for (const PredictedTest& test : found.of_experts) {
    Json row = test_json(test, found.device.read_bandwidth);
    row["most_experts_hit"] = test.load.hit;
    row["most_pairs"] = test.load.pairs;
    json["tests_of_whole_experts"].push_back(row);
  }
  json["memory"] = memory_json(found.memory);
  if (!found.replicas.empty()) json["replicas"] = replicas_json(found);
  fmt::print("{}", record_line(json));
}

}  // namespace nibble::cli
