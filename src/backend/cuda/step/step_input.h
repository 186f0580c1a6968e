// A step's input (rows, sampling parameters, output rows, page ids), packed in host memory. The step's first
// kernel, embed, copies it to GPU memory.
#pragma once

#include <vector>

#include "backend/backend.h"
#include "backend/cuda/input/draft_slots.h"
#include "backend/cuda/input/row_input.h"
#include "backend/cuda/input/step_exchange.h"
#include "backend/cuda/pipeline/row_limits.h"
#include "backend/cuda/sample/sample_rows.h"

namespace nibble::cuda {

// Spare pages after the sequences' pages: padding rows write their K and V there (graph_rows()).
inline constexpr int kSparePages{1};

inline constexpr int kMaxGraphTokens{64};
// Returns the number of rows of the graph that runs num_tokens rows: num_tokens, rounded up so that few
// graphs serve all steps. Padding rows have token 0, and their K and V are in a spare page; their results are
// not used.
constexpr int graph_rows(int num_tokens) {
  const int step = num_tokens <= 8 ? 1 : num_tokens <= 32 ? 4 : 8;
  return (num_tokens + step - 1) / step * step;
}

// Smallest number of attention rows of a rank with its own KV cache; padding rows are added to reach it. With
// fewer rows, kernels would compute norms themselves, which needs contiguous rows. A padding row has the
// activations of the step's first row, and its K and V are in a spare page.
inline constexpr int kLeastOwnRows{kOwnNorms + 1};
// Smallest number of rows of a step in which some rows use adapters; padding rows are added to reach it. With
// fewer rows, one launch would compute the router's logits and choose experts, and leave no place for an
// update of the logits.
inline constexpr int kLeastAdaptedRows{kOwnNorms + 1};

// The shape of a step determines the kernels that the step launches, and their grids. Steps of equal shape
// share a CUDA graph.
struct StepShape {
  int num_tokens{0}, num_outputs{0}, full_chunks{0};
  // Number of rows whose attention this rank computes, if each rank has its own KV cache; otherwise 0.
  int num_own_rows{0};
  // Number of rows that attend_rows() processes one by one, and of tiles (several rows of a sequence, which
  // attend_tiles() processes together). The single rows come first in the step.
  int num_single_rows{0}, num_tiles{0};
  bool any_tiles{false};  // whether any rank has tiles; all ranks must launch a step in the same way
  bool are_greedy{false};
  bool have_masks{false};     // whether sampling must wait for InputUpload::upload_masks()
  bool writes_kv{false};      // whether attend_rows() writes K and V: true if no two rows share a sequence
  bool have_trees{false};     // whether some drafts are trees (DraftedTokens::parents)
  bool have_adapters{false};  // whether some rows use adapters (Run::adapter)
  int num_runs{0};            // number of DraftRuns; 0 if the step has neither a draft head nor trees
  // The number of draft chains, the largest number of drafts of a chain, and the largest number of attention
  // chunks of a row. Without a draft head, all three are 0.
  int num_chains{0}, num_drafts{0}, draft_chunks{0};
  bool draft_trees{false};  // whether a run requests several drafts per position (DraftRequest::topk)
  // Returns whether the step runs as a graph. Steps that decode or verify drafts do, because they have few
  // different shapes.
  bool is_recorded() const {
    return num_tokens > 0 && num_tokens <= kMaxGraphTokens && !any_tiles && num_outputs == num_tokens;
  }
  int num_attention_rows() const { return num_own_rows > 0 ? num_own_rows : num_tokens; }
  friend auto operator<=>(const StepShape&, const StepShape&) = default;
};

struct InputParts {
  RowInput* rows;  // [num_tokens]
  // [num_own_rows]: the rows whose attention this rank computes, which tiles refer to. Equal to `rows` if
  // num_own_rows is 0.
  RowInput* attention_rows;
  TileInput* tiles;      // [num_tiles]
  SampleRow* sample;     // [num_outputs]
  int* output_rows;      // [num_outputs]: the row of each output
  DraftRun* draft_runs;  // [num_runs]
  // The next two arrays map between `rows` and `attention_rows`. Both are null unless each rank has its own
  // KV cache (num_own_rows > 0).
  // own_rows [num_own_rows]: attention_rows[i] is a copy of rows[own_rows[i]]; padding rows have index 0.
  // own_of_rows [num_tokens], the inverse: rows[r] was copied to attention_rows[own_of_rows[r]] or, if
  // own_of_rows[r] is -1, was not copied: this rank does not compute the attention of rows[r].
  int *own_rows, *own_of_rows;
  // slots, parents, paths: [num_tokens] if the step has trees, otherwise null. `parents`: each row's parent,
  // as an index in the row's run.
  int32_t *slots, *parents;
  RowPath* paths;
  OptionalIndex* adapters;  // [num_tokens]: the adapter of each row; null if no row uses one
  uint32_t* page_ids;

