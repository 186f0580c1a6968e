// The input of a step on its way to the device: rows, sampling parameters, output rows and page ids, packed in memory of the host, from
// where embed, the first kernel of the step, brings it.
#pragma once

#include <vector>

#include "backend/backend.h"
#include "backend/cuda/draft/slots.h"
#include "backend/cuda/groups.h"
#include "backend/cuda/sample/sample_rows.h"
#include "backend/cuda/step/row_input.h"
#include "backend/cuda/step/step_exchange.h"

namespace nibble::cuda {

struct Workspace;

inline constexpr int kMaxGraphTokens{64};
// The rows of a graph: few sizes, so that few graphs serve all steps. The rows that are too many hold a token of a
// sequence that nobody has, in a page of its own (kSparePages), and no token is chosen for them.
constexpr int graph_rows(int num_tokens) {
  const int step = num_tokens <= 8 ? 1 : num_tokens <= 32 ? 4 : 8;
  return (num_tokens + step - 1) / step * step;
}

// The rows that a rank with sequences of its own computes attention for are as many as these at least: kernels of fewer compute their norm
// themselves, of rows that lie side by side. Those that are too many stand for the step's first row, in a page that nobody has.
inline constexpr int kLeastOwnRows{kOwnNorms + 1};

// A step's shape decides which kernels it launches, and with which grids: steps of one shape share a CUDA graph.
struct StepShape {
  int num_tokens{0}, num_outputs{0}, full_chunks{0};
  // Where ranks have sequences of their own, the rows of this rank's: attention is of them alone. 0: it is of all rows.
  int num_own_rows{0};
  int num_single_rows{0},
      num_tiles{0};       // rows that are attended to one by one come first; the others are in tiles
  bool any_tiles{false};  // of any rank: all ranks launch a step in the same way
  bool are_greedy{false};
  bool have_masks{false};  // the sampling waits for InputUpload::upload_masks()
  bool writes_kv{false};   // every row belongs to another sequence: attend_rows() writes
  bool have_trees{false};  // some runs' drafts are trees (Run::parents)
  int num_runs{0};         // of the batch, where there is a draft head or there are trees
  // Where there is a draft head: the chains of drafts behind the step, the drafts of the longest, and the chunks of its attention.
  int num_chains{0}, num_drafts{0}, draft_chunks{0};
  bool draft_trees{false};  // some run asks for several tokens for a place (Run::draft_topk)
  // Steps that decode, or check drafts, come in few shapes, again and again.
  bool is_recorded() const {
    return num_tokens > 0 && num_tokens <= kMaxGraphTokens && !any_tiles && num_outputs == num_tokens;
  }
  int num_attention_rows() const { return num_own_rows > 0 ? num_own_rows : num_tokens; }
  friend auto operator<=>(const StepShape&, const StepShape&) = default;
};

// The parts of an input, wherever it lies.
struct InputParts {
  RowInput* rows;  // [num_tokens]
  // Attention's rows: [num_own_rows] where there are any, else `rows`; positions and pages, no tokens. Tiles count these.
  RowInput* attention_rows;
  TileInput* tiles;      // [num_tiles]
  SampleRow* sample;     // [num_outputs]
  int* output_rows;      // [num_outputs]
  DraftRun* draft_runs;  // [num_runs]
  // Where there are rows of a rank's own, else null: the step's row that each of them is, [num_own_rows]; and for each row of the step, [num_tokens],
  // the one of them that it is, -1 for the rows of others.
  int *own_rows, *own_of_rows;
  // [num_tokens] where there are trees, else null; `parents` as DraftChoices has them.
  int32_t *slots, *parents;
  RowPath* paths;
  uint32_t* page_ids;

  StepInput step() const { return {attention_rows, tiles, page_ids, slots, paths}; }
  DraftChoices choices(const SampleResult* results) const {
    return {rows, parents, output_rows, sample, results};
  }
};
InputParts parts_of(uint8_t* input, const StepShape& shape);

size_t max_input_bytes(const BackendOptions& options);  // whole 16

int chunks_for(int num_pages);  // of attend_rows()

// Says whether the step drafts behind a run, if one of its rows chooses a token.
inline bool begins_chain(const Run& run) { return run.num_to_draft > 0 && run.next < 0; }

// A run of the batch whose drafts are a tree, and where its rows are among the step's.
struct TreeOfStep {
  size_t run;
  int first_row;
  int last_known;  // row of the run
};

// Embed of step n reads the place n % 2 (step_exchange.h). So each batch with tokens is put there for the step behind the last one whose
// embed is in the stream, and `step_` counts these: a batch without tokens has no embed, and one whose launch failed may have none.
class InputUpload {
 public:
  // `work`: what steps of this input run in; its `step` and its `exchange` are used. `rank`: where there are several KV caches, the one that
  // is here.
  InputUpload(const Config& config, const BackendOptions& options, const Workspace& work, int rank = 0);

  // Has a batch's input ready for the next embed. The step before the previous one must have ended.
  StepShape upload(const Batch& batch, Stream stream);
  // To be called when the step that was uploaded has been launched, unless it has no tokens. Where that was not done, because the launch
  // failed somewhere, the next upload waits for the stream and asks the device for its number.
  void count_launch();
  uint32_t step() const { return step_; }  // the number of the step that was counted last
  const std::vector<TreeOfStep>& trees() const { return trees_; }  // of the batch that was uploaded last
  // Enqueues the copy of the masks of its output rows, when everything before the sampling has been launched.
  void upload_masks(Stream stream) { sample_rows_.upload_masks(stream); }

 private:
  // A batch's step has a shape, padded to that of a graph; the numbers beside it say how much of that the batch fills.
  struct Counts {
    StepShape shape;
    int num_tokens{0}, num_own_rows{0};
    int num_single_rows{0};  // of all ranks, with padding
    bool has_spare_rows{false};
    size_t num_page_ids{0};
  };
  Counts count(const Batch& batch, size_t num_path_slots) const;
  bool is_own(const Run& run) const;
  bool has_own_rows() const { return num_kv_caches_ > 1; }

  int max_tokens_, num_kv_caches_;
  uint32_t first_full_, first_sliding_;  // pages of the KV cache that is here
  bool has_head_;
  PageId spare_full_, spare_sliding_;
  size_t max_page_ids_;
  StepExchange exchange_;
  const uint32_t* device_step_;
  uint32_t step_{0};
  bool is_to_launch_{false};  // something was uploaded, and its launch was not counted
  SampleRows sample_rows_;
  // Of the batch that was uploaded last: the chain that drafts behind the last known token of a run, by that token's output row; -1: none.
  std::vector<int> chains_;
  int num_chains_{0};
  std::vector<TreeOfStep> trees_;
};

}  // namespace nibble::cuda
