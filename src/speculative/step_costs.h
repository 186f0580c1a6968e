// Measured time of a step by its number of sequences and of further rows (rows beyond one per sequence),
// interpolated linearly. Plain steps (without further rows) are measured for narrow ranges of sequences; the
// seconds that further rows add, for wide ranges. Plain steps need narrow ranges: on a CPU a step of 3
// sequences takes 1.5 times as long as a step of 2. With both in one range, 2 sequences with drafts would be
// compared with 3 sequences without drafts, and drafts would seem to gain time.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

namespace nibble::speculative {

class StepCosts {
 public:
  // `has_chain`: the step also made drafts. Until plain() is known, only plain steps are recorded.
  void add(int num_sequences, int num_more_rows, double seconds, bool has_chain);
  // Returns the seconds of a plain step; nullopt until enough plain steps of about this size were measured.
  std::optional<double> plain(int num_sequences) const;
  // Returns the seconds of a step with further rows; nullopt if plain() returns nullopt. Each row beyond the
  // largest measured number of rows is assumed to cost half of a measured row, so that more rows get tried.
  std::optional<double> seconds(int num_sequences, int num_more_rows) const;
  // Returns the seconds of a step that also makes drafts; nullopt until a step of about this size was
  // measured.
  std::optional<double> seconds_with_chain(int num_sequences, int num_more_rows) const;

 private:
  static constexpr std::array<int, 25> kMoreRows{0,  1,  2,  3,  4,   5,   6,   7,   8,   11,  15,   20,  27,
                                                 36, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536};
  // Steps with further rows: the number of sequences is rounded down to 1, 2, 4, ..., 128.
  static constexpr size_t kNumSequenceSizes{8};
  // Plain steps: the number of sequences up to 8 is exact; larger numbers are rounded down to eight sizes per
  // doubling (9, ..., 16, 18, ..., 32, ..., 128).
  static constexpr size_t kNumPlainSizes{40};
  // The last measurements of one size of steps. Their median ignores single slow steps.
  struct Measured {
    static constexpr size_t kNumKept{7};
    std::array<double, kNumKept> seconds{};
    size_t num{0};
    void add(double value) { seconds[num++ % kNumKept] = value; }
    double middle() const;
  };
  using Row = std::array<Measured, kMoreRows.size()>;
  static size_t plain_of(int num_sequences);
  static size_t row_of(int num_sequences);
  static size_t column_of(int num_more_rows);  // index of the largest size in kMoreRows up to num_more_rows

  std::array<Measured, kNumPlainSizes> plain_{};
  // Measured seconds beyond a plain step: more_ for steps that make no drafts, chain_ for steps that make
  // drafts. Column 0 of more_ is unused.
  std::array<Row, kNumSequenceSizes> more_{}, chain_{};
};

}  // namespace nibble::speculative
