// Tests the launches of a step: kernels, grids and arguments, on every family of GPUs, with one rank and with
// two, for the numbers of tokens before and after each change of kernels. No kernel runs. launches/hashes.txt
// has a hash of each step's list of launches, and the other files of that folder have some of the lists. A
// change of code that must not change steps must not change these files.
//
// NIBBLE_LAUNCHES=FOLDER writes the current files to FOLDER, and every list to all.txt there.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "backend/cuda/attention/args.h"
#include "backend/cuda/dense/launch.h"
#include "backend/cuda/experts/launch.h"
#include "backend/cuda/forward.h"
#include "backend/cuda/layout/activations.h"
#include "backend/cuda/layout/layout_of.h"
#include "backend/cuda/prepare.h"
#include "model/shares/share.h"
#include "tests/backend/cuda/emulated/kernel_names.h"
#include "tests/backend/cuda/emulated/launch_text.h"
#include "tests/folders.h"

namespace nibble::cuda {
namespace {

using emulated::NamedArrays;

constexpr int kMostTokens{2048};
constexpr int kNumTokens[]{1,  2,  3,  4,   5,   7,   8,   9,   15,  16,  17,   31,   32,   33,
                           63, 64, 65, 128, 129, 130, 255, 256, 257, 512, 1023, 1024, 1025, 2048};

enum class Split { kNone, kUnits, kExperts, kSequences, kNccl };
struct Case {
  std::string name, gpu;
  std::string model{"gpt-oss-20b"};
  DenseFormats dense{};
  Format kv{Format::kBf16};
  Split split{Split::kNone};
  std::optional<BlockFormat> prompt_activations{};
  std::optional<int> shared_budget{}, num_multiprocessors{};
};

std::vector<Case> cases() {
  constexpr DenseFormats kFp8{Format::kE4m3, Format::kE4m3, Format::kE4m3},
      kMxfp4{Format::kMxfp4, Format::kMxfp4, Format::kMxfp4};
  std::vector<Case> cases;
  for (const Family family : kFamilies) {
    const std::string gpu = name(family);
    cases.push_back({gpu, gpu});
    cases.push_back({.name = gpu + "/two-ranks", .gpu = gpu, .split = Split::kUnits});
  }
  for (const char* gpu : {"sm_90", "sm_120"}) {
    const auto named = [&](const char* what) { return fmt::format("{}/{}", gpu, what); };
    cases.push_back({.name = named("fp8"), .gpu = gpu, .dense = kFp8, .kv = Format::kE4m3});
    cases.push_back({.name = named("mxfp4"), .gpu = gpu, .dense = kMxfp4});
    cases.push_back({.name = named("120b"), .gpu = gpu, .model = "gpt-oss-120b"});
    cases.push_back({.name = named("whole-experts"), .gpu = gpu, .split = Split::kExperts});
    cases.push_back({.name = named("own-sequences"), .gpu = gpu, .split = Split::kSequences});
    cases.push_back({.name = named("nccl"), .gpu = gpu, .split = Split::kNccl});
    cases.push_back({.name = named("mxfp8"), .gpu = gpu, .prompt_activations = BlockFormat::kMxfp8});
  }
  cases.push_back({.name = "sm_120/mxfp8x2/two-ranks",
                   .gpu = "sm_120",
                   .split = Split::kUnits,
                   .prompt_activations = BlockFormat::kMxfp8x2});
  for (const char* gpu : {"sm_90", "sm_120", "sm_121"})
    cases.push_back({.name = fmt::format("{}/mxfp4/mxfp8", gpu),
                     .gpu = gpu,
                     .dense = kMxfp4,
                     .prompt_activations = BlockFormat::kMxfp8});
  cases.push_back({.name = "sm_120/mxfp4/mxfp4/own-sequences",
                   .gpu = "sm_120",
                   .dense = kMxfp4,
                   .split = Split::kSequences,
                   .prompt_activations = BlockFormat::kMxfp4});
  cases.push_back({.name = "sm_90/99-kb", .gpu = "sm_90", .shared_budget = 99});
  cases.push_back({.name = "sm_90/163-kb", .gpu = "sm_90", .shared_budget = 163});
  return cases;
}

// Kinds of steps of T tokens: one token for each of T sequences, with 1, 4 or 64 chunks of attention; trees
// of drafts; a prompt; a prompt together with tokens of other sequences.
enum class Kind { kDecode1, kDecode4, kDecode64, kTrees, kPrompt, kMixed };
constexpr std::pair<Kind, const char*> kKinds[]{{Kind::kDecode1, "decode-1"},   {Kind::kDecode4, "decode-4"},
                                                {Kind::kDecode64, "decode-64"}, {Kind::kTrees, "trees"},
                                                {Kind::kPrompt, "prompt"},      {Kind::kMixed, "mixed"}};

StepShape shape_of(Kind kind, int num_tokens, bool has_own_sequences) {
  StepShape shape;
  shape.num_tokens = num_tokens;
  if (has_own_sequences) shape.num_own_rows = std::max(num_tokens / 2, kLeastOwnRows);
  const int rows = shape.num_attention_rows();
  shape.full_chunks = kind == Kind::kDecode64 ? 64 : kind == Kind::kDecode1 || kind == Kind::kPrompt ? 1 : 4;
  shape.have_trees = kind == Kind::kTrees;
  shape.are_greedy = kind != Kind::kMixed;
  const bool is_long = rows >= kMinTiledRows && (kind == Kind::kPrompt || kind == Kind::kMixed);
  shape.num_single_rows = !is_long ? rows : kind == Kind::kMixed ? std::min(8, rows - kMinTiledRows) : 0;
  shape.num_tiles = (rows - shape.num_single_rows + kTileRows - 1) / kTileRows;
  shape.any_tiles = shape.num_tiles > 0;
  shape.num_outputs = is_long ? shape.num_single_rows + 1 : kind == Kind::kPrompt ? 1 : num_tokens;
  shape.writes_kv = !is_long && !shape.have_trees && (kind != Kind::kPrompt || rows == 1);
  return shape;
}

// A model and its workspace, at made-up addresses: no kernel runs, so no memory is needed.
struct Setup {
  explicit Setup(const Case& of)
      : share(share_of(of)),
        config(config_of(whole_config(of), share)),
        options(options_of(of)),
        plan(config, options,
             target_of(known_gpu(of.gpu),
                       {.shared_budget = of.shared_budget, .num_multiprocessors = of.num_multiprocessors}),
             of.name, {of.prompt_activations}),
        kv(config, options, Stream{}) {
    place_weights(of);
    place_workspace(of);
    arrays.add("kv", kv.pages(0).data, kv_bytes(config, options));  // the two layers share their pages
  }

