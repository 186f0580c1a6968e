#include "backend/cuda/step/step_input.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "backend/cuda/attention/args.h"
#include "backend/cuda/chip/wait.h"
#include "backend/cuda/input/sample_input.h"
#include "backend/draft_tree.h"
#include "core/errors/check.h"

namespace nibble::cuda {
namespace {

static_assert(kLeastAdaptedRows <= kMinTiledRows);  // padding rows are in steps without tiles

// Room in the input for the paths of tree rows, in slots per row of a step. A row whose parent is the row
// before it extends the parent's path by one slot. Other rows need a whole path: at most 32 slots, one per
// draft (speculative/drafter.h). So 64 slots per row are more than any tree needs.
constexpr size_t kPathSlots{64};

// Returns an upper bound on the number of page ids in a step's input. The slots of the paths are counted as
// page ids, because they are in the same array.
size_t max_page_ids(const BackendOptions& options) {
  return size_t{kSparePages} + std::max(options.num_pages, options.max_table_pages) +
         (options.draft_head ? kMaxDraftingRuns : 0) + kPathSlots * options.max_batch_tokens;
}

struct PlacedTree {
  const Run* run;
  std::vector<PlaceInRun> places;

  const PlaceInRun& of(int row) const { return places[row]; }
  // Returns whether a row's path is the previous row's path plus the row's own slot.
  bool goes_on(int row) const {
    return row > 0 && parent_of(run->drafted.parents, row) == row - 1 && !of(row - 1).path.empty();
  }
  size_t num_path_slots() const {
    size_t sum = 0;
    for (int row = 0; row < static_cast<int>(places.size()); ++row)
      sum += goes_on(row) ? 1 : of(row).path.size();
    return sum;
  }
  // Corrects the positions of a tree's rows, which were filled in as if the run were a chain. Stores the
  // rows' paths in page_ids from index `next` on.
  void put_into(const InputParts& in, int first_row, uint32_t& next) const {
    for (int i = 0; i < static_cast<int>(places.size()); ++i) {
      const auto& [position, path] = of(i);
      const int row = first_row + i;
      in.rows[row].position = position;
      in.parents[row] = run->drafted.parents[i];
      if (path.empty()) continue;
      if (goes_on(i)) {
        in.paths[row] = in.paths[row - 1];
        in.page_ids[next++] = static_cast<uint32_t>(path.back());
        continue;
      }
      const int first = position + 1 - static_cast<int>(path.size());
      in.paths[row] = {first, next - static_cast<uint32_t>(first)};
      for (const int slot : path) in.page_ids[next++] = static_cast<uint32_t>(slot);
    }
  }
};

std::vector<PlacedTree> placed_trees(const Batch& batch) {
  std::vector<PlacedTree> trees;
  for (const Run& run : batch.runs)
    if (!run.drafted.parents.empty()) trees.push_back({&run, places_of(run)});
  return trees;
}

// The rows whose attention this rank computes, if each rank has its own KV cache. Rows that are processed
// singly come first, then rows in tiles.
class OwnRows {
 public:
  OwnRows(const InputParts& in, const StepShape& shape)
      : in_(in), num_single_(shape.num_single_rows), next_tiled_(num_single_) {
    if (in.own_of_rows) std::fill_n(in.own_of_rows, shape.num_tokens, -1);
  }
  // Copies `count` rows of the step, from `first` on, to attention rows. Returns the first attention row.
  int put(bool are_tiled, int first, int count) {
    int& next = are_tiled ? next_tiled_ : next_single_;
    const int here = std::exchange(next, next + count);
    for (int i = 0; i < count; ++i) {
      in_.attention_rows[here + i] = in_.rows[first + i];
      in_.own_rows[here + i] = first + i;
      in_.own_of_rows[first + i] = here + i;
    }
    return here;
  }
  void fill_up(const RowInput& spare) {
    for (int row = next_single_; row < num_single_; ++row) {
      in_.attention_rows[row] = spare;
      in_.own_rows[row] = 0;
    }
  }

