#include "backend/cuda/cuda_backend.h"

#include <algorithm>
#include <map>
#include <utility>

#include "backend/cuda/device_weights.h"
#include "backend/cuda/images.h"
#include "backend/cuda/kernel_table.h"
#include "backend/cuda/kernels.h"
#include "backend/cuda/sample_rows.h"
#include "core/check.h"
#include "core/error.h"
#include "core/log.h"
#include "model/rope.h"

namespace nibble::cuda {
namespace {

constexpr int kMaxGraphTokens{8};
constexpr int kOutputRows{32};  // rows of logits computed at a time
constexpr size_t kAttendScratchBytes{size_t{64} << 20};

static_assert(kPagePositions == kPageTokens);

// Number of words in RoutingMailbox::sums: 16 for each segment of the router's strips.
int router_sums(const Config& config) {
  const Strips router = router_strips(config);
  return router.num_strips * router.num_segments * kStripRows;
}

int chunks_for(int num_pages) { return (num_pages + kChunkPages - 1) / kChunkPages; }

// Bytes of one layer's KV cache.
size_t kv_layer_bytes(const Config& config, const BackendOptions& options, LayerKind kind) {
  const int num_pages = kind == LayerKind::kFull ? options.num_full_pages : options.num_sliding_pages;
  return size_t{2} * static_cast<size_t>(num_pages) * static_cast<size_t>(config.num_kv_heads) *
         kPagePositions * num_bytes(options.kv_format, static_cast<size_t>(config.head_dim));
}

// Device memory of a step of up to T rows: activations, and scratch that kernels hand to each other.
struct Workspace {
  float *x{nullptr}, *qkv_parts{nullptr}, *project_parts{nullptr}, *router_logits{nullptr},
      *pair_weights{nullptr}, *experts_out{nullptr}, *logits{nullptr}, *attend_partials{nullptr};
  __nv_bfloat16 *attended{nullptr}, *normed{nullptr}, *gated{nullptr};
  int *chosen{nullptr}, *rank{nullptr}, *group_count{nullptr}, *group_expert{nullptr},
      *group_pairs_count{nullptr}, *group_pairs{nullptr};
  SampleResult* results{nullptr};
  uint64_t* best{nullptr};
  uint64_t *routing_sums{nullptr},
      *routing_experts{nullptr};  // mailboxes of a single token (RoutingMailbox), zero before the first step
  uint32_t* step{nullptr};        // zero before the first step
  unsigned* tickets{nullptr};     // route [1], sample [kOutputRows], attend [rows, Nkv]
  float* rope_frequencies{nullptr};
  uint8_t* input{nullptr};
  size_t input_bytes{0}, num_tickets{0};
};

// Upper bound on a step's page ids: the page tables of all runs.
size_t max_page_ids(const BackendOptions& options) {
  return static_cast<size_t>(options.num_full_pages) + static_cast<size_t>(options.num_sliding_pages);
}

size_t place(const Config& config, const BackendOptions& options, uint8_t* base, Workspace& w) {
  size_t size = 0;
  const auto take = [&](auto*& pointer, size_t count) {
    using T = std::remove_reference_t<decltype(*pointer)>;
    pointer = base ? reinterpret_cast<T*>(base + size) : nullptr;
    size += (count * sizeof(T) + 255) / 256 * 256;
  };
  const auto T = static_cast<size_t>(options.max_batch_tokens), H = static_cast<size_t>(config.hidden),
             D = static_cast<size_t>(config.head_dim), Nq = static_cast<size_t>(config.num_heads),
             Nkv = static_cast<size_t>(config.num_kv_heads),
             K = static_cast<size_t>(config.experts_per_token),
             groups = static_cast<size_t>(max_num_groups_up_to(options.max_batch_tokens, config.num_experts,
                                                               config.experts_per_token));
  take(w.x, T * H);
  take(w.qkv_parts, 2 * T * (Nq + 2 * Nkv) * D);
  take(w.attended, T * Nq * D);
  take(w.project_parts, 2 * T * H);
  take(w.normed, T * H);
  take(w.router_logits, T * static_cast<size_t>(config.num_experts));
  take(w.pair_weights, T * K);
  take(w.chosen, T * K);
  take(w.rank, T * K);
  take(w.group_count, 1);
  take(w.group_expert, groups);
  take(w.group_pairs_count, groups);
  take(w.group_pairs, groups * kManyColumns);
  take(w.gated, T * K * static_cast<size_t>(config.intermediate));
  take(w.experts_out, T * K * H);
  take(w.logits, kOutputRows * static_cast<size_t>(config.vocab));
  take(w.best, static_cast<size_t>(kOutputRows) * kBestCtas);
  take(w.results, T);
  take(w.attend_partials, kAttendScratchBytes / sizeof(float));
  w.num_tickets = 1 + kOutputRows + T * Nkv;
  take(w.tickets, w.num_tickets);
  take(w.routing_sums, static_cast<size_t>(router_sums(config)));
  take(w.routing_experts, K);
  take(w.step, 1);
  take(w.rope_frequencies, D / 2);
  w.input_bytes =
      T * (sizeof(RowInput) + sizeof(SampleRow) + sizeof(int)) + max_page_ids(options) * sizeof(uint32_t);
  take(w.input, w.input_bytes);
  return size;
}

class CudaBackend final : public Backend {
 public:
  CudaBackend(std::shared_ptr<const Weights> weights, const BackendOptions& options);
  ~CudaBackend() override {
    for (const auto& [shape, graph] : graphs_) cudaGraphExecDestroy(graph);
  }
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  std::string_view name() const override { return "cuda"; }
  const Config& config() const override { return config_; }
  std::vector<KernelChoice> kernels() const override;
  std::vector<Counter> counters() const override {
    return {{"steps of a recorded graph", num_graph_hits_},
            {"steps that recorded one", num_graph_misses_},
            {"steps without a graph", num_steps_without_graph_}};
  }
  StepResult step(const Batch& batch) override;
  std::vector<TimedWork> profile(const Batch& batch) override;