  static Config whole_config(const Case& of) {
    Config config = *named_config(of.model);
    config.num_layers = 2;  // one sliding layer, one full layer
    config.layer_kinds.resize(2);
    return config;
  }
  static Share share_of(const Case& of) {
    const Config whole = whole_config(of);
    if (of.split == Split::kNone) return whole_of(whole);
    const std::vector<int> parts{1, 1};
    return shares_of(whole, parts, of.name,
                     {.flag = "two ranks",
                      .experts = of.split == Split::kExperts ? ExpertSplit::kWhole : ExpertSplit::kUnits,
                      .attention = of.split == Split::kSequences ? AttentionSplit::kSequences
                                                                 : AttentionSplit::kHeads})[1];
  }
  static BackendOptions options_of(const Case& of) {
    BackendOptions options;
    options.num_pages = 2;
    options.max_batch_tokens = kMostTokens;
    options.dense = of.dense;
    options.kv_format = of.kv;
    return options;
  }
  template <typename T>
  void place(T*& pointer, const std::string& name) {
    pointer = arrays.take<T>(name);
  }
  Strips strips(const std::string& name, Strips strips) {
    strips.data = arrays.take<uint8_t>(name);
    if (strips.layout == Layout::kE4m3) strips.row_scales = arrays.take<float>(name + "_scales");
    return strips;
  }
  // Places weights as memory/device_weights.cpp does.
  void place_weights(const Case& of) {
    const int hidden = config.hidden, q = config.num_heads * config.head_dim,
              qkv = q + 2 * config.num_kv_heads * config.head_dim;
    place(weights.embedding, "embedding");
    for (const LayerKind kind : config.layer_kinds) {
      const std::string of_layer = fmt::format("_{}", weights.layers.size());
      DeviceLayer layer;
      layer.kind = kind;
      place(layer.attention_norm, "attention_norm" + of_layer);
      place(layer.qkv_bias, "qkv_bias" + of_layer);
      place(layer.sinks, "sinks" + of_layer);
      if (share.adds_o_bias()) place(layer.o_bias, "o_bias" + of_layer);
      place(layer.mlp_norm, "mlp_norm" + of_layer);
      place(layer.router_bias, "router_bias" + of_layer);
      place(layer.up_bias, "up_bias" + of_layer);
      place(layer.down_bias, "down_bias" + of_layer);
      layer.qkv = strips("qkv" + of_layer, make_strips(layout_of(of.dense.qkv), qkv, hidden));
      layer.o = strips("o" + of_layer, make_strips(layout_of(of.dense.attention_output), hidden, q));
      layer.router = strips("router" + of_layer, router_strips(config));
      layer.up = strips("up" + of_layer, make_strips(Layout::kMxfp4, 2 * config.intermediate, hidden));
      layer.down = strips("down" + of_layer, make_strips(Layout::kMxfp4, hidden, config.intermediate));
      weights.layers.push_back(layer);
    }
    place(weights.final_norm, "final_norm");
    weights.unembedding =
        strips("unembedding", make_strips(layout_of(of.dense.unembedding), share.vocab.count, hidden));
    weights.first_of_vocab = share.vocab.first;
  }
  // Places the workspace as memory/workspace.cpp does.
  void place_workspace(const Case& of) {
    const GroupRoom groups = group_room(config, kMostTokens, kernel_rows());
    const int image_rows = whole_eights(kMostTokens),
              image_pairs = whole_eights(kMostTokens * config.experts_per_token) + 8 * groups.num_groups;
    work.attended.image_rows = work.normed.image_rows = image_rows;
    work.gated.image_rows = image_pairs;
    place(work.x, "x");
    place(work.qkv_parts, "qkv_parts");
    work.gathered = Activations::image(reinterpret_cast<__nv_bfloat16*>(work.qkv_parts), image_pairs);
    place(work.attended.data, "attended");
    place(work.project_parts, "project_parts");
    place(work.normed.data, "normed");
    place(work.router_logits, "router_logits");
    place(work.pair_weights, "pair_weights");
    place(work.chosen, "chosen");
    place(work.rank, "rank");
    place(work.group_count, "group_count");
    place(work.group_expert, "group_expert");
    place(work.group_pairs_count, "group_pairs_count");
    place(work.group_image_row, "group_image_row");
    place(work.group_pairs, "group_pairs");
    place(work.gated.data, "gated");
    if (of.prompt_activations) {
      const auto place_rows = [&](BlockRows& rows, const std::string& name, int cols) {
        rows.format = *of.prompt_activations;
        rows.cols = cols;
        place(rows.codes, name + "_codes");
        place(rows.scales, name + "_scales");
      };
      place_rows(work.normed.blocks, "normed_blocks", config.hidden);
      place_rows(work.gated.blocks, "gated_blocks", config.intermediate);
    }
    place(work.experts_out, "experts_out");
    place(work.logits, "logits");
    place(work.best, "best");
    place(work.results, "results");
    place(work.attend_partials, "attend_partials");
    work.segment_sums = work.attend_partials;
    place(work.embed_ticket, "embed_ticket");
    place(work.route_ticket, "route_ticket");
    place(work.down_turns, "down_turns");
    place(work.sample_tickets, "sample_tickets");
    place(work.unembed_deals, "unembed_deals");
    place(work.attend_tickets, "attend_tickets");
    work.mailbox_partials = attend_mailbox_partials(config.num_kv_heads, config.max_context);
    place(work.attend_mailbox, "attend_mailbox");
    place(work.tile_totals, "tile_totals");
    place(work.routing_sums, "routing_sums");
    place(work.routing_experts, "routing_experts");
    place(work.step, "step");
    place(work.rope_frequencies, "rope_frequencies");
    place(work.input, "input");
    for (int turn : {0, 1}) {
      place(work.exchange.inputs[turn], fmt::format("exchange_input_{}", turn));
      place(work.exchange.outputs[turn], fmt::format("exchange_output_{}", turn));
      place(work.exchange.kept[turn], fmt::format("kept_{}", turn));
    }
  }

