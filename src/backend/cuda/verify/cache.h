// A KV cache of one layer with scattered pages, and the rows of a step that use it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/attention/args.h"
#include "backend/cuda/input/row_input.h"
#include "backend/cuda/verify/device_array.h"
#include "backend/cuda/verify/values.h"
#include "model/weights.h"

namespace nibble::cuda::verify {

// New tokens of one sequence. If `parents` is empty, the tokens have consecutive positions; otherwise they
// form a tree (DraftedTokens::parents in model/batch.h).
struct TestRun {
  int first_position, num_tokens;
  std::vector<int> parents{};
};

struct AttendCase {
  int num_heads, num_kv_heads;
  int window;  // number of positions that a row sees, its own included; 0: all
  std::vector<TestRun> runs;
  Values values{Values::kTypical};
  float sharpness{8};  // factor of all queries; with a larger factor, one position dominates the softmax more
  float sink{0};       // the heads' sinks are logits within 1 of this number
  int rows_per_launch{1 << 20};
  uint64_t seed{0};
  Format kv{Format::kBf16};  // format of the cache: BF16 or E4M3

  int num_tokens() const;
  int width() const { return (num_heads + 2 * num_kv_heads) * kHeadDim; }  // elements of a row's q, k and v
  bool writes_kv() const;  // whether all rows are of different sequences; attend() then writes K and V
  bool has_trees() const;
  std::string text() const;
};

struct CacheRow {
  int position;
  int run;
  int slot;  // slot of the row's own K and V
  // In a draft tree: the slots of the last path.size() positions up to the row's own, in order
  // (PlaceInRun::path). Empty: the slot of every position is the position.
  std::vector<int> path;
};

// The cache with the pages that the rows of all runs see. Positions before a run hold random data; all other
// slots hold poison.
class TestCache {
 public:
  explicit TestCache(const AttendCase& c);

  const std::vector<CacheRow>& rows() const { return rows_; }
  // Returns the index in bits() of a head's key (which = 0) or value (which = 1) in a slot of a run.
  size_t place(int run, int slot, int kv_head, int which) const;
  // All elements of the cache as bfloat16, which holds every E4M3 number exactly.
  std::vector<uint16_t>& bits() { return bits_; }
  const std::vector<uint16_t>& bits() const { return bits_; }

  void upload();
  StepInput input() const {
    StepInput input{device_rows_->data(), nullptr, device_page_ids_->data()};
    if (has_trees_) {
      input.slots = device_slots_->data();
      input.paths = device_paths_->data();
    }
    return input;
  }
  LayerPages pages() const {
    return {device_bytes_->data(), is_sliding_, kv_ == Format::kE4m3 ? KvFormat::kE4m3 : KvFormat::kBf16};
  }
  std::vector<uint16_t> read(Comparison& comparison) const;  // returns the GPU's cache in the form of bits()

 private:
  struct Table {
    int first_page;
    std::vector<uint32_t> pages;
  };

  Format kv_;
  int num_kv_heads_, is_sliding_;
  bool has_trees_;
  std::vector<CacheRow> rows_;
  std::vector<Table> tables_;
  std::vector<uint16_t> bits_;
  std::optional<DeviceArray<uint8_t>> device_bytes_;
  std::optional<DeviceArray<RowInput>> device_rows_;
  std::optional<DeviceArray<uint32_t>> device_page_ids_;
  std::optional<DeviceArray<int32_t>> device_slots_;
  std::optional<DeviceArray<RowPath>> device_paths_;
};

}  // namespace nibble::cuda::verify