 private:
  // Decides which kernels a step launches, and with which grids: steps of one shape share a CUDA graph.
  struct StepShape {
    int num_tokens{0}, num_outputs{0}, full_chunks{0};
    bool are_greedy{false};
    bool writes_kv{false};  // every row belongs to another sequence: attend() writes
    bool is_decode() const { return num_tokens <= kMaxGraphTokens && writes_kv && num_outputs == num_tokens; }
    friend auto operator<=>(const StepShape&, const StepShape&) = default;
  };

  // The parts of a step's input, packed so that one copy uploads them.
  struct InputParts {
    RowInput* rows;     // [num_tokens]
    SampleRow* sample;  // [num_outputs]
    int* output_rows;   // [num_outputs]
    uint32_t* page_ids;
  };

  StepShape upload_input(const Batch& batch);
  void run_layers(const StepShape& shape);
  void run_outputs(const StepShape& shape, int first, int count);
  cudaGraphExec_t make_graph(const StepShape& shape);
  void launch_graph(const StepShape& shape);
  void download_outputs(bool want_logits, int first, int count, StepResult& result);
  ResidualInput residual(bool with_experts) const;
  static InputParts parts(uint8_t* input, const StepShape& shape);
  StepInput input(const StepShape& shape) const;

  Config config_;
  BackendOptions options_;
  DeviceWeights weights_;
  DeviceBuffer kv_, workspace_;
  std::vector<uint8_t*> layer_kv_;
  Workspace work_;
  PinnedBuffer pinned_input_, pinned_results_, pinned_logits_;
  SampleRows sample_rows_;
  float rope_concentration_;
  OwnedStream stream_;
  std::map<StepShape, cudaGraphExec_t> graphs_;
  size_t num_graph_hits_{0}, num_graph_misses_{0}, num_steps_without_graph_{0};
};

CudaBackend::CudaBackend(std::shared_ptr<const Weights> weights, const BackendOptions& options)
    : config_(weights->config),
      options_(options),
      weights_(upload(*weights, options.dense, options.num_threads)),
      sample_rows_(weights->config.vocab) {
  size_t kv_bytes = 0;
  for (const LayerKind kind : config_.layer_kinds) kv_bytes += kv_layer_bytes(config_, options, kind);
  kv_ = DeviceBuffer(kv_bytes);
  // Attention loads whole pages and masks positions that are not written yet; zeros keep those finite.
  check(cudaMemsetAsync(kv_.as<void>(), 0, kv_.bytes(), stream_), "clearing the KV cache");
  uint8_t* layer_kv = kv_.as<uint8_t>();
  for (const LayerKind kind : config_.layer_kinds) {
    layer_kv_.push_back(layer_kv);
    layer_kv += kv_layer_bytes(config_, options, kind);
  }
  workspace_ = DeviceBuffer(place(config_, options, nullptr, work_));
  place(config_, options, workspace_.as<uint8_t>(), work_);
  check(cudaMemsetAsync(workspace_.as<void>(), 0, workspace_.bytes(), stream_), "clearing the workspace");
  const RopeFrequencies rope = rope_frequencies(config_.rope, config_.head_dim);
  rope_concentration_ = rope.concentration;
  check(cudaMemcpyAsync(work_.rope_frequencies, rope.frequencies.data(),
                        rope.frequencies.size() * sizeof(float), cudaMemcpyHostToDevice, stream_),
        "copying frequencies");
  pinned_input_ = PinnedBuffer(work_.input_bytes);
  pinned_results_ = PinnedBuffer(kOutputRows * sizeof(SampleResult));
  pinned_logits_ =
      PinnedBuffer(static_cast<size_t>(kOutputRows) * static_cast<size_t>(config_.vocab) * sizeof(float));
  prepare_embed();
  prepare_linear();
  prepare_attend();
  prepare_experts();
  prepare_prefill();
  prepare_sample();
  stream_.wait();
}

CudaBackend::InputParts CudaBackend::parts(uint8_t* input, const StepShape& shape) {
  auto* rows = reinterpret_cast<RowInput*>(input);
  auto* sample = reinterpret_cast<SampleRow*>(rows + shape.num_tokens);
  auto* output_rows = reinterpret_cast<int*>(sample + shape.num_outputs);
  return {rows, sample, output_rows, reinterpret_cast<uint32_t*>(output_rows + shape.num_outputs)};
}
StepInput CudaBackend::input(const StepShape& shape) const {
  const InputParts in = parts(work_.input, shape);
  return {in.rows, in.page_ids};
}

CudaBackend::StepShape CudaBackend::upload_input(const Batch& batch) {
  StepShape shape{.writes_kv = true};
  int last_position = 0;
  size_t num_page_ids = 0;
  for (const Run& run : batch.runs) {
    shape.num_tokens += static_cast<int>(run.tokens.size());
    shape.num_outputs += static_cast<int>(run.outputs.size());
    shape.writes_kv &= run.tokens.size() == 1;
    last_position = std::max(last_position, run.first_position + static_cast<int>(run.tokens.size()) - 1);
    num_page_ids += run.full.pages.size() + run.sliding.pages.size();
  }
  NIBBLE_CHECK(shape.num_tokens <= options_.max_batch_tokens, "{} rows, {} allowed", shape.num_tokens,
               options_.max_batch_tokens);
  NIBBLE_CHECK(num_page_ids <= max_page_ids(options_), "{} page ids, {} allowed", num_page_ids,
               max_page_ids(options_));
  NIBBLE_CHECK(last_position < kMaxChunks * kChunkPages * kPagePositions, "position {}", last_position);
  // The number of chunks is rounded up to a power of two: few grid sizes, so that a graph serves many steps.
  shape.full_chunks = 1;
  while (shape.full_chunks < chunks_for(last_position / kPagePositions + 1)) shape.full_chunks *= 2;

  const InputParts in = parts(pinned_input_.as<uint8_t>(), shape);
  RowInput* row = in.rows;
  int* output_row = in.output_rows;
  sample_rows_.start(in.sample);
  uint32_t next_page = 0;
  int first_row = 0;
  const auto add_table = [&](const PageTableView& table) {
    const uint32_t first = next_page - static_cast<uint32_t>(table.first_page);
    for (const PageId page : table.pages) in.page_ids[next_page++] = static_cast<uint32_t>(page);
    return first;
  };
  for (const Run& run : batch.runs) {
    const uint32_t full = add_table(run.full), sliding = add_table(run.sliding);
    for (size_t i = 0; i < run.tokens.size(); ++i)
      *row++ = {run.tokens[i], run.first_position + static_cast<int>(i), full, sliding};
    for (const OutputRow& output : run.outputs) {
      *output_row++ = first_row + output.token_index;
      sample_rows_.add(output, run.first_position + output.token_index + 1);
    }
    first_row += static_cast<int>(run.tokens.size());
  }
  shape.are_greedy = sample_rows_.are_greedy();
  sample_rows_.upload(stream_);
  const auto bytes = static_cast<size_t>(reinterpret_cast<uint8_t*>(in.page_ids + num_page_ids) -
                                         pinned_input_.as<uint8_t>());
  check(cudaMemcpyAsync(work_.input, pinned_input_.as<uint8_t>(), bytes, cudaMemcpyHostToDevice, stream_),
        "copying the step");
  return shape;
}

ResidualInput CudaBackend::residual(bool with_experts) const {
  ResidualInput r;
  r.x = work_.x;
  r.hidden = config_.hidden;
  r.num_experts = config_.experts_per_token;
  if (with_experts) r.experts = work_.experts_out;
  return r;
}

void CudaBackend::run_layers(const StepShape& shape) {
  const StepInput in = input(shape);
  const int T = shape.num_tokens;
  const bool is_many = T > kFewTokens;
  const RopeInput rope{work_.rope_frequencies, rope_concentration_};
  const Groups groups{group_size(T),           work_.group_count, work_.group_expert,
                      work_.group_pairs_count, work_.group_pairs, work_.pair_weights};
  const auto num_layers = static_cast<uint32_t>(weights_.layers.size());
  const int num_groups = max_num_groups(T, config_.num_experts, config_.experts_per_token);
  embed(stream_, T, {in, weights_.embedding, config_.hidden, work_.x, work_.step});
  for (size_t l = 0; l < weights_.layers.size(); ++l) {
    const DeviceLayer& layer = weights_.layers[l];
    const bool is_sliding = layer.kind == LayerKind::kSliding;
    const LayerPages pages{layer_kv_[l], is_sliding,
                           options_.kv_format == Format::kE4m3 ? KvFormat::kE4m3 : KvFormat::kBf16};
    const ResidualInput left = residual(/*with_experts=*/l > 0);
    const NormInput attention_norm{left, layer.attention_norm, config_.rms_eps};
    // With many tokens normalise() adds up the residual stream once, in place.
    const ResidualInput before = is_many ? residual(/*with_experts=*/false) : left;
    if (is_many) normalise(stream_, {attention_norm, T, work_.x, work_.normed});
    qkv(stream_, {attention_norm, work_.normed, layer.qkv, layer.qkv_bias, T, work_.qkv_parts});
    if (!shape.writes_kv)
      append(stream_, {in, work_.qkv_parts, T, config_.num_heads, config_.num_kv_heads, rope, pages});
    const int max_chunks =
        is_sliding ? std::min(shape.full_chunks,
                              chunks_for((config_.window + kPagePositions - 2) / kPagePositions + 1))
                   : shape.full_chunks;
    const auto row_floats =
        static_cast<size_t>(config_.num_kv_heads) * static_cast<size_t>(max_chunks) * kPartialFloats;
    const int rows_per_launch =
        std::max(1, static_cast<int>(kAttendScratchBytes / sizeof(float) / row_floats));
    for (int row = 0; row < T; row += rows_per_launch)
      attend(stream_, std::min(rows_per_launch, T - row),
             {in, work_.qkv_parts, T, config_.num_heads, config_.num_kv_heads, rope, pages,
              is_sliding ? config_.window : 0, layer.sinks, shape.writes_kv, row, max_chunks,
              work_.attend_partials, work_.tickets + 1 + kOutputRows, work_.attended});
    project(stream_, {work_.attended, config_.num_heads * config_.head_dim, before, layer.o, layer.o_bias, T,
                      work_.project_parts});
    ResidualInput parts;
    parts.x = work_.project_parts;
    parts.x_rest = work_.project_parts + static_cast<size_t>(T) * static_cast<size_t>(config_.hidden);
    parts.hidden = config_.hidden;
    const NormInput norm{parts, layer.mlp_norm, config_.rms_eps};
    const UpWeights up_weights{layer.up, layer.up_bias, config_.hidden, config_.intermediate,
                               config_.swiglu_limit};
    const RoutingMailbox routing{work_.routing_sums, work_.routing_experts,   work_.pair_weights, work_.step,
                                 num_layers,         static_cast<uint32_t>(l)};
    const int K = config_.experts_per_token;
    if (T == 1) {
      route_up(stream_,
               {norm, layer.router, layer.router_bias, K, work_.x, routing, up_weights, work_.gated});
    } else {
      if (is_many) normalise(stream_, {norm, T, work_.x, work_.normed});
      route(stream_, {norm, layer.router, layer.router_bias, T, K, work_.x, work_.normed, work_.router_logits,
                      work_.chosen, work_.rank, work_.tickets, groups});
      up(stream_, {work_.normed, groups, T, K, num_groups, up_weights, work_.gated});
    }
    down(stream_, {work_.gated, groups, routing, T, num_groups, config_.hidden, config_.intermediate,
                   layer.down, layer.down_bias, work_.experts_out});
  }
}

void CudaBackend::run_outputs(const StepShape& shape, int first, int count) {
  const InputParts in = parts(work_.input, shape);
  unembed(stream_, {{residual(/*with_experts=*/true), weights_.final_norm, config_.rms_eps},
                    in.output_rows + first,
                    count,
                    weights_.unembedding,
                    work_.logits});
  sample(stream_, count,
         {in.sample + first, work_.logits, config_.vocab, shape.are_greedy, work_.best, work_.tickets + 1,
          work_.results + first});
}

cudaGraphExec_t CudaBackend::make_graph(const StepShape& shape) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "recording a step");
  run_layers(shape);
  run_outputs(shape, 0, shape.num_outputs);
  check(cudaStreamEndCapture(stream_, &graph), "recording a step");
  const cudaError_t error = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  check(error, "preparing a step");
  return executable;
}