 private:
  const InputParts& in_;
  int num_single_, next_single_{0}, next_tiled_;
};

// Returns whether a run's rows are computed in tiles. Rows of trees are not, because the keys that they see
// are not contiguous.
bool is_tiled(const Run& run) {
  return static_cast<int>(run.tokens.size()) >= kMinTiledRows && run.drafted.parents.empty();
}

// Returns whether the run's tokens or positions depend on drafts that the previous step makes on the GPU.
bool continues_chain(const Run& run) {
  return run.ahead && (run.ahead->num_unsure > 0 || run.drafted.count > 0);
}

OptionalIndex optional_index(std::optional<int> index) {
  return index ? OptionalIndex::of(*index) : OptionalIndex::none();
}
// Returns the position after a row. Only the GPU knows it if the row continues a draft chain.
SamplePosition position_after(const RowInput& input, int row) {
  if (input.token.source() == TokenSource::kDraftChain) return SamplePosition::after_row(row);
  return SamplePosition::at(input.position + 1);
}

OptionalIndex adapter_of(const Run& run) {
  return run.adapter ? OptionalIndex::of(static_cast<int>(*run.adapter)) : OptionalIndex::none();
}

// Returns the run of a step's padding rows. The token after the run is given (token 0), not sampled, and no
// chain makes drafts after it.
DraftRun padding_run(int first_row, int num_rows, int first_output) {
  return {first_row, num_rows, 0, OptionalIndex::of(0), first_output, 0, OptionalIndex::none(), false};
}

// Returns row i of a run. `last_chain`: the draft chain of the previous step that the run continues; -1:
// none.
RowInput row_of(const Run& run, int i, int last_chain, uint32_t full_pages, uint32_t sliding_pages) {
  if (last_chain >= 0) return {TokenInput::of_draft_chain(last_chain), i, full_pages, sliding_pages};
  const TokenInput token =
      run.ahead ? TokenInput::of_output_row(run.ahead->output_row) : TokenInput::of(run.tokens[i]);
  return {token, run.first_position + i, full_pages, sliding_pages};
}

// Stores a padding row.
void put_spare(const InputParts& in, int row, const RowInput& spare) {
  in.rows[row] = spare;
  if (in.slots) {
    in.slots[row] = 0;
    in.paths[row] = {kNoPath, 0};
  }
  if (in.adapters) in.adapters[row] = OptionalIndex::none();
}

// Returns the number of chunks for positions 0 to `position`, rounded up so that few graphs serve many steps.
// Up to 64 chunks, the number is rounded up to a power of two. Larger numbers are rounded up in smaller
// steps, of a quarter of the next lower power of two, because the CTAs of unused chunks delay the next
// kernel.
int chunks_up_to(int position) {
  constexpr int kInQuartersFrom{64};
  const int needed = chunks_for(position / kPagePositions + 1);
  int chunks = 1;
  while (chunks < needed) chunks *= 2;
  if (chunks <= kInQuartersFrom) return chunks;
  const int quarter = chunks / 8;
  return (needed + quarter - 1) / quarter * quarter;
}

}  // namespace

InputParts parts_of(uint8_t* input, const StepShape& shape) {
  auto* rows = reinterpret_cast<RowInput*>(input);
  auto* attention_rows = shape.num_own_rows > 0 ? rows + shape.num_tokens : rows;
  auto* tiles = reinterpret_cast<TileInput*>(rows + shape.num_tokens + shape.num_own_rows);
  auto* sample = reinterpret_cast<SampleRow*>(tiles + shape.num_tiles);
  auto* output_rows = reinterpret_cast<int*>(sample + shape.num_outputs);
  auto* draft_runs = reinterpret_cast<DraftRun*>(output_rows + shape.num_outputs);
  auto* rest = reinterpret_cast<int32_t*>(draft_runs + shape.num_runs);
  InputParts parts{rows,    attention_rows, tiles,   sample,  output_rows, draft_runs, nullptr,
                   nullptr, nullptr,        nullptr, nullptr, nullptr,     nullptr};
  if (shape.num_own_rows > 0) {
    parts.own_rows = rest;
    parts.own_of_rows = parts.own_rows + shape.num_own_rows;
    rest = parts.own_of_rows + shape.num_tokens;
  }
  if (shape.have_trees) {
    parts.slots = rest;
    parts.parents = parts.slots + shape.num_tokens;
    parts.paths = reinterpret_cast<RowPath*>(parts.parents + shape.num_tokens);
    rest = reinterpret_cast<int32_t*>(parts.paths + shape.num_tokens);
  }
  if (shape.have_adapters) {
    parts.adapters = reinterpret_cast<OptionalIndex*>(rest);
    rest = reinterpret_cast<int32_t*>(parts.adapters + shape.num_tokens);
  }
  parts.page_ids = reinterpret_cast<uint32_t*>(rest);
  return parts;
}

size_t max_input_bytes(const BackendOptions& options) {
  const size_t bytes =
      options.max_batch_tokens *
          (2 * sizeof(RowInput) + sizeof(TileInput) + sizeof(SampleRow) + 3 * sizeof(int) + sizeof(DraftRun) +
           2 * sizeof(int32_t) + sizeof(RowPath) + (options.adapters ? sizeof(OptionalIndex) : 0)) +
      max_page_ids(options) * sizeof(uint32_t);
  return (bytes + 15) / 16 * 16;
}

int chunks_for(int num_pages) { return (num_pages + kChunkPages - 1) / kChunkPages; }

InputUpload::InputUpload(const Config& config, const BackendOptions& options, const StepExchange& exchange,
                         const uint32_t* device_step, int rank)
    : max_tokens_(options.max_batch_tokens),
      num_kv_caches_(options.num_kv_caches),
      num_adapters_(options.adapters ? options.adapters->size() : 0),
      first_page_(num_kv_caches_ > 1 ? static_cast<uint32_t>(rank * options.num_pages) : 0),
      has_head_(options.draft_head != nullptr),
      spare_page_{static_cast<PageId>(options.num_pages)},
      max_page_ids_(max_page_ids(options)),
      exchange_(exchange),
      device_step_(device_step),
      sample_rows_(config.vocab) {}

// Returns whether this rank computes the run's attention, because the run's pages are in this rank's KV
// cache.
bool InputUpload::is_own(const Run& run) const {
  return num_kv_caches_ == 1 ||
         static_cast<uint32_t>(run.full.pages.front()) - first_page_ < static_cast<uint32_t>(spare_page_);
}

// Adds padding rows, up to `num_rows` rows. In a graph they have outputs too.
void InputUpload::pad(Counts& counts, int num_rows) const {
  StepShape& shape = counts.shape;
  NIBBLE_CHECK(num_rows <= max_tokens_, "{} rows with padding, {} allowed", num_rows, max_tokens_);
  if (shape.is_recorded()) shape.num_outputs = num_rows;
  counts.num_single_rows += num_rows - shape.num_tokens;
  shape.num_tokens = num_rows;
}

InputUpload::Counts InputUpload::count(const Batch& batch, size_t num_path_slots) const {
  Counts counts{.shape = {.writes_kv = true}, .num_page_ids = num_path_slots};
  StepShape& shape = counts.shape;
  int last_position = 0;
  for (const Run& run : batch.runs) {
    const auto num_rows = static_cast<int>(run.tokens.size());
    shape.num_tokens += num_rows;
    shape.num_outputs += static_cast<int>(run.outputs.size());
    shape.any_tiles |= is_tiled(run);
    shape.have_trees |= !run.drafted.parents.empty();
    shape.have_adapters |= run.adapter.has_value();
    NIBBLE_CHECK(!run.adapter || static_cast<size_t>(*run.adapter) < num_adapters_, "adapter {} of {}",
                 static_cast<size_t>(*run.adapter), num_adapters_);
    if (!is_tiled(run)) counts.num_single_rows += num_rows;
    if (!is_own(run)) continue;
    counts.num_own_rows += num_rows;
    if (!is_tiled(run))
      shape.num_single_rows += num_rows;
    else
      shape.num_tiles += (num_rows + kTileRows - 1) / kTileRows;
    shape.writes_kv &= run.tokens.size() == 1;
    last_position =
        std::max(last_position, run.first_position + (run.ahead ? run.ahead->num_unsure : 0) + num_rows - 1);
    counts.num_page_ids += run.full.pages.size() + run.sliding.pages.size();
    if (!has_head_ || !begins_drafts(run)) continue;
    ++shape.num_chains;
    ++counts.num_page_ids;
    const auto [num_drafts, topk] = *run.draft_request;
    shape.num_drafts = std::max(shape.num_drafts, num_drafts);
    shape.draft_trees |= topk > 1;
    NIBBLE_CHECK(topk <= kMaxTop, "{} drafts for a position, {} allowed", topk, kMaxTop);
  }
  NIBBLE_CHECK(shape.num_tokens <= max_tokens_, "{} rows, {} allowed", shape.num_tokens, max_tokens_);
  counts.num_tokens = shape.num_tokens;
  const bool is_padded = shape.is_recorded() && graph_rows(shape.num_tokens) <= max_tokens_;
  pad(counts, std::max(is_padded ? graph_rows(shape.num_tokens) : shape.num_tokens,
                       shape.have_adapters ? kLeastAdaptedRows : 0));
  if (has_own_rows()) {
    const int least = std::max(counts.num_own_rows, kLeastOwnRows);
    shape.num_own_rows = is_padded ? graph_rows(least) : least;
    shape.num_single_rows += shape.num_own_rows - counts.num_own_rows;
  } else {
    shape.num_single_rows = counts.num_single_rows;
  }
  counts.has_spare_rows =
      shape.num_tokens > counts.num_tokens || (has_own_rows() && shape.num_own_rows > counts.num_own_rows);
  if (counts.has_spare_rows) counts.num_page_ids += kSparePages;
  NIBBLE_CHECK(counts.num_page_ids <= max_page_ids_, "{} page ids, {} allowed", counts.num_page_ids,
               max_page_ids_);
  NIBBLE_CHECK(last_position < kMaxChunks * kChunkPages * kPagePositions, "position {}", last_position);
  NIBBLE_CHECK(shape.num_chains <= kMaxDraftingRuns && shape.num_drafts <= kMaxDraftsOfHead,
               "{} runs ask for {} drafts", shape.num_chains, shape.num_drafts);
  shape.full_chunks = chunks_up_to(last_position);
  if (has_head_ || shape.have_trees)
    shape.num_runs =
        shape.is_recorded() ? shape.num_tokens : static_cast<int>(batch.runs.size()) + counts.has_spare_rows;
  if (shape.num_chains > 0)
    shape.draft_chunks = std::min(chunks_up_to(last_position + shape.num_drafts), kMaxChunks);
  return counts;
}

StepShape InputUpload::upload(const Batch& batch, Stream stream) {
  const std::vector<PlacedTree> trees = placed_trees(batch);
  size_t num_path_slots = 0;
  for (const PlacedTree& tree : trees) num_path_slots += tree.num_path_slots();
  const Counts counts = count(batch, num_path_slots);
  StepShape shape = counts.shape;
  if (std::exchange(is_to_launch_, false)) {
    wait_for_stream(stream, "counting steps");
    check(cudaMemcpy(&step_, device_step_, sizeof step_, cudaMemcpyDeviceToHost), "counting steps");
  }
  InputHeader* const header = exchange_.inputs[(step_ + 1) % 2];
  auto* const input = reinterpret_cast<uint8_t*>(header + 1);
  const InputParts in = parts_of(input, shape);
  TileInput* tile = in.tiles;
  int* output_row = in.output_rows;
  sample_rows_.start(in.sample);
  uint32_t next_page = 0;
  int next_single = 0, next_tiled = counts.num_single_rows, next_output = 0, next_chain = 0;
  OwnRows own_rows(in, shape);
  DraftRun* draft_run = in.draft_runs;
  trees_.clear();
  const std::vector<int> last_chains = std::exchange(chains_, {});
  header->num_chains = static_cast<uint32_t>(std::exchange(num_chains_, shape.num_chains));
  auto next_tree = trees.begin();
  // Adds a table's pages to the page ids. Returns the index of the first, minus table.first_page.
  // `first_here`: first page of this rank's KV cache.
  const auto add_table = [&](const PageTableView& table, uint32_t first_here) {
    const uint32_t first = next_page - static_cast<uint32_t>(table.first_page);
    for (const PageId page : table.pages) in.page_ids[next_page++] = static_cast<uint32_t>(page) - first_here;
    return first;
  };
  for (const Run& run : batch.runs) {
    const auto chain = has_head_ && begins_drafts(run) ? std::optional(next_chain++) : std::nullopt;
    const bool is_here = is_own(run);
    const uint32_t full = is_here ? add_table(run.full, first_page_) : 0;
    if (chain)  // adds the chain's own page of the draft head's cache, for positions after the run's pages
      in.page_ids[next_page++] =
          static_cast<uint32_t>(spare_page_) + static_cast<uint32_t>(kSparePages + *chain);
    const uint32_t sliding = is_here ? add_table(run.sliding, first_page_) : 0;
    const auto num_rows = static_cast<int>(run.tokens.size()),
               num_outputs = static_cast<int>(run.outputs.size());
    int& next_row = is_tiled(run) ? next_tiled : next_single;
    const int first_row = std::exchange(next_row, next_row + num_rows);
    int last_chain = -1;
    if (continues_chain(run)) {
      last_chain = last_chains.at(run.ahead->output_row);
      NIBBLE_CHECK(last_chain >= 0 && !shape.have_trees, "no draft chain begins at output row {}",
                   run.ahead->output_row);
    }
    for (int i = 0; i < num_rows; ++i) in.rows[first_row + i] = row_of(run, i, last_chain, full, sliding);
    if (shape.have_adapters) std::fill_n(in.adapters + first_row, num_rows, adapter_of(run));
    if (shape.have_trees) {
      for (int i = 0; i < num_rows; ++i) {
        in.slots[first_row + i] = run.first_position + i;
        in.parents[first_row + i] = i - 1;
        in.paths[first_row + i] = {kNoPath, 0};
      }
    }
    if (!run.drafted.parents.empty()) {
      next_tree++->put_into(in, first_row, next_page);
      trees_.push_back(
          {static_cast<size_t>(&run - batch.runs.data()), first_row, num_rows - run.drafted.count - 1});
    }
    const int attention_row =
        has_own_rows() && is_here ? own_rows.put(is_tiled(run), first_row, num_rows) : first_row;
    for (int i = 0; is_here && is_tiled(run) && i < num_rows; i += kTileRows)
      *tile++ = {attention_row + i, std::min(kTileRows, num_rows - i)};
    if (shape.num_runs > 0)
      *draft_run++ = {first_row,   num_rows,    run.drafted.count,     optional_index(run.next),
                      next_output, num_outputs, optional_index(chain), !run.drafted.parents.empty()};
    next_output += num_outputs;
    for (const OutputRow& output : run.outputs) {
      const int row = first_row + output.token_index;
      *output_row++ = row;
      sample_rows_.add(output, position_after(in.rows[row], row),
                       run.ahead && last_chain < 0 ? OptionalIndex::of(first_row) : OptionalIndex::none());
      chains_.push_back(output.token_index == num_rows - 1 - run.drafted.count ? chain.value_or(-1) : -1);
    }
  }
  if (counts.has_spare_rows) {
    constexpr TokenInput kAny = TokenInput::of(0);
    const uint32_t spare = add_table({{&spare_page_, 1}}, 0);
    if (has_own_rows()) own_rows.fill_up({kAny, 0, spare, spare});
    for (int row = counts.num_tokens; row < shape.num_tokens; ++row) {
      put_spare(in, row, {kAny, 0, spare, spare});
      if (!shape.is_recorded()) continue;
      *output_row++ = row;
      sample_rows_.add({}, SamplePosition::at(0));
    }
    if (shape.num_runs > 0)
      *draft_run++ = padding_run(counts.num_tokens, shape.num_tokens - counts.num_tokens, next_output);
  }
  std::fill(draft_run, in.draft_runs + shape.num_runs, DraftRun{});
  shape.are_greedy = sample_rows_.are_greedy();
  shape.have_masks = sample_rows_.have_masks();
  sample_rows_.upload(stream);
  header->num_bytes =
      static_cast<uint32_t>(reinterpret_cast<uint8_t*>(in.page_ids + counts.num_page_ids) - input);
  is_to_launch_ = shape.num_tokens > 0;
  return shape;
}

void InputUpload::count_launch() {
  NIBBLE_CHECK(std::exchange(is_to_launch_, false), "step {} has no input", step_ + 1);
  ++step_;
}

}  // namespace nibble::cuda
