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
         2 * kSparePages;
}

}  // namespace

InputParts parts_of(uint8_t* input, const StepShape& shape) {
  auto* rows = reinterpret_cast<RowInput*>(input);
  auto* tiles = reinterpret_cast<TileInput*>(rows + shape.num_tokens);
  auto* sample = reinterpret_cast<SampleRow*>(tiles + shape.num_tiles);
  auto* output_rows = reinterpret_cast<int*>(sample + shape.num_outputs);
  return {rows, tiles, sample, output_rows, reinterpret_cast<uint32_t*>(output_rows + shape.num_outputs)};
}

size_t max_input_bytes(const BackendOptions& options) {
  return static_cast<size_t>(options.max_batch_tokens) *
             (sizeof(RowInput) + sizeof(TileInput) + sizeof(SampleRow) + sizeof(int)) +
         max_page_ids(options) * sizeof(uint32_t);
}

int chunks_for(int num_pages) { return (num_pages + kChunkPages - 1) / kChunkPages; }

InputUpload::InputUpload(const Config& config, const BackendOptions& options, uint8_t* device)
    : max_tokens_(options.max_batch_tokens),
      spare_full_{static_cast<PageId>(options.num_full_pages)},
      spare_sliding_{static_cast<PageId>(options.num_sliding_pages)},
      max_page_ids_(max_page_ids(options)),
      device_(device),
      pinned_(max_input_bytes(options)),
      last_pinned_(max_input_bytes(options)),
      sample_rows_(config.vocab) {}

StepShape InputUpload::upload(const Batch& batch, Stream stream) {
  StepShape shape{.writes_kv = true};
  int last_position = 0;
  size_t num_page_ids = 0;
  for (const Run& run : batch.runs) {
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
  }
  NIBBLE_CHECK(shape.num_tokens <= max_tokens_, "{} rows, {} allowed", shape.num_tokens, max_tokens_);
  const int num_tokens = shape.num_tokens;
  if (shape.is_decode() && graph_rows(num_tokens) <= max_tokens_)
    shape.num_tokens = shape.num_outputs = shape.num_single_rows = graph_rows(num_tokens);
  const bool has_spare_rows = shape.num_tokens > num_tokens;
  if (has_spare_rows) num_page_ids += 2 * kSparePages;
  NIBBLE_CHECK(num_page_ids <= max_page_ids_, "{} page ids, {} allowed", num_page_ids, max_page_ids_);
  NIBBLE_CHECK(last_position < kMaxChunks * kChunkPages * kPagePositions, "position {}", last_position);
  // The number of chunks is rounded up to a power of two: few grid sizes, so that a graph serves many steps.
  shape.full_chunks = 1;
  while (shape.full_chunks < chunks_for(last_position / kPagePositions + 1)) shape.full_chunks *= 2;

  std::swap(pinned_, last_pinned_);
  const InputParts in = parts_of(pinned_.as<uint8_t>(), shape);
  TileInput* tile = in.tiles;
  int* output_row = in.output_rows;
  sample_rows_.start(in.sample);
  uint32_t next_page = 0;
  int next_single = 0, next_tiled = shape.num_single_rows;
  const auto add_table = [&](const PageTableView& table) {
    const uint32_t first = next_page - static_cast<uint32_t>(table.first_page);
    for (const PageId page : table.pages) in.page_ids[next_page++] = static_cast<uint32_t>(page);
    return first;
  };
  for (const Run& run : batch.runs) {
    const uint32_t full = add_table(run.full), sliding = add_table(run.sliding);
    const auto num_rows = static_cast<int>(run.tokens.size());
    const bool is_tiled = num_rows >= kMinTiledRows;
    int& next_row = is_tiled ? next_tiled : next_single;
    const int first_row = std::exchange(next_row, next_row + num_rows);
    for (int i = 0; i < num_rows; ++i)
      in.rows[first_row + i] = {run.follows < 0 ? run.tokens[static_cast<size_t>(i)] : -1 - run.follows,
                                run.first_position + i, full, sliding};
    for (int i = 0; is_tiled && i < num_rows; i += kTileRows)
      *tile++ = {first_row + i, std::min(kTileRows, num_rows - i)};
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
  }
  shape.are_greedy = sample_rows_.are_greedy();
  shape.have_masks = sample_rows_.have_masks();
  sample_rows_.upload(stream);
  const auto bytes =
      static_cast<size_t>(reinterpret_cast<uint8_t*>(in.page_ids + num_page_ids) - pinned_.as<uint8_t>());
  check(cudaMemcpyAsync(device_, pinned_.as<uint8_t>(), bytes, cudaMemcpyHostToDevice, stream),
        "copying the step");
  return shape;
}

}  // namespace nibble::cuda