// Decode steps launch the same kernels again and again: as one graph they cost the host a single call.
void CudaBackend::launch_graph(const StepShape& shape) {
  auto found = graphs_.find(shape);
  if (found != graphs_.end()) {
    ++num_graph_hits_;
  } else {
    ++num_graph_misses_;
    found = graphs_.emplace(shape, make_graph(shape)).first;
    log::info("recorded a graph for {} rows of up to {} positions; there are {}", shape.num_tokens,
              shape.full_chunks * kChunkPages * kPagePositions, graphs_.size());
  }
  check(cudaGraphLaunch(found->second, stream_), "launching a step");
}

// Downloads outputs [first, first + count) and appends them to the result.
void CudaBackend::download_outputs(bool want_logits, int first, int count, StepResult& result) {
  const size_t num_logits = want_logits ? static_cast<size_t>(count) * static_cast<size_t>(config_.vocab) : 0;
  const auto* results = pinned_results_.as<SampleResult>();
  const auto* logits = pinned_logits_.as<float>();
  check(cudaMemcpyAsync(pinned_results_.as<void>(), work_.results + first,
                        static_cast<size_t>(count) * sizeof(SampleResult), cudaMemcpyDeviceToHost, stream_),
        "copying tokens");
  if (want_logits)
    check(cudaMemcpyAsync(pinned_logits_.as<void>(), work_.logits, num_logits * sizeof(float),
                          cudaMemcpyDeviceToHost, stream_),
          "copying logits");
  stream_.wait();
  for (int i = 0; i < count; ++i) result.outputs.push_back(to_sampled(results[i]));
  result.logits.insert(result.logits.end(), logits, logits + num_logits);
}

