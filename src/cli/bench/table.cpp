#include "cli/bench/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/measure/plausibility.h"
#include "core/text/bytes_text.h"

namespace nibble::cli {
namespace {

constexpr const char* kRow{"| {:<18} | {:>20} | {:>9} | {:>7} | {:>7} | {:<18} |\n"};
constexpr const char* kRule{"| {:-<18} | {:->19}: | {:->8}: | {:->6}: | {:->6}: | {:-<18} |\n"};
constexpr int kDepthWidth{7};

std::string parameters_text(size_t count) {
  const auto parameters = static_cast<double>(count);
  return parameters < 1e9 ? fmt::format("{:.2f} M", parameters / 1e6)
                          : fmt::format("{:.2f} B", parameters / 1e9);
}

bool is_decode(const BenchTest& test) { return test.kind == BenchKind::kDecode; }

// Only decode columns show the share of bandwidth: prefill is not bound by memory, and width is scarce.
int width_of(const BenchTest& test) { return is_decode(test) ? 16 : 10; }

std::string column_name(const BenchTest& test) {
  return name({test.kind, test.num_tokens, 0}) + (is_decode(test) ? " (share)" : "");
}

}  // namespace

BenchTable::BenchTable(const BenchSetup& setup, std::span<const BenchTest> tests)
    : setup_(setup),
      tests_(tests.begin(), tests.end()),
      num_columns_(static_cast<size_t>(std::ranges::count_if(
          tests, [&](const BenchTest& test) { return test.depth == tests.front().depth; }))) {}

std::string BenchTable::head() const {
  std::string head =
      fmt::format("{}: {}, {} parameters; {}, {} threads\n\n", setup_.model, bytes_text(setup_.weight_bytes),
                  parameters_text(setup_.num_parameters), setup_.backend, setup_.num_threads);
  if (!is_grid())
    return head + fmt::format(kRow, "test", "t/s", "median", "GB/s", "share", "note") +
           fmt::format(kRule, "", "", "", "", "", "");
  std::string rule = fmt::format("| {:->{}}: |", "", kDepthWidth - 1);
  head += fmt::format("| {:>{}} |", "depth", kDepthWidth);
  for (const BenchTest& test : std::span(tests_).first(num_columns_)) {
    head += fmt::format(" {:>{}} |", column_name(test), width_of(test));
    rule += fmt::format(" {:->{}}: |", "", width_of(test) - 1);
  }
  return head + '\n' + rule + '\n';
}

std::string BenchTable::add(const BenchResult& result) {
  const size_t column = results_.size() % num_columns_;
  results_.push_back(result);
  if (!is_grid()) return row(result);
  return (column == 0 ? fmt::format("| {:>{}} |", result.test.depth, kDepthWidth) : "") +
         fmt::format(" {:>{}} |", cell(result), width_of(result.test)) +
         (column + 1 == num_columns_ ? "\n" : "");
}

std::string BenchTable::row(const BenchResult& result) const {
  const Figures figures = figures_of(setup_, result);
  return fmt::format(kRow, name(result.test),
                     fmt::format("{:.2f} ± {:.2f}", figures.speed.mean, figures.speed.standard_deviation),
                     fmt::format("{:.2f}", figures.speed.median),
                     fmt::format("{:.1f}", figures.bytes_per_second / 1e9),
                     fmt::format("{:.1f} %", 100 * figures.share), figures.note);
}

std::string BenchTable::cell(const BenchResult& result) const {
  const Figures figures = figures_of(setup_, result);
  const std::string speed = fmt::format("{:.{}f}", figures.speed.median, figures.speed.median < 1000 ? 2 : 0);
  return is_decode(result.test) ? fmt::format("{} ({:.0f} %)", speed, 100 * figures.share) : speed;
}

std::string BenchTable::prompt_flops() const {
  std::string flops;
  for (const BenchResult& result : results_)
    if (!is_decode(result.test) && result.flops_per_step > 0)
      flops += fmt::format("{}{} {:.3g} TFLOP/s", flops.empty() ? "" : ", ", name(result.test),
                           figures_of(setup_, result).flops_per_second / 1e12);
  return flops.empty() ? "" : fmt::format("- matrix products of prompts: {}\n", flops);
}

std::string BenchTable::notes() const {
  std::string notes = prompt_flops();
  for (const BenchResult& result : results_) {
    const SampleStatistics speed = statistics_of(result.tokens_per_second);
    if (is_grid() && !speed.note.empty())
      notes += fmt::format("- {} is {}: {:.2f} ± {:.2f}\n", name(result.test), speed.note, speed.mean,
                           speed.standard_deviation);
  }
  const Reuse reuse = setup_.reuse();
  if (reuse.fits()) notes += fmt::format("- {}\n", in_caches_text(reuse));
  for (const std::string& contradiction : contradictions(results_, setup_.read_bandwidth, reuse))
    notes += fmt::format("- contradiction: {}\n", contradiction);
  return notes.empty() ? "" : '\n' + notes;
}

}  // namespace nibble::cli
