// Knows what a step costs, by its sequences and by the rows that it has beyond one for each: measured while steps run. Between sizes that
// were measured the cost is taken to be a line.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

namespace nibble::speculative {

class StepCosts {
 public:
  void add(int num_sequences, int num_more_rows, double seconds);
  // Nothing until steps of about so many sequences were measured without more rows.
  std::optional<double> plain(int num_sequences) const;
  // Likewise. Beyond the sizes that were measured a row is guessed to cost little, so that it is tried.
  std::optional<double> seconds(int num_sequences, int num_more_rows) const;
  // What was measured at about this size; nothing where nothing was.
  std::optional<double> measured(int num_sequences, int num_more_rows) const;

 private:
  static constexpr std::array<int, 15> kMoreRows{0, 1, 2, 3, 4, 6, 8, 11, 15, 20, 27, 36, 48, 64, 96};
  static constexpr size_t kNumSequenceSizes{8};  // 1, 2, 4, ..., 128: rounded down
  // The middle of the last measurements: one that something else made slow does not count.
  struct Measured {
    static constexpr size_t kNumKept{7};
    std::array<double, kNumKept> seconds{};
    size_t num{0};
    void add(double value) { seconds[num++ % kNumKept] = value; }
    double middle() const;
  };
  using Row = std::array<Measured, kMoreRows.size()>;
  static size_t row_of(int num_sequences);
  static size_t column_of(int num_more_rows);  // the largest that is not more

  std::array<Row, kNumSequenceSizes> rows_{};
};

}  // namespace nibble::speculative