StepResult CudaBackend::step(const Batch& batch) {
  StepResult result;
  const StepShape shape = upload_input(batch);
  if (shape.num_tokens == 0) return result;
  if (shape.is_decode()) {
    launch_graph(shape);
    download_outputs(batch.want_logits, 0, shape.num_outputs, result);
    return result;
  }
  ++num_steps_without_graph_;
  run_layers(shape);
  for (int first = 0; first < shape.num_outputs; first += kOutputRows) {
    const int count = std::min(kOutputRows, shape.num_outputs - first);
    run_outputs(shape, first, count);
    download_outputs(batch.want_logits, first, count, result);
  }
  stream_.wait();
  return result;
}

std::vector<TimedWork> CudaBackend::profile(const Batch& batch) {
  Recorder recorder;
  const StepShape shape = upload_input(batch);
  if (shape.num_tokens == 0) return {};
  recorder.clear(stream_);
  stream_.record(&recorder);
  if (shape.is_decode()) {
    const cudaGraphExec_t graph = make_graph(shape);
    stream_.record(nullptr);
    check(cudaGraphLaunch(graph, stream_), "launching a step");
    stream_.wait();
    cudaGraphExecDestroy(graph);
  } else {
    run_layers(shape);
    for (int first = 0; first < shape.num_outputs; first += kOutputRows)
      run_outputs(shape, first, std::min(kOutputRows, shape.num_outputs - first));
    stream_.record(nullptr);
    stream_.wait();
  }
  return recorder.read();
}