  Share share;
  Config config;
  BackendOptions options;
  Plan plan;
  KvStorage kv;
  NamedArrays arrays;
  DeviceWeights weights;
  Workspace work;
};

// Compares a launch with the shape in the recipe.
void expect_shape_of_recipe(const StepRecipe& recipe, const emulated::RecordedLaunch& launch) {
  const std::string kernel = emulated::kernel_name(launch.kernel);
  const dim3& grid = launch.config.gridDim;
  const auto has_shape = [&](const dim3& expected, const StreamShape& stream) {
    return grid.x == expected.x && grid.y == expected.y &&
           static_cast<int>(launch.config.blockDim.x) == stream.threads();
  };
  const auto is_dense = [&](const std::optional<DenseLaunch>& dense) {
    return dense && has_shape({dense->num_ctas, dense->num_passes, 1}, dense->stream) &&
           kernel.ends_with(fmt::format(", {}, {}>", dense->stream.of.warps, dense->stream.of.slots));
  };
  if (kernel.starts_with("qkv_kernel")) {
    EXPECT_TRUE(is_dense(recipe.qkv)) << kernel;
  } else if (kernel.starts_with("project_kernel")) {  // qkv_normed launches this kernel too
    EXPECT_TRUE(is_dense(recipe.qkv) || is_dense(recipe.project)) << kernel;
  } else if (kernel.starts_with("route_") || kernel.starts_with("experts_up_kernel")) {
    ASSERT_TRUE(recipe.experts_up) << kernel;
    EXPECT_TRUE(has_shape(recipe.experts_up->grid, recipe.experts_up->stream)) << kernel;
  } else if (kernel.starts_with("experts_down_kernel")) {
    ASSERT_TRUE(recipe.experts_down) << kernel;
    const ExpertsDownLaunch& down = *recipe.experts_down;
    EXPECT_TRUE(has_shape(down.grid, down.stream)) << kernel;
    EXPECT_EQ(kernel, fmt::format("experts_down_kernel<{}, {}, {}, {}>", down.stream.of.warps, down.is_single,
                                  !down.is_single || down.has_all, down.has_two));
  }
}

// Returns a line for each launch. If ranks share the model, also returns a line for the output of each half
// of a layer, which the ranks add up.
std::string launches_of(const Setup& setup, Split split, const StepShape& shape) {
  std::string lines;
  const bool is_shared = split != Split::kNone;
  const StepRecipe recipe = cuda::recipe(
      setup.plan, setup.config,
      Sharing{is_shared, is_shared && split != Split::kNccl, setup.share.has_own_sequences}, rows_of(shape));
  emulated::on_launch = [&](const emulated::RecordedLaunch& launch) {
    expect_shape_of_recipe(recipe, launch);
    lines += emulated::text_of(launch, setup.arrays) + "\n";
  };
  const Step step{{setup.config, setup.weights, setup.kv, setup.work.logits},
                  setup.plan,
                  recipe,
                  setup.work,
                  shape,
                  Stream{}};
  embed(step);
  for (int half = 0; half < num_halves(step.model); ++half) {
    run_half_layer(step, half, {});
    if (is_shared) lines += emulated::text_of(output_of_half(step, half), setup.arrays) + "\n";
  }
  for (int first = 0; first < shape.num_outputs; first += kOutputRows) {
    const int count = std::min(kOutputRows, shape.num_outputs - first);
    unembed(step, first, count);
    sample(step, first, count);
  }
  emulated::on_launch = nullptr;
  return lines;
}

// Computes the FNV-1a hash.
uint32_t hash_of(const std::string& text) {
  uint32_t hash = 2166136261;
  for (const char letter : text) hash = (hash ^ static_cast<uint8_t>(letter)) * 16777619;
  return hash;
}

// Names of steps, and the files that hold their lists of launches.
const std::map<std::string, std::string> kListed{
    {"sm_90 decode-4 1", "sm_90-decode-1.txt"},
    {"sm_90 decode-4 8", "sm_90-decode-8.txt"},
    {"sm_90/two-ranks decode-4 16", "sm_90-two-ranks-16.txt"},
    {"sm_90 prompt 1024", "sm_90-prompt-1024.txt"},
    {"sm_120/mxfp8 prompt 64", "sm_120-mxfp8-64.txt"},
    {"sm_120/mxfp4/mxfp8 prompt 64", "sm_120-mxfp4-mxfp8-64.txt"}};
constexpr const char* kFolder{"tests/backend/cuda/emulated/launches/"};

// Calls f(step, num_tokens, launches) for every step of a case.
template <typename F>
void for_each_step_of(const Case& each, const F& f) {
  const Setup setup(each);
  for (const auto& [kind, name] : kKinds) {
    // Ranks with sequences of their own take no trees (Backend::takes_trees).
    if (kind == Kind::kTrees && setup.share.has_own_sequences) continue;
    for (const int num_tokens : kNumTokens) {
      if (kind == Kind::kTrees && num_tokens == 1) continue;  // a single token makes no tree
      const StepShape shape = shape_of(kind, num_tokens, setup.share.has_own_sequences);
      f(fmt::format("{} {}", each.name, name), num_tokens, launches_of(setup, each.split, shape));
    }
  }
}

std::string read(const std::string& file) {
  std::ifstream stream(test::source_path(kFolder + file), std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(EmulatedSteps, LaunchTheSameKernelsWithTheSameArguments) {
  prepare_kernels();
  const char* const folder = std::getenv("NIBBLE_LAUNCHES");
  std::map<std::string, std::string> files;
  std::ofstream all;
  if (folder) all.open(fmt::format("{}/all.txt", folder), std::ios::binary);
  // hashes.txt has a line for each kind of step, with the hashes by number of tokens.
  const std::string expected = read("hashes.txt");
  std::string& hashes = files["hashes.txt"];
  std::string kind;
  int num_different = 0;
  const auto compare = [&](const std::string& step, int num_tokens, const std::string& launches) {
    const std::string name = fmt::format("{} {}", step, num_tokens);
    ASSERT_EQ(launches.find("unknown"), std::string::npos) << name << '\n' << launches;
    if (std::exchange(kind, step) != step) hashes += (hashes.empty() ? "" : "\n") + step;
    hashes += fmt::format(" {}:{:08x}", num_tokens, hash_of(launches));
    if (!expected.starts_with(hashes) && ++num_different == 1)
      ADD_FAILURE() << "from this step on the launches differ: " << name << '\n' << launches;
    if (const auto listed = kListed.find(name); listed != kListed.end()) files[listed->second] = launches;
    if (all.is_open()) all << "== " << name << '\n' << launches;
  };
  for (const Case& each : cases()) for_each_step_of(each, compare);
  hashes += '\n';
  EXPECT_EQ(files.size(), kListed.size() + 1);
  for (const auto& [file, text] : files) {
    EXPECT_TRUE(read(file) == text) << file << " differs";
    if (folder) std::ofstream(fmt::format("{}/{}", folder, file), std::ios::binary) << text;
  }
}

// Returns the launches of every step of a case, by kind of step and number of tokens.
std::map<std::string, std::string> launches_of(const Case& of) {
  std::map<std::string, std::string> found;
  for_each_step_of(of, [&](const std::string& step, int num_tokens, const std::string& launches) {
    found[fmt::format("{} {}", step, num_tokens)] = launches;
  });
  return found;
}

// A Hopper GPU that is limited to the resources of a GB10 must launch the same grids, shared memory and
// arguments as a GB10. Then kernels for a GB10 can be tried on it.
TEST(EmulatedSteps, OfAHopperGpuWithTheLimitsOfAGb10LaunchWhatAGb10Launches) {
  prepare_kernels();
  constexpr Format kFormats[]{Format::kBf16, Format::kE4m3, Format::kMxfp4};
  for (const Format dense : kFormats)
    for (const Format kv : {Format::kBf16, Format::kE4m3})
      for (const std::optional<BlockFormat> activations :
           {std::optional<BlockFormat>{}, std::optional(BlockFormat::kMxfp8x2)}) {
        Case gb10{.name = std::string(nibble::name(dense)), .gpu = "gb10", .model = "gpt-oss-120b"};
        gb10.dense = {dense, dense, dense};
        gb10.kv = kv;
        gb10.prompt_activations = activations;
        Case limited = gb10;
        limited.gpu = "h200";
        limited.shared_budget = 99;
        limited.num_multiprocessors = 48;
        const auto expected = launches_of(gb10), found = launches_of(limited);
        ASSERT_EQ(found.size(), expected.size());
        for (const auto& [step, launches] : expected) ASSERT_EQ(found.at(step), launches) << step;
      }
}

}  // namespace
}  // namespace nibble::cuda
