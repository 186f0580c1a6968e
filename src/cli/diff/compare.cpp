#include "cli/diff/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/errors/error.h"

namespace nibble::cli {
namespace {

double error_of_row(std::span<const float> a, std::span<const float> b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    norm += double{b[i]} * b[i];
  }
  if (difference == 0) return 0;
  const double error = std::sqrt(difference / norm);
  return std::isfinite(error) ? std::min(error, 1.0) : 1.0;
}

StateDifference compare_state(const State& a, const State& b, int num_rows) {
  StateDifference difference{.name = b.name};
  const size_t width = b.values.size() / static_cast<size_t>(num_rows);
  double squares = 0;
  for (int row = 0; row < num_rows; ++row) {
    const size_t first = static_cast<size_t>(row) * width;
    const double error =
        error_of_row(std::span(a.values).subspan(first, width), std::span(b.values).subspan(first, width));
    squares += error * error;
    if (error > difference.worst_error) difference.worst_row = row, difference.worst_error = error;
  }
  difference.error = std::sqrt(squares / num_rows);
  return difference;
}

// Splits "layer 3 qkv" into {"3", "qkv"}, and "embed" into {"", "embed"}.
std::pair<std::string, std::string> place_of(const std::string& name) {
  constexpr std::string_view kLayer{"layer "};
  if (!name.starts_with(kLayer)) return {"", name};
  const size_t space = name.find(' ', kLayer.size());
  return {name.substr(kLayer.size(), space - kLayer.size()), name.substr(space + 1)};
}

struct Table {
  std::vector<std::string> operations;                                   // columns, without the layer
  std::vector<std::pair<std::string, std::vector<std::string>>> layers;  // rows: layer, one cell per column
};

Table table_of(const std::vector<StateDifference>& differences, double tolerance) {
  Table table;
  for (const StateDifference& difference : differences) {
    const auto [layer, operation] = place_of(difference.name);
    if (table.layers.empty() || table.layers.back().first != layer) table.layers.push_back({layer, {}});
    auto column = std::ranges::find(table.operations, operation);
    if (column == table.operations.end()) column = table.operations.insert(column, operation);
    std::vector<std::string>& cells = table.layers.back().second;
    cells.resize(std::max(cells.size(), static_cast<size_t>(column - table.operations.begin()) + 1));
    cells[static_cast<size_t>(column - table.operations.begin())] =
        fmt::format("{:.1e}{}", difference.error, difference.error > tolerance ? " !" : "");
  }
  return table;
}

}  // namespace

std::vector<StateDifference> compare_states(const States& a, const States& b) {
  if (a.tokens != b.tokens)
    throw InputError("the two runs are not comparable: they have {} and {} tokens, or other tokens",
                     a.tokens.size(), b.tokens.size());
  std::vector<StateDifference> differences;
  for (const State& of_a : a.states) {
    const auto of_b = std::ranges::find(b.states, of_a.name, &State::name);
    if (of_b == b.states.end()) continue;
    if (of_a.values.size() != of_b->values.size())
      throw InputError("the two runs are not comparable: {} has {} and {} values", of_a.name,
                       of_a.values.size(), of_b->values.size());
    differences.push_back(compare_state(of_a, *of_b, a.num_rows()));
  }
  if (differences.empty())
    throw InputError(
        "the two runs are not comparable: one has states by operation, the other by layer; use --by-layer "
        "for "
        "both");
  return differences;
}

std::optional<size_t> first_above(const std::vector<StateDifference>& differences, double tolerance) {
  for (size_t i = 0; i < differences.size(); ++i)
    if (differences[i].error > tolerance) return i;
  return std::nullopt;
}

std::string difference_report(const std::vector<StateDifference>& differences, double tolerance) {
  const Table table = table_of(differences, tolerance);
  std::string report = fmt::format("| {:>5} |", "layer"), rule = "| ----: |";
  for (const std::string& operation : table.operations) {
    report += fmt::format(" {:>9} |", operation);
    rule += " --------: |";
  }
  report += '\n' + rule + '\n';
  for (const auto& [layer, cells] : table.layers) {
    report += fmt::format("| {:>5} |", layer);
    for (size_t i = 0; i < table.operations.size(); ++i)
      report += fmt::format(" {:>9} |", i < cells.size() ? cells[i] : "");
    report += '\n';
  }
  const auto first = first_above(differences, tolerance);
  if (!first) return report + fmt::format("\n- no difference above {:g}\n", tolerance);
  const StateDifference& found = differences[*first];
  return report + fmt::format("\n- first difference above {:g}: {}, {:.2e}; worst at token {}, {:.2e}{}\n",
                              tolerance, found.name, found.error, found.worst_row, found.worst_error,
                              *first == 0
                                  ? ""
                                  : fmt::format("; before it {}, {:.2e}", differences[*first - 1].name,
                                                differences[*first - 1].error));
}

}  // namespace nibble::cli