std::vector<KernelChoice> CudaBackend::kernels() const {
  const auto format_of = [](const Strips& strips) {
    return strips.layout == Layout::kBf16   ? Format::kBf16
           : strips.layout == Layout::kE4m3 ? Format::kE4m3
                                            : Format::kMxfp4;
  };
  const DeviceLayer& layer = weights_.layers.front();
  std::vector<KernelChoice> choices;
  const auto add = [&](Operation operation, Format weights) {
    for (const KernelChoice& choice : choose_kernels(operation, weights)) choices.push_back(choice);
  };
  add(Operation::kEmbed, Format::kBf16);
  add(Operation::kRmsNorm, Format::kF32);
  add(Operation::kQkv, format_of(layer.qkv));
  add(Operation::kAppend, options_.kv_format);
  add(Operation::kAttend, options_.kv_format);
  add(Operation::kProject, format_of(layer.o));
  add(Operation::kRoute, format_of(layer.router));
  add(Operation::kExpertsUp, format_of(layer.up));
  add(Operation::kExpertsDown, format_of(layer.down));
  add(Operation::kUnembed, format_of(weights_.unembedding));
  add(Operation::kSample, Format::kF32);
  return choices;
}

void check_shapes(const Weights& weights) {
  const Config& c = weights.config;
  const auto refuse = [&](const std::string& what) {
    throw InputError("{}: {}: the CUDA backend has no kernel for that; try --backend cpu", weights.source,
                     what);
  };
  if (c.max_context > kMaxChunks * kChunkPages * kPagePositions)
    refuse(fmt::format("a context of {} (up to {} are taken)", c.max_context,
                       kMaxChunks * kChunkPages * kPagePositions));
  if (c.head_dim != 64) refuse(fmt::format("head_dim {} (64 is taken)", c.head_dim));
  if (c.hidden % 32 || c.hidden > 4096)
    refuse(fmt::format("hidden {} (multiples of 32 up to 4096 are taken)", c.hidden));
  if (c.intermediate % 32) refuse(fmt::format("intermediate {} (multiples of 32 are taken)", c.intermediate));
  if (c.num_heads / c.num_kv_heads > kMaxGroupHeads)
    refuse(fmt::format("{} query heads of a key/value head (up to {} are taken)",
                       c.num_heads / c.num_kv_heads, kMaxGroupHeads));
  if (c.num_experts > kMaxExperts)
    refuse(fmt::format("{} experts (up to {} are taken)", c.num_experts, kMaxExperts));
  if (!has_route_up(router_strips(c), make_strips(Layout::kMxfp4, 2 * c.intermediate, c.hidden),
                    c.experts_per_token))
    refuse(fmt::format("{} experts of {} units, {} for a token, in a hidden {}", c.num_experts,
                       c.intermediate, c.experts_per_token, c.hidden));
  if (c.vocab > kMaxVocab) refuse(fmt::format("a vocabulary of {} (up to {} are taken)", c.vocab, kMaxVocab));
  if (c.experts_per_token > kMaxExpertsPerToken)
    refuse(
        fmt::format("{} experts for a token (up to {} are taken)", c.experts_per_token, kMaxExpertsPerToken));
}