  StepInput step() const { return {attention_rows, tiles, page_ids, slots, paths}; }
  ChosenTokens choices(const SampleResult* results) const {
    return {rows, parents, output_rows, sample, results};
  }
};
InputParts parts_of(uint8_t* input, const StepShape& shape);

size_t max_input_bytes(const BackendOptions& options);  // returns a multiple of 16

int chunks_for(int num_pages);  // returns how many chunks (units of attend_rows()) `num_pages` pages take

// A run whose drafts are a tree, and the place of its rows in the step.
struct TreeOfStep {
  size_t run;
  int first_row;
  int last_known;  // index in the run of its last row before the drafts
};

// Writes batches to the buffers that embed reads: buffer n % 2 for step n (step_exchange.h). `step_` counts
// the steps whose embed was enqueued. Batches without tokens and failed launches are not counted.
class InputUpload {
 public:
  // `device_step`: address in GPU memory of the number of steps, which embed counts. `rank`: the rank whose
  // KV cache to use.
  InputUpload(const Config& config, const BackendOptions& options, const StepExchange& exchange,
              const uint32_t* device_step, int rank = 0);

  // Writes a batch's input for the next step. Step n - 2, which used the same buffer, must have ended.
  StepShape upload(const Batch& batch, Stream stream);
  // Counts the uploaded step as launched. Call it after launching the step, unless the step has no tokens. If
  // a failed launch prevents the call, the next upload() waits for the stream and copies the number of steps
  // from the GPU.
  void count_launch();
  uint32_t step() const { return step_; }                          // number of the last counted step
  const std::vector<TreeOfStep>& trees() const { return trees_; }  // trees of the last batch
  // Enqueues the copy of the last batch's masks. Call it after launching all kernels before the sampling.
  void upload_masks(Stream stream) { sample_rows_.upload_masks(stream); }

 private:
  // `shape`: the step's shape, padded to that of a graph. The other members are counts of the batch, without
  // padding unless stated.
  struct Counts {
    StepShape shape;
    int num_tokens{0}, num_own_rows{0};
    int num_single_rows{0};  // number of rows that are in no tile, on all ranks together; includes padding
    bool has_spare_rows{false};
    size_t num_page_ids{0};
  };
  Counts count(const Batch& batch, size_t num_path_slots) const;
  void pad(Counts& counts, int num_rows) const;
  bool is_own(const Run& run) const;
  bool has_own_rows() const { return num_kv_caches_ > 1; }

  int max_tokens_, num_kv_caches_;
  size_t num_adapters_;
  uint32_t first_page_;  // first page of this rank's KV cache
  bool has_head_;
  PageId spare_page_;
  size_t max_page_ids_;
  StepExchange exchange_;
  const uint32_t* device_step_;
  uint32_t step_{0};
  bool is_to_launch_{false};  // whether the last upload is not yet counted as launched
  SampleRows sample_rows_;
  // For each output of the last uploaded batch, the index of the draft chain that begins there; -1: none. A
  // chain can begin only at the last row of a run before its drafts.
  std::vector<int> chains_;
  int num_chains_{0};
  std::vector<TreeOfStep> trees_;
};

}  // namespace nibble::cuda
