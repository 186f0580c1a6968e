// Measured cost of a step, by its sequences and its rows beyond one per sequence; linear between measured
// sizes. Plain steps are measured for narrow ranges of sequences; further rows for wide ranges, as the
// seconds that they add. On a CPU a step of 3 sequences costs 1.5 times one of 2: in a shared range, 2
// sequences with drafts would sometimes be compared with a plain step of 3 and seem to gain.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

namespace nibble::speculative {

class StepCosts {
 public:
  // `has_chain`: the step also made drafts. Steps that are not plain are ignored until plain() is known.
  void add(int num_sequences, int num_more_rows, double seconds, bool has_chain);
  // Cost of a step without further rows; nothing until enough of them with about this size were measured.
  std::optional<double> plain(int num_sequences) const;
  // Cost of a step with further rows; nothing until plain() is known. Beyond the measured sizes a further row
  // is assumed to cost half of the measured ones, with a low limit, so that it gets tried.
  std::optional<double> seconds(int num_sequences, int num_more_rows) const;
  // Cost of a step that also makes drafts; nothing until one of about this size was measured.
  std::optional<double> seconds_with_chain(int num_sequences, int num_more_rows) const;

 private:
  static constexpr std::array<int, 25> kMoreRows{0,  1,  2,  3,  4,   5,   6,   7,   8,   11,  15,   20,  27,
                                                 36, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536};
  static constexpr size_t kNumSequenceSizes{8};  // 1, 2, 4, ..., 128, rounded down
  // Sizes: 1 to 8 sequences, then eighths of a doubling: 9, ..., 16, 18, ..., 32, 36, ..., 128. Rounded down.
  static constexpr size_t kNumPlainSizes{40};
  // The last measurements. Their median ignores steps that something else slowed down.
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
  static size_t column_of(int num_more_rows);  // the last column whose kMoreRows does not exceed it

  std::array<Measured, kNumPlainSizes> plain_{};
  // Measured seconds beyond the cost of a plain step. The first column of `more_` is unused.
  std::array<Row, kNumSequenceSizes> more_{}, chain_{};
};

}  // namespace nibble::speculative