// Shared memory of the largest kernel's CTA: ring, 8 rows of the widest input, sums.
constexpr size_t kSharedBytes{size_t{220} << 10};

void check_device() {
  const std::string missing = why_not();
  if (!missing.empty()) throw InputError("--backend cuda: {}", missing);
  const DeviceInfo& device = device_info();
  if (device.max_shared_bytes < kSharedBytes)
    throw InputError(
        "--backend cuda: {} has {} KB of shared memory per CTA and its kernels need {} for now: an H100 "
        "or H200 "
        "has that; try --backend cpu",
        device.name, device.max_shared_bytes >> 10, kSharedBytes >> 10);
}

double gigabytes(size_t bytes) { return static_cast<double>(bytes) / 1e9; }

void check_memory(const Weights& weights, const BackendOptions& options) {
  const MemoryPlan needed = plan(weights.config, options);
  const size_t total = needed.weight_bytes + needed.kv_bytes + needed.workspace_bytes + kStagingBytes;
  const size_t free = free_device_bytes();
  if (total <= free) return;
  throw InputError(
      "{} needs {:.1f} GB on the GPU (weights {:.1f}, KV cache {:.1f}, workspace {:.1f}, {:.1f} while "
      "loading) and {:.1f} "
      "are free: {}",
      weights.source, gigabytes(total), gigabytes(needed.weight_bytes), gigabytes(needed.kv_bytes),
      gigabytes(needed.workspace_bytes), gigabytes(kStagingBytes), gigabytes(free),
      needed.weight_bytes + kStagingBytes > free
          ? "--mxfp4-layers all makes the weights smaller"
          : "a smaller --context, --max-batch-tokens or --max-sequences takes less");
}

}  // namespace

