// A KV cache of one layer with scattered pages, and a step's rows over it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/kernels.h"
#include "backend/cuda/verify/device_array.h"
#include "backend/cuda/verify/values.h"
#include "model/weights.h"

namespace nibble::cuda::verify {

inline constexpr int kHeadDim{64};

// New tokens of one sequence at consecutive positions.
struct TestRun {
  int first_position, num_tokens;
};

// What attention is checked with.
struct AttendCase {
  int num_heads, num_kv_heads;
  int window;  // 0: all positions
  std::vector<TestRun> runs;
  Values values{Values::kTypical};
  float sharpness{8};  // of queries: how much one position is liked more than another
  float sink{0};       // about it
  int rows_per_launch{1 << 20};
  uint64_t seed{0};
  Format kv{Format::kBf16};  // or kE4m3

  int num_tokens() const;
  int width() const { return (num_heads + 2 * num_kv_heads) * kHeadDim; }  // of a row of q, k and v
  // Whether each row is of a sequence of its own: attend() then writes keys and values.
  bool appends() const;
  std::string text() const;
};

struct CacheRow {
  int position;
  int run;
};

// Pages of a run begin with the first that a row's window reaches. Positions before the run hold random keys and values, all
// others, and the pages of nobody, poison.
class TestCache {
 public:
  explicit TestCache(const AttendCase& c);

  const std::vector<CacheRow>& rows() const { return rows_; }
  // Where a head's key (which = 0) or value (1) begins.
  size_t place(int run, int position, int kv_head, int which) const;
  // In bfloat16, which has every number of E4M3 as well.
  std::vector<uint16_t>& bits() { return bits_; }
  const std::vector<uint16_t>& bits() const { return bits_; }

  void upload();
  StepInput input() const { return {device_rows_->data(), device_page_ids_->data()}; }
  LayerPages pages() const {
    return {device_bytes_->data(), is_sliding_, kv_ == Format::kE4m3 ? KvFormat::kE4m3 : KvFormat::kBf16};
  }
  std::vector<uint16_t> read(Comparison& comparison) const;  // as bits()

 private:
  struct Table {
    int first_page;
    std::vector<uint32_t> pages;
  };

  Format kv_;
  int num_kv_heads_, is_sliding_;
  std::vector<CacheRow> rows_;
  std::vector<Table> tables_;
  std::vector<uint16_t> bits_;
  std::optional<DeviceArray<uint8_t>> device_bytes_;
  std::optional<DeviceArray<RowInput>> device_rows_;
  std::optional<DeviceArray<uint32_t>> device_page_ids_;
};

}  // namespace nibble::cuda::verify
