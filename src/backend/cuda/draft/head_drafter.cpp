#include "backend/cuda/draft/head_drafter.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "backend/cuda/chip/wait.h"
#include "backend/cuda/dense/args.h"
#include "backend/cuda/memory/arena.h"
#include "backend/cuda/pipeline/row_limits.h"
#include "backend/draft_chain.h"

namespace nibble::cuda {
namespace {

static_assert(kNumTaps == DraftHeadConfig::kNumTaps);
static_assert(kMaxDraftingRuns <= kOutputRows);  // sampling has scratch memory for kOutputRows rows

// Logit of an absent sink. It is finite, because the difference of two infinite logits would be NaN.
constexpr float kNoSinkLogit{-1e30f};
// Number of rows in a slice: the head computes K and V of one slice at a time. 512 rows are enough for fast
// products, and few enough for a small scratch memory.
constexpr int kSliceRows{512};

constexpr int kLastPosition{kMaxChunks * kChunkPages * kPagePositions - 1};

// Returns the number of floats in a product's result for up to `rows` rows of `width` sums. For up to
// kFewTokens rows, each sum is stored in two parts.
size_t parts_of_rows(int rows, int width) {
  return size_t{1} * std::max(rows, 2 * std::min(rows, kFewTokens)) * width;
}

// Returns a product's result whose sums are stored in two parts.
ResidualInput in_two_parts(const float* parts, int num_rows, int width) {
  return {.x = parts, .x_rest = parts + size_t{1} * num_rows * width, .hidden = width};
}

// Returns the options of the head's KV cache. The cache has the model's number of pages, the spare page
// (graph_rows() in step_input.h), which every cache has, and one page per draft chain: drafts of a chain may
// need positions after the last page that their sequence has.
BackendOptions cache_options(const BackendOptions& options) {
  BackendOptions own;
  own.num_pages = options.num_pages + kMaxDraftingRuns;
  own.kv_format = Format::kBf16;
  return own;
}

// Places the head's arrays in memory that begins at `base`, and returns the size of that memory. If `base` is
// null, only computes the size.
size_t place_head_workspace(const BackendOptions& options, uint8_t* base, HeadWorkspace& w) {
  Arena arena(base);
  const auto take = [&]<typename Element>(Element*& pointer, size_t count) {
    pointer = arena.take_array<Element>(count);
  };
  const DraftHeadConfig& head = options.draft_head->config;
  const int slice = std::min(kSliceRows, options.max_batch_tokens),
            kv_width = head.num_kv_heads * head.head_dim, q_width = head.num_heads * head.head_dim;
  const size_t T = options.max_batch_tokens, S = slice, H = head.hidden, I = head.intermediate;
  constexpr size_t kN{kMaxDraftingRuns}, kDrafts{kMaxDraftsOfHead};
  take(w.taps, T * kNumTaps * H);
  take(w.slots, T);
  take(w.kv_slots, T);
  take(w.chain_rows, kDrafts * kN);
  take(w.features, parts_of_rows(slice, head.hidden));
  take(w.input, S * 2 * H);
  take(w.kv_parts, parts_of_rows(slice, 2 * kv_width));
  take(w.chain_input, kN * 2 * H);
  take(w.residual, kN * H);
  take(w.qkv_parts, parts_of_rows(kMaxDraftingRuns, q_width + 2 * kv_width));
  take(w.attended, kN * q_width);
  take(w.project_parts, parts_of_rows(kMaxDraftingRuns, head.hidden));
  take(w.normed, kN * H);
  take(w.gate_parts, parts_of_rows(kMaxDraftingRuns, 2 * head.intermediate));
  take(w.gated, kN * I);
  take(w.out_parts, parts_of_rows(kMaxDraftingRuns, head.hidden));
  take(w.logits, kN * head.draft_vocab);
  take(w.attend_tickets, kN * head.num_kv_heads);
  take(w.starts, kN);
  take(w.results, kDrafts * kN);
  take(w.sample_rows, 2 * kN);
  take(w.row_numbers, kN);
  take(w.sinks, head.num_heads);
  take(w.rope_frequencies, head.head_dim / 2);
  return arena.size();
}

// Returns the number of bytes that download() copies: from HeadWorkspace::starts to the end of the results of
// a step's chains.
size_t download_bytes(const HeadWorkspace& work, const StepShape& shape) {
  const auto* end = work.results + size_t{1} * shape.num_drafts * shape.num_chains;
  return reinterpret_cast<const uint8_t*>(end) - reinterpret_cast<const uint8_t*>(work.starts);
}

template <typename T>
void put(T* to, const std::vector<T>& from) {
  copy_to_device(to, from.data(), from.size() * sizeof(T), "copying a draft head's constants");
}

}  // namespace

size_t HeadDrafter::kv_bytes(const BackendOptions& options) {
  return cuda::kv_bytes(draft_cache_config(options.draft_head->config), cache_options(options));
}

size_t HeadDrafter::workspace_bytes(const BackendOptions& options) {
  HeadWorkspace unplaced;
  return place_head_workspace(options, nullptr, unplaced);
}

HeadDrafter::HeadDrafter(const Weights& model, const DeviceWeights& device, const BackendOptions& options,
                         const Target& target, Stream stream)
    : head_(options.draft_head),
      target_(target),
      weights_(upload_head(model, device, options)),
      kv_(draft_cache_config(head_->config), cache_options(options), stream),
      bytes_(workspace_bytes(options)) {
  place_head_workspace(options, bytes_.as<uint8_t>(), work_);
  check(cudaMemsetAsync(bytes_.as<void>(), 0, bytes_.bytes(), stream), "clearing the workspace");
  wait_for_stream(stream, "clearing the workspace");
  SampleRow likeliest{};
  likeliest.follows = -1;
  likeliest.top_p = kAllTokens;
  likeliest.repetition_penalty = 1;
  std::vector<int> row_numbers(kMaxDraftingRuns);
  std::iota(row_numbers.begin(), row_numbers.end(), 0);
  std::vector<SampleRow> sample_rows(kMaxDraftingRuns, likeliest);
  likeliest.num_logprobs = kMaxTop;
  sample_rows.resize(size_t{2} * kMaxDraftingRuns, likeliest);
  put(work_.sample_rows, sample_rows);
  put(work_.row_numbers, row_numbers);
  put(work_.sinks, std::vector<float>(head_->config.num_heads, kNoSinkLogit));
  put(work_.rope_frequencies, rope_frequencies(head_->config).frequencies);
  prepare_head_rows();
}

void HeadDrafter::keep(Stream stream, size_t layer, int num_rows, const ResidualInput& x) const {
  const auto& taps = head_->config.taps;
  const auto tap = std::find(taps.begin(), taps.end(), static_cast<int>(layer));
  if (tap == taps.end()) return;
  keep_tap(on(stream), num_rows, {x, static_cast<int>(tap - taps.begin()), work_.taps});
}

// Computes W x + residual, where W is `weights`, and returns where the result is. Stores each sum in `parts`
// as one number, or as two numbers that the reader of the sum must add. `x` must be stored row by row.
ResidualInput HeadDrafter::multiply(Stream stream, const Strips& weights, const Rows& x, float* parts,
                                    ResidualInput residual) const {
  residual.hidden = weights.rows;
  const ProjectArgs args{x.data, x.cols, residual, weights, nullptr, x.num_rows, parts};
  if (x.num_rows > kFewTokens) {
    project_many(on(stream), args);
    return {.x = parts, .hidden = weights.rows};
  }
  project(on(stream), args);
  return in_two_parts(parts, x.num_rows, weights.rows);
}

// Computes W norm(x) for the current row of each draft chain, where W is `weights`, and stores the result in
// `parts`.
ResidualInput HeadDrafter::norm_and_multiply(Stream stream, const NormInput& norm, const Strips& weights,
                                             int num_rows, float* parts) const {
  if (num_rows > kFewTokens) {
    rms_norm(on(stream), {norm, num_rows, nullptr, work_.normed});
    return multiply(stream, weights, {work_.normed, num_rows, norm.residual.hidden}, parts);
  }
  qkv(on(stream), {norm, nullptr, weights, nullptr, num_rows, parts});
  return in_two_parts(parts, num_rows, weights.rows);
}

DraftInputArgs HeadDrafter::input_args() const {
  DraftInputArgs args{};
  args.embedding = weights_.embedding;
  args.token_norm = weights_.token_norm;
  args.hidden_norm = weights_.hidden_norm;
  args.eps = head_->config.rms_eps;
  args.norm_before_residual = head_->config.norm_before_residual;
  args.chain_z = work_.chain_input;
  args.residual = work_.residual;
  return args;
}

// Computes K and V of `num_rows` rows of the step, from row `first` on, and appends them to the head's KV
// cache. Also stores the first inputs of the draft chains that begin after these rows.
void HeadDrafter::fill_slots(Stream stream, const StepShape& shape, const InputParts& in, int first,
                             int num_rows) const {
  const DraftHeadConfig& config = head_->config;
  const int num_features = kNumTaps * config.hidden;
  __nv_bfloat16* taps = work_.taps + size_t{1} * first * num_features;
  if (config.norm_before_fc)
    norm_taps(on(stream), num_rows, {taps, weights_.features_norm, config.hidden, config.rms_eps});
  DraftInputArgs args = input_args();
  args.features = multiply(stream, weights_.fc, {taps, num_rows, num_features}, work_.features);
  args.slots = work_.slots + first;
  args.z = work_.input;
  draft_input(on(stream), num_rows, args);
  const ResidualInput kv =
      multiply(stream, weights_.kv, {work_.input, num_rows, 2 * config.hidden}, work_.kv_parts);
  const int32_t* kv_slots = shape.have_trees ? work_.kv_slots + first : nullptr;
  append(on(stream), {{in.rows + first, nullptr, in.page_ids, kv_slots},
                      kv.x,
                      kv.x_rest != nullptr,
                      num_rows,
                      /*num_heads=*/0,
                      config.num_kv_heads,
                      {work_.rope_frequencies, 1},
                      kv_.pages(0),
                      nullptr});
}

void HeadDrafter::attend(Stream stream, const StepShape& shape, const Workspace& work,
                         AttendArgs args) const {
  args.max_chunks = shape.draft_chunks;
  args.partials = work.attend_partials;
  args.tickets = work_.attend_tickets;
  args.mailbox = work.attend_mailbox;
  args.mailbox_partials = work.mailbox_partials;
  const int rows_per_launch = rows_of_attend(args.num_kv_heads, args.max_chunks);
  for (args.first_row = 0; args.first_row < shape.num_chains; args.first_row += rows_per_launch)
    attend_rows(on(stream), std::min(rows_per_launch, shape.num_chains - args.first_row), args);
}

// Runs the head's layer for draft number `draft` of every chain, on the inputs in the workspace. Returns the
// layer's output (g in reference/draft_head.h). Stores K and V of the drafts' rows, except for the first
// draft: fill_slots() has stored K and V of the first draft's row.
ResidualInput HeadDrafter::run_layer(Stream stream, const StepShape& shape, const Workspace& work,
                                     int draft) const {
  const DraftHeadConfig& config = head_->config;
  const int N = shape.num_chains, q_width = config.num_heads * config.head_dim;
  const ResidualInput parts =
      multiply(stream, weights_.qkv, {work_.chain_input, N, 2 * config.hidden}, work_.qkv_parts);
  const StepInput in{work_.chain_rows + draft * N, nullptr, parts_of(work.input, shape).page_ids};
  attend(stream, shape, work,
         {in,
          parts.x,
          parts.x_rest != nullptr,
          N,
          config.num_heads,
          config.num_kv_heads,
          {work_.rope_frequencies, 1},
          kv_.pages(0),
          /*window=*/0,
          work_.sinks,
          /*writes_kv=*/draft > 0,
          /*first_row=*/0,
          /*max_chunks=*/0,
          nullptr,
          nullptr,
          work_.attended});
  const ResidualInput r =
      multiply(stream, weights_.o, {work_.attended, N, q_width}, work_.project_parts, {.x = work_.residual});
  const ResidualInput gate_up = norm_and_multiply(stream, {r, weights_.mlp_norm, config.rms_eps},
                                                  weights_.gate_up, N, work_.gate_parts);
  draft_gate(on(stream), N, {gate_up.x, gate_up.x_rest != nullptr, config.intermediate, work_.gated});
  return multiply(stream, weights_.down, {work_.gated, N, config.intermediate}, work_.out_parts, r);
}

void HeadDrafter::choose(Stream stream, const StepShape& shape, const Workspace& work,
                         const ResidualInput& out, int draft) const {
  const DraftHeadConfig& config = head_->config;
  const int N = shape.num_chains;
  const NormInput norm{out, weights_.final_norm, config.rms_eps};
  const UnembedArgs args{norm, work_.row_numbers, N, weights_.unembedding, work_.logits, work_.normed};
  if (N > kFewTokens) {
    rms_norm(on(stream), {norm, N, nullptr, work_.normed});
    unembed_many(on(stream), args);
  } else {
    unembed(on(stream), args);
  }
  sample(
      on(stream), N,
      {work_.sample_rows + (shape.draft_trees ? kMaxDraftingRuns : 0), nullptr, work_.logits,
       config.draft_vocab, /*are_greedy=*/false, work.best, work.sample_tickets, work_.results + draft * N});
}

void HeadDrafter::draft(Stream stream, const StepShape& shape, const Workspace& work) const {
  const InputParts in = parts_of(work.input, shape);
  place_drafts(on(stream), shape.num_runs,
               {in.draft_runs, in.choices(work.results), shape.num_chains, shape.num_drafts, kLastPosition,
                work_.slots, shape.have_trees ? work_.kv_slots : nullptr, work_.chain_rows, work_.starts});
  for (int first = 0; first < shape.num_tokens; first += kSliceRows)
    fill_slots(stream, shape, in, first, std::min(kSliceRows, shape.num_tokens - first));
  for (int draft = 0; draft < shape.num_drafts; ++draft) {
    const ResidualInput out = run_layer(stream, shape, work, draft);
    choose(stream, shape, work, out, draft);
    if (draft + 1 == shape.num_drafts) break;
    DraftInputArgs args = input_args();
    args.features = out;
    args.features_norm = head_->config.norm_output ? weights_.final_norm : nullptr;
    args.chosen = work_.results + draft * shape.num_chains;
    args.tokens = weights_.tokens;
    draft_input(on(stream), shape.num_chains, args);
  }
}

void HeadDrafter::download(Stream stream, const Batch& batch, const StepShape& shape,
                           DraftDownload& to) const {
  to.requests.clear();
  to.num_runs = batch.runs.size();
  for (size_t n = 0; n < batch.runs.size(); ++n)
    if (begins_drafts(batch.runs[n]))
      to.requests.push_back({n, batch.runs[n].draft_request->num_tokens, batch.runs[n].draft_request->topk});
  if (to.requests.empty()) return;
  const size_t bytes = download_bytes(work_, shape);
  if (to.bytes.bytes() < bytes) to.bytes = PinnedBuffer(bytes);
  check(cudaMemcpyAsync(to.bytes.as<void>(), work_.starts, bytes, cudaMemcpyDeviceToHost, stream),
        "copying drafts");
}

std::vector<Drafts> HeadDrafter::read(const DraftDownload& from) const {
  std::vector<Drafts> drafts;
  if (from.requests.empty()) return drafts;
  const auto* starts = from.bytes.as<ChainStart>();
  const auto* results = reinterpret_cast<const SampleResult*>(
      from.bytes.as<uint8_t>() +
      (reinterpret_cast<const uint8_t*>(work_.results) - reinterpret_cast<const uint8_t*>(work_.starts)));
  const size_t num_chains = from.requests.size();
  for (size_t n = 0; n < num_chains; ++n) {
    if (starts[n].token < 0) continue;
    drafts.resize(from.num_runs);
    Drafts& of_run = drafts[from.requests[n].run];
    of_run.first_position = starts[n].position + 2;
    for (int draft = 0; draft < from.requests[n].num_drafts; ++draft) {
      const SampleResult& chosen = results[draft * num_chains + n];
      const auto as_draft = [&](int id, float logprob) {
        return Draft{.token = head_->tokens[std::max(id, 0)], .probability = id < 0 ? 0 : std::exp(logprob)};
      };
      std::vector<Draft> level{as_draft(chosen.token, chosen.logprob)};
      for (int place = 1; place < std::min(from.requests[n].topk, chosen.num_top); ++place)
        level.push_back(as_draft(chosen.top[place].token, chosen.top[place].logprob));
      add_level(of_run, level);
    }
  }
  return drafts;
}

}  // namespace nibble::cuda