std::string why_not() { return why_no_device(); }

double read_bandwidth() {
  constexpr size_t kBytes{size_t{2} << 30};
  constexpr int kPasses{10};
  const OwnedStream stream;
  const DeviceBuffer bytes(kBytes), sum(sizeof(uint32_t));
  check(cudaMemsetAsync(bytes.as<void>(), 1, kBytes, stream), "measuring its memory");
  cudaEvent_t start = nullptr, end = nullptr;
  check(cudaEventCreate(&start), "making an event");
  check(cudaEventCreate(&end), "making an event");
  float best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    check(cudaEventRecord(start, stream), "measuring its memory");
    read_all(stream, {bytes.as<uint4>(), kBytes / sizeof(uint4), sum.as<uint32_t>()});
    check(cudaEventRecord(end, stream), "measuring its memory");
    stream.wait();
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, start, end), "measuring its memory");
    best = pass == 0 ? milliseconds : std::min(best, milliseconds);
  }
  cudaEventDestroy(start);
  cudaEventDestroy(end);
  return static_cast<double>(kBytes) / best * 1e3;
}

MemoryPlan plan(const Config& config, const BackendOptions& options) {
  MemoryPlan plan;
  plan.weight_bytes = device_weight_bytes(config, options.dense);
  for (const LayerKind kind : config.layer_kinds) plan.kv_bytes += kv_layer_bytes(config, options, kind);
  Workspace workspace;
  plan.workspace_bytes = place(config, options, nullptr, workspace);
  return plan;
}

std::unique_ptr<Backend> make(std::shared_ptr<const Weights> weights, const BackendOptions& options,
                              const CudaOptions& own) {
  check_device();
  check_images(device_info().name, device_info().compute_capability, images(), own.may_compile);
  check_shapes(*weights);
  check_memory(*weights, options);
  return std::make_unique<CudaBackend>(std::move(weights), options);
}

}  // namespace nibble::cuda
