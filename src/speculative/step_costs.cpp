#include "speculative/step_costs.h"

#include <algorithm>
#include <bit>

namespace nibble::speculative {
namespace {

// Assumed cost of steps with more rows than measured. Without any measurement, one more row per sequence
// costs kGuessedShare of a plain step. By the bytes of experts that a row reads (docs/speculation.md), the
// share is 0.3 to 0.7 on a GPU and about 1 on a CPU. The guess is lower, because drafts that seem too
// expensive are never tried. With a measurement for fewer rows, a further row is assumed to cost half of a
// measured row (rows share experts), and at least kLeastShare of a plain step's time per sequence. With
// kGuessedShare as the minimum, 64 sequences, whose further rows take almost no time, got at most 2 drafts
// each and reached 0.85 of the speed that 5 drafts each give. The minimum is not 0, because noise in the
// measurements can make rows seem to take no time.
constexpr double kGuessedShare{0.2}, kLeastShare{0.02};
constexpr size_t kEnoughSteps{3};

}  // namespace

double StepCosts::Measured::middle() const {
  const size_t size = std::min(num, kNumKept);
  std::array<double, kNumKept> sorted = seconds;
  const auto middle = sorted.begin() + static_cast<ptrdiff_t>(size / 2);
  std::nth_element(sorted.begin(), middle, sorted.begin() + static_cast<ptrdiff_t>(size));
  return *middle;
}

size_t StepCosts::plain_of(int num_sequences) {
  const auto num = static_cast<size_t>(std::max(1, num_sequences));
  if (num <= 8) return num - 1;
  const auto doublings = static_cast<size_t>(std::bit_width(num)) - 4;  // number of doublings from 8
  return std::min(7 + 8 * doublings + ((num >> doublings) - 8), kNumPlainSizes - 1);
}

size_t StepCosts::row_of(int num_sequences) {
  const int log = std::bit_width(static_cast<unsigned>(std::max(1, num_sequences))) - 1;
  return std::min(static_cast<size_t>(log), kNumSequenceSizes - 1);
}

size_t StepCosts::column_of(int num_more_rows) {
  const auto above = std::upper_bound(kMoreRows.begin(), kMoreRows.end(), num_more_rows);
  return static_cast<size_t>(above - kMoreRows.begin()) - 1;
}

void StepCosts::add(int num_sequences, int num_more_rows, double seconds, bool has_chain) {
  if (num_more_rows == 0 && !has_chain) {
    plain_[plain_of(num_sequences)].add(seconds);
  } else if (const std::optional<double> none = plain(num_sequences)) {
    const size_t column = column_of(num_more_rows);
    // Scales the time to the column's number of rows: 9 rows would otherwise make 8 seem expensive. The time
    // of a step that also makes drafts is not scaled, because making drafts takes part of it.
    const double share = has_chain ? 1 : static_cast<double>(kMoreRows[column]) / num_more_rows;
    (has_chain ? chain_ : more_)[row_of(num_sequences)][column].add(share * (seconds - *none));
  }
}

std::optional<double> StepCosts::plain(int num_sequences) const {
  const Measured& measured = plain_[plain_of(num_sequences)];
  return measured.num < kEnoughSteps ? std::nullopt : std::optional(measured.middle());
}

std::optional<double> StepCosts::seconds_with_chain(int num_sequences, int num_more_rows) const {
  const std::optional<double> none = plain(num_sequences);
  const Measured& measured = chain_[row_of(num_sequences)][column_of(num_more_rows)];
  return !none || measured.num == 0 ? std::nullopt : std::optional(*none + std::max(0.0, measured.middle()));
}

std::optional<double> StepCosts::seconds(int num_sequences, int num_more_rows) const {
  const std::optional<double> none = plain(num_sequences);
  if (!none || num_more_rows == 0) return none;
  const Row& row = more_[row_of(num_sequences)];
  const size_t column = column_of(num_more_rows);
  size_t below = column, above = column + 1;
  while (below > 0 && row[below].num == 0) --below;
  while (above < row.size() && row[above].num == 0) ++above;
  const double least = *none + (below == 0 ? 0.0 : std::max(0.0, row[below].middle()));
  if (kMoreRows[below] == num_more_rows) return least;
  const int num_beyond = num_more_rows - kMoreRows[below];
  if (above == row.size()) {
    const double plain_row = *none / num_sequences;
    return least + num_beyond * (below == 0 ? kGuessedShare * plain_row
                                            : std::max(kLeastShare * plain_row,
                                                       0.5 * (least - *none) / kMoreRows[below]));
  }
  const double most = std::max(least, *none + row[above].middle());
  return least + (most - least) * num_beyond / (kMoreRows[above] - kMoreRows[below]);
}

}  // namespace nibble::speculative
