// Knows what a step costs, by its sequences and by the rows that it has beyond one for each: measured while steps run. Between sizes that
// were measured the cost is taken to be a line.
//
// The cost of plain steps is kept for narrow ranges of sequences, that of more rows as what they add to a plain step of the moment, for
// wide ranges. On a CPU a step of 3 sequences costs one and a half of 2: if both were one size, a step with drafts of 2 would be
// compared with a plain one of 3 now and then, and seem to gain.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

namespace nibble::speculative {

class StepCosts {
 public:
  // `has_chain`: drafts for the next step were made in it. What is not plain counts only behind plain steps of about so many sequences.
  void add(int num_sequences, int num_more_rows, double seconds, bool has_chain);
  // Nothing until steps of about so many sequences were measured without more rows.
  std::optional<double> plain(int num_sequences) const;
  // Likewise. Beyond the sizes that were measured a row is guessed to cost half of those, or little, so that it is tried.
  std::optional<double> seconds(int num_sequences, int num_more_rows) const;
  // With drafts made for the next step; nothing where that was not measured at about this size.
  std::optional<double> seconds_with_chain(int num_sequences, int num_more_rows) const;

 private:
  static constexpr std::array<int, 25> kMoreRows{0,  1,  2,  3,  4,   5,   6,   7,   8,   11,  15,   20,  27,
                                                 36, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536};
  static constexpr size_t kNumSequenceSizes{8};  // 1, 2, 4, ..., 128: rounded down
  // 1 to 8, then eighths of a doubling: 9, 10, ..., 16, 18, ..., 32, 36, ..., 128: rounded down.
  static constexpr size_t kNumPlainSizes{40};
  // The middle of the last measurements: one that something else made slow does not count.
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
  static size_t column_of(int num_more_rows);  // the largest that is not more

  std::array<Measured, kNumPlainSizes> plain_{};
  // Seconds beyond those of a plain step. The first of `more_` is not used.
  std::array<Row, kNumSequenceSizes> more_{}, chain_{};
};

}  // namespace nibble::speculative
