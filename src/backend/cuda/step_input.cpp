#include "backend/cuda/step_input.h"

#include <algorithm>
#include <utility>

#include "backend/cuda/kernels.h"
#include "backend/cuda/workspace.h"
#include "core/check.h"

namespace nibble::cuda {
namespace {

// Upper bound on a step's page ids: the page tables of all runs.
size_t max_page_ids(const BackendOptions& options) {
  return static_cast<size_t>(options.num_full_pages) + static_cast<size_t>(options.num_sliding_pages) +
         2 * kSparePages + (options.draft_head ? kMaxDraftingRuns : 0);
}

// The number of chunks in which attention sees positions up to this one. Rounded up to a power of two: few grid sizes, so that a graph
// serves many steps.
int chunks_up_to(int position) {
  int chunks = 1;
  while (chunks < chunks_for(position / kPagePositions + 1)) chunks *= 2;
  return chunks;
}

}  // namespace

InputParts parts_of(uint8_t* input, const StepShape& shape) {
  auto* rows = reinterpret_cast<RowInput*>(input);
  auto* tiles = reinterpret_cast<TileInput*>(rows + shape.num_tokens);
  auto* sample = reinterpret_cast<SampleRow*>(tiles + shape.num_tiles);
  auto* output_rows = reinterpret_cast<int*>(sample + shape.num_outputs);
  auto* draft_runs = reinterpret_cast<DraftRun*>(output_rows + shape.num_outputs);
  return {rows,        tiles,      sample,
          output_rows, draft_runs, reinterpret_cast<uint32_t*>(draft_runs + shape.num_runs)};
}

size_t max_input_bytes(const BackendOptions& options) {
  const size_t bytes = static_cast<size_t>(options.max_batch_tokens) *
                           (sizeof(RowInput) + sizeof(TileInput) + sizeof(SampleRow) + sizeof(int) +
                            (options.draft_head ? sizeof(DraftRun) : 0)) +
                       max_page_ids(options) * sizeof(uint32_t);
  return (bytes + 15) / 16 * 16;
}

int chunks_for(int num_pages) { return (num_pages + kChunkPages - 1) / kChunkPages; }

InputUpload::InputUpload(const Config& config, const BackendOptions& options, const Workspace& work)
    : max_tokens_(options.max_batch_tokens),
      has_head_(options.draft_head != nullptr),
      spare_full_{static_cast<PageId>(options.num_full_pages)},
      spare_sliding_{static_cast<PageId>(options.num_sliding_pages)},
      max_page_ids_(max_page_ids(options)),
      exchange_(work.exchange),
      device_step_(work.step),
      sample_rows_(config.vocab) {}

StepShape InputUpload::upload(const Batch& batch, Stream stream) {
  StepShape shape{.writes_kv = true};
  int last_position = 0;
  size_t num_page_ids = 0;
  for (const Run& run : batch.runs) {
    NIBBLE_CHECK(run.parents.empty() && run.draft_topk == 1, "a run of {} tokens has a tree of drafts",
                 run.tokens.size());
    const auto num_rows = static_cast<int>(run.tokens.size());
    shape.num_tokens += num_rows;
    if (num_rows < kMinTiledRows)
      shape.num_single_rows += num_rows;
    else
      shape.num_tiles += (num_rows + kTileRows - 1) / kTileRows;
    shape.num_outputs += static_cast<int>(run.outputs.size());
    shape.writes_kv &= run.tokens.size() == 1;
    last_position = std::max(last_position, run.first_position + static_cast<int>(run.tokens.size()) - 1);
    num_page_ids += run.full.pages.size() + run.sliding.pages.size();
    if (!has_head_ || !begins_chain(run)) continue;
    ++shape.num_chains;
    ++num_page_ids;
    shape.num_drafts = std::max(shape.num_drafts, run.num_to_draft);
  }
  NIBBLE_CHECK(shape.num_tokens <= max_tokens_, "{} rows, {} allowed", shape.num_tokens, max_tokens_);
  const int num_tokens = shape.num_tokens;
  if (shape.is_recorded() && graph_rows(num_tokens) <= max_tokens_)
    shape.num_tokens = shape.num_outputs = shape.num_single_rows = graph_rows(num_tokens);
  const bool has_spare_rows = shape.num_tokens > num_tokens;
  if (has_spare_rows) num_page_ids += 2 * kSparePages;
  NIBBLE_CHECK(num_page_ids <= max_page_ids_, "{} page ids, {} allowed", num_page_ids, max_page_ids_);
  NIBBLE_CHECK(last_position < kMaxChunks * kChunkPages * kPagePositions, "position {}", last_position);
  NIBBLE_CHECK(shape.num_chains <= kMaxDraftingRuns && shape.num_drafts <= kMaxDraftsOfHead,
               "{} runs ask for {} drafts", shape.num_chains, shape.num_drafts);
  shape.full_chunks = chunks_up_to(last_position);
  if (has_head_)
    shape.num_runs = shape.is_recorded() ? shape.num_tokens : static_cast<int>(batch.runs.size());
  if (shape.num_chains > 0)
    shape.draft_chunks = std::min(chunks_up_to(last_position + shape.num_drafts), kMaxChunks);

  if (std::exchange(is_to_launch_, false)) {
    check(cudaStreamSynchronize(stream), "counting steps");
    check(cudaMemcpy(&step_, device_step_, sizeof step_, cudaMemcpyDeviceToHost), "counting steps");
  }
  InputHeader* const header = exchange_.inputs[(step_ + 1) % 2];
  auto* const input = reinterpret_cast<uint8_t*>(header + 1);
  const InputParts in = parts_of(input, shape);
  TileInput* tile = in.tiles;
  int* output_row = in.output_rows;
  sample_rows_.start(in.sample);
  uint32_t next_page = 0;
  int next_single = 0, next_tiled = shape.num_single_rows, next_output = 0, next_chain = 0;
  DraftRun* draft_run = in.draft_runs;
  const auto add_table = [&](const PageTableView& table) {
    const uint32_t first = next_page - static_cast<uint32_t>(table.first_page);
    for (const PageId page : table.pages) in.page_ids[next_page++] = static_cast<uint32_t>(page);
    return first;
  };
  for (const Run& run : batch.runs) {
    const bool has_chain = has_head_ && begins_chain(run);
    const uint32_t full = add_table(run.full);
    if (has_chain)  // a page of the head's own, for the drafts' slots that leave the run's pages
      in.page_ids[next_page++] =
          static_cast<uint32_t>(spare_full_) + static_cast<uint32_t>(kSparePages + next_chain);
    const uint32_t sliding = add_table(run.sliding);
    const auto num_rows = static_cast<int>(run.tokens.size()),
               num_outputs = static_cast<int>(run.outputs.size());
    const bool is_tiled = num_rows >= kMinTiledRows;
    int& next_row = is_tiled ? next_tiled : next_single;
    const int first_row = std::exchange(next_row, next_row + num_rows);
    for (int i = 0; i < num_rows; ++i)
      in.rows[first_row + i] = {run.follows < 0 ? run.tokens[static_cast<size_t>(i)] : -1 - run.follows,
                                run.first_position + i, full, sliding};
    for (int i = 0; is_tiled && i < num_rows; i += kTileRows)
      *tile++ = {first_row + i, std::min(kTileRows, num_rows - i)};
    if (has_head_)
      *draft_run++ = {first_row,
                      num_rows,
                      run.num_drafted,
                      run.next,
                      next_output,
                      num_outputs,
                      has_chain ? next_chain++ : -1};
    next_output += num_outputs;
    for (const OutputRow& output : run.outputs) {
      *output_row++ = first_row + output.token_index;
      sample_rows_.add(output, run.first_position + output.token_index + 1, run.follows < 0 ? -1 : first_row);
    }
  }
  if (has_spare_rows) {
    constexpr TokenId kAny{0};
    const uint32_t full = add_table({{&spare_full_, 1}}), sliding = add_table({{&spare_sliding_, 1}});
    for (int row = num_tokens; row < shape.num_tokens; ++row) {
      in.rows[row] = {kAny, 0, full, sliding};
      *output_row++ = row;
      sample_rows_.add({}, 0);
    }
    if (has_head_) *draft_run++ = {num_tokens, shape.num_tokens - num_tokens, 0, kAny, next_output, 0, -1};
  }
  std::fill(draft_run, in.draft_runs + shape.num_runs, DraftRun{});
  shape.are_greedy = sample_rows_.are_greedy();
  shape.have_masks = sample_rows_.have_masks();
  sample_rows_.upload(stream);
  header->num_bytes = static_cast<uint32_t>(reinterpret_cast<uint8_t*>(in.page_ids + num_page_ids) - input);
  is_to_launch_ = shape.num_tokens > 0;
  return shape;
}

void InputUpload::count_launch() {
  NIBBLE_CHECK(std::exchange(is_to_launch_, false), "step {} has no input", step_ + 1);
  ++step_;
}

}  // namespace nibble::cuda
