// The input of a step on its way to the device: rows, sampling parameters, output rows and page ids, packed so that one copy uploads
// them.
#pragma once

#include "backend/backend.h"
#include "backend/cuda/draft/slots.h"
#include "backend/cuda/row_input.h"
#include "backend/cuda/sample/sample_rows.h"

namespace nibble::cuda {

inline constexpr int kMaxGraphTokens{64};
// The rows of a graph: few sizes, so that few graphs serve all steps. The rows that are too many hold a token of a
// sequence that nobody has, in a page of its own (kSparePages), and no token is chosen for them.
constexpr int graph_rows(int num_tokens) {
  const int step = num_tokens <= 8 ? 1 : num_tokens <= 32 ? 4 : 8;
  return (num_tokens + step - 1) / step * step;
}

// A step's shape decides which kernels it launches, and with which grids: steps of one shape share a CUDA graph.
struct StepShape {
  int num_tokens{0}, num_outputs{0}, full_chunks{0};
  int num_single_rows{0},
      num_tiles{0};  // rows that are attended to one by one come first; the others are in tiles
  bool are_greedy{false};
  bool have_masks{false};  // the sampling waits for InputUpload::upload_masks()
  bool writes_kv{false};   // every row belongs to another sequence: attend_rows() writes
  // Where there is a draft head: the batch's runs, the chains of drafts behind the step, the drafts of the longest, and the chunks of its
  // attention.
  int num_runs{0}, num_chains{0}, num_drafts{0}, draft_chunks{0};
  // Steps that decode, or check drafts, come in few shapes, again and again.
  bool is_recorded() const {
    return num_tokens > 0 && num_tokens <= kMaxGraphTokens && num_tiles == 0 && num_outputs == num_tokens;
  }
  friend auto operator<=>(const StepShape&, const StepShape&) = default;
};

// The parts of an input, wherever it lies.
struct InputParts {
  RowInput* rows;        // [num_tokens]
  TileInput* tiles;      // [num_tiles]
  SampleRow* sample;     // [num_outputs]
  int* output_rows;      // [num_outputs]
  DraftRun* draft_runs;  // [num_runs]
  uint32_t* page_ids;

  StepInput step() const { return {rows, tiles, page_ids}; }
};
InputParts parts_of(uint8_t* input, const StepShape& shape);

size_t max_input_bytes(const BackendOptions& options);

int chunks_for(int num_pages);  // of attend_rows()

// Says whether the step drafts behind a run, if one of its rows chooses a token.
inline bool begins_chain(const Run& run) { return run.num_to_draft > 0 && run.next < 0; }

class InputUpload {
 public:
  // `device`: max_input_bytes() on the device.
  InputUpload(const Config& config, const BackendOptions& options, uint8_t* device);

  // Enqueues the copy of a batch's input. The step before the previous one must have ended.
  StepShape upload(const Batch& batch, Stream stream);
  // Enqueues the copy of the masks of its output rows, when everything before the sampling has been launched.
  void upload_masks(Stream stream) { sample_rows_.upload_masks(stream); }

 private:
  int max_tokens_;
  bool has_head_;
  PageId spare_full_, spare_sliding_;
  size_t max_page_ids_;
  uint8_t* device_;
  PinnedBuffer pinned_, last_pinned_;  // in turn: the previous step's copy may still be waiting to begin
  SampleRows sample_rows_;
};

}  // namespace nibble::cuda
