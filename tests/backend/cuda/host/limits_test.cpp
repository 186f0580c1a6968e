// Tests which options are refused, and which values the error messages suggest. Needs no GPU.
#include "backend/cuda/limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cuda/layout/layout_of.h"
#include "backend/cuda/memory/device_weights.h"
#include "backend/cuda/memory/uploader.h"
#include "backend/cuda/memory/workspace.h"
#include "tests/error_of.h"

namespace nibble::cuda {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr size_t kGigabyte{1'000'000'000};

std::string why_not_on(const char* gpu, const Config& config, const CudaOptions& own = {}) {
  const DeviceCaps caps = known_gpu(gpu);
  return why_not_budget(Plan(config, {}, target_of(caps, own), "a model"), config, caps);
}

TEST(CudaLimits, EveryKnownGpuHasSharedMemoryEnoughForBothModels) {
  for (const std::string& gpu : known_gpu_names())
    for (const char* model : {"gpt-oss-20b", "gpt-oss-120b"})
      EXPECT_THAT(why_not_on(gpu.c_str(), *named_config(model)), IsEmpty()) << gpu;
}

// With 4,096 columns, the activations of 8 tokens do not fit next to the rings in 99 KB.
Config wide_model() {
  Config config = *named_config("gpt-oss-20b");
  config.hidden = 4096;
  return config;
}

TEST(CudaLimits, AGpuWithTooLittleSharedMemoryIsRefusedAndSaysWhatWouldDo) {
  EXPECT_THAT(why_not_on("h200", wide_model()), IsEmpty());
  EXPECT_THAT(why_not_on("gb10", wide_model()),
              AllOf(HasSubstr(known_gpu("gb10").name), HasSubstr("has 99 KB of shared memory"),
                    HasSubstr("an H100 or H200 has that"), HasSubstr("try --backend cpu")));
}

TEST(CudaLimits, AForcedBudgetIsRefusedByItsFlag) {
  EXPECT_THAT(why_not_on("h200", wide_model(), {.shared_budget = 99}),
              AllOf(HasSubstr("--shared-budget 99"), Not(HasSubstr("H200"))));
  EXPECT_THAT(why_not_on("h200", wide_model(), {.shared_budget = 227}), IsEmpty());
}

TEST(CudaLimits, GpusThatAreAloneInTheirMachinesShareNoModel) {
  EXPECT_THAT(why_not_ranks(known_gpu("gb10"), 2),
              AllOf(HasSubstr(known_gpu("gb10").name), HasSubstr("between machines")));
  EXPECT_THAT(why_not_ranks(known_gpu("gb10"), 1), IsEmpty());
  EXPECT_THAT(why_not_ranks(known_gpu("h200"), 8), IsEmpty());
}

TEST(CudaLimits, ShapesWithoutAKernelAreNamed) {
  const Config good = *named_config("gpt-oss-20b");
  const auto refusal = [&](auto change) {
    Config config = good;
    change(config);
    return error_of([&] { check_shapes(config, "a model"); });
  };
  EXPECT_EQ(refusal([](Config&) {}), "accepted");
  EXPECT_THAT(refusal([](Config& c) { c.head_dim = 128; }),
              AllOf(HasSubstr("a model"), HasSubstr("head_dim 128")));
  EXPECT_THAT(refusal([](Config& c) { c.hidden = 4128; }), HasSubstr("hidden 4128"));
  EXPECT_THAT(refusal([](Config& c) { c.num_experts = 256; }), HasSubstr("256 experts"));
  EXPECT_THAT(refusal([](Config& c) { c.max_context = 1 << 20; }), HasSubstr("131072"));
}

BackendOptions room_for(int num_tokens) {
  BackendOptions options;
  options.num_pages = num_tokens / kPagePositions;
  return options;
}
std::string memory_refusal(const char* model, const BackendOptions& options, size_t free) {
  return why_not_memory(*named_config(model), model, options, {}, {free});
}

// The context that the message suggests is accepted, but one more page is not.
TEST(CudaLimits, AContextThatDoesNotFitIsAnsweredWithTheOneThatDoes) {
  const Config config = *named_config("gpt-oss-20b");
  const size_t free = 16 * kGigabyte;
  const std::string refusal = memory_refusal("gpt-oss-20b", room_for(131072), free);
  EXPECT_THAT(refusal,
              AllOf(HasSubstr("gpt-oss-20b needs"), HasSubstr("16.0 are free"),
                    HasSubstr("131072 are requested"), HasSubstr("--context"), HasSubstr("--kv-dtype fp8")));
  const std::string before = "next to the weights ";
  const int num_tokens = std::stoi(refusal.substr(refusal.find(before) + before.size()));
  EXPECT_GT(num_tokens, 10'000);
  EXPECT_THAT(memory_refusal("gpt-oss-20b", room_for(num_tokens), free), IsEmpty());
  EXPECT_THAT(memory_refusal("gpt-oss-20b", room_for(num_tokens + kPagePositions), free), Not(IsEmpty()));
}

TEST(CudaLimits, WeightsThatDoNotFitAreAnsweredWithSmallerOnesIfThoseDo) {
  const Config config = *named_config("gpt-oss-20b");
  const size_t smallest =
      device_weight_bytes(config, whole_of(config), {Format::kMxfp4, Format::kMxfp4, Format::kMxfp4}) +
      kStagingBytes;
  EXPECT_THAT(memory_refusal("gpt-oss-20b", room_for(4096), smallest + kGigabyte / 2),
              HasSubstr("--mxfp4-layers all"));
  EXPECT_THAT(memory_refusal("gpt-oss-120b", room_for(4096), 24 * kGigabyte),
              AllOf(HasSubstr("24.0 are free"), HasSubstr("fit in no format"), HasSubstr("--backend cpu")));
}

TEST(CudaLimits, APlanCountsWhatIsTaken) {
  const Config config = *named_config("gpt-oss-20b");
  const BackendOptions options = room_for(8192);
  const MemoryPlan plan = memory_plan(config, options, {});
  // A page holds the keys and values of 32 positions in bfloat16, 8 heads of 64 each, either for the twelve
  // full layers or for the twelve sliding layers. There is one spare page.
  EXPECT_EQ(plan.kv_bytes, size_t{12} * (8192 + 32) * 2 * 8 * 64 * 2);
  EXPECT_EQ(plan.workspace_bytes, workspace_bytes(config, options, {}));
  EXPECT_GT(plan.weight_bytes, 12 * kGigabyte);
}

// Each of two GPUs has half of everything except the router, the embedding and the workspace of a step. If
// the model is in four parts, the GPU with one part has less than the GPU with three.
TEST(CudaLimits, APlanForSeveralGpusIsThatOfTheFullest) {
  const Config config = *named_config("gpt-oss-120b");
  const BackendOptions options = room_for(8192);
  const MemoryPlan whole = memory_plan(config, options, {}),
                   half = memory_plan(config, options, {.parts = {1, 1}}),
                   large = memory_plan(config, options, {.parts = {3, 1}}),
                   small = memory_plan(config, options, {.parts = {3, 1}}, 1),
                   both = memory_plan(config, options, {.gpus = {0, 0}, .parts = {3, 1}});
  EXPECT_EQ(2 * half.kv_bytes, whole.kv_bytes);
  EXPECT_GT(2 * half.weight_bytes, whole.weight_bytes + size_t{2} * 201088 * 2880);
  EXPECT_LT(static_cast<double>(half.weight_bytes), 0.53 * static_cast<double>(whole.weight_bytes));
  EXPECT_GT(large.weight_bytes, 2 * small.weight_bytes);
  EXPECT_EQ(4 * small.kv_bytes, whole.kv_bytes);
  EXPECT_EQ(both.weight_bytes, large.weight_bytes + small.weight_bytes);
  EXPECT_EQ(both.kv_bytes, whole.kv_bytes);
  EXPECT_THAT(why_not_memory(config, "a model", options, {.parts = {3, 1}}, {30 * kGigabyte}),
              Not(IsEmpty()));
  EXPECT_THAT(why_not_memory(config, "a model", options, {.parts = {3, 1}}, {30 * kGigabyte, 1}), IsEmpty());
}

// With whole experts, two GPUs have 64 of 128 experts each. Split by columns, they have 23 and 22 of 45
// tiles. Dense weights are divided equally in both cases.
TEST(CudaLimits, APlanOfWholeExpertsCountsTheRanksOwn) {
  const Config config = *named_config("gpt-oss-120b");
  const BackendOptions options = room_for(8192);
  const auto weights_of = [&](const CudaOptions& own, int device) {
    return static_cast<double>(memory_plan(config, options, own, device).weight_bytes);
  };
  const CudaOptions whole{.parts = {1, 1}, .have_whole_experts = true}, parts{.parts = {1, 1}};
  const double expert = 36 * (3.0 * 2880 * 2880 * 17 / 32 + 4.0 * 3 * 2880);
  EXPECT_NEAR(weights_of(whole, 0), weights_of(whole, 1), 0.001 * weights_of(whole, 0));
  EXPECT_NEAR(weights_of(parts, 0) - weights_of(whole, 0), (23 / 45.0 - 0.5) * 128 * expert,
              0.01 * 64 * expert);
  const CudaOptions uneven{.parts = {3, 1}, .have_whole_experts = true};
  const double dense = 2.0 * 2880 * (36 * (5120 + 4096) + 201088);
  EXPECT_NEAR(weights_of(uneven, 0) - weights_of(uneven, 1), 64 * expert + dense / 2, 0.01 * expert);
}

// A rank with sequences of its own has all of qkv and o. Its KV cache has all heads, and the same number of
// pages as the cache of a single GPU.
TEST(CudaLimits, APlanOfOwnSequencesCountsAllOfAttention) {
  const Config config = *named_config("gpt-oss-120b");
  BackendOptions options = room_for(8192);
  const CudaOptions heads{.parts = {1, 1}}, sequences{.parts = {1, 1}, .have_own_sequences = true};
  const MemoryPlan of_heads = memory_plan(config, options, heads, 1),
                   of_sequences = memory_plan(config, options, sequences, 1);
  EXPECT_EQ(of_sequences.kv_bytes, memory_plan(config, options, {}).kv_bytes);
  EXPECT_EQ(of_sequences.kv_bytes, 2 * of_heads.kv_bytes);
  const double attention = 2.0 * 2880 * 36 * (5120 + 4096);
  EXPECT_NEAR(static_cast<double>(of_sequences.weight_bytes - of_heads.weight_bytes), attention / 2,
              0.01 * attention);
}

TEST(CudaLimits, EachGpuThatSharesTheModelHasAPlan) {
  const Config config = *named_config("gpt-oss-120b");
  const BackendOptions options = room_for(8192);
  const auto plans = memory_plans(config, options, {.gpus = {4, 2, 4, 2}, .parts = {5, 1, 1, 1}});
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_EQ(plans[0].device, 4);  // plans are in the order of ranks
  EXPECT_EQ(plans[1].device, 2);
  EXPECT_EQ(plans[0].plan.kv_bytes, 3 * plans[1].plan.kv_bytes);
  EXPECT_EQ(plans[0].plan.kv_bytes + plans[1].plan.kv_bytes, memory_plan(config, options, {}).kv_bytes);
  EXPECT_EQ(memory_plans(config, options, {.parts = {3, 1}})[1].device, 1);
}

// Norms and gated units have 2,880 columns, 45 tiles: one word of scales per tile, and codes of 1, 2 or half
// a byte per column.
TEST(CudaLimits, BlockScaledActivationsTakeMemoryWhenRequested) {
  const Config config = *named_config("gpt-oss-20b");
  BackendOptions options = room_for(8192);
  options.max_batch_tokens = 512;
  const size_t rows = 512 * (1 + 4), without = workspace_bytes(config, options, {});
  const auto more = [&](BlockFormat format) {
    return workspace_bytes(config, options, {.prompt_activations = format}) - without;
  };
  EXPECT_EQ(more(BlockFormat::kMxfp8x2), rows * 45 * (128 + 4));
  EXPECT_EQ(more(BlockFormat::kMxfp8), rows * 45 * (64 + 4));
  EXPECT_EQ(more(BlockFormat::kMxfp4), rows * 45 * (32 + 4));
  EXPECT_EQ(memory_plan(config, options, {.prompt_activations = BlockFormat::kMxfp8}).workspace_bytes,
            without + more(BlockFormat::kMxfp8));
}

// project_blocks() quantises its input, 4,096 columns (64 tiles) per row, in attention's scratch memory,
// which has 64 MB. In the format with two terms, more than 7,943 rows need more memory than that.
TEST(CudaLimits, AttentionsOutputIsQuantisedInMemoryOfAttention) {
  const Config config = *named_config("gpt-oss-20b");
  BackendOptions options = room_for(8192);
  const auto bytes = [&](Format output, int max_batch_tokens) {
    options.dense.attention_output = output;
    options.max_batch_tokens = max_batch_tokens;
    return workspace_bytes(config, options, {.prompt_activations = BlockFormat::kMxfp8x2});
  };
  EXPECT_EQ(bytes(Format::kMxfp4, 4096), bytes(Format::kBf16, 4096));
  EXPECT_EQ(bytes(Format::kMxfp4, 8192) - bytes(Format::kBf16, 8192),
            size_t{8192} * 64 * (128 + 4) - (size_t{64} << 20));
}

// Returns a head with the sizes in the public files: an MLP width of 17,280, 64 heads, a vocabulary of 32,000
// tokens, and the model's embedding.
DraftHead public_head() {
  DraftHead head;
  head.config = {.hidden = 2880,
                 .vocab = 201088,
                 .draft_vocab = 32000,
                 .intermediate = 17280,
                 .num_heads = 64,
                 .num_kv_heads = 8,
                 .head_dim = 64,
                 .taps = {1, 17, 33}};
  static const float element{0};
  head.unembedding = {32000, 2880, Elements{.format = Format::kBf16, .data = &element}};
  head.embedding = {201088, 2880, {}};
  head.source = "a head";
  return head;
}

TEST(CudaLimits, APlanCountsADraftHead) {
  const Config config = *named_config("gpt-oss-120b");
  BackendOptions options = room_for(8192);
  const MemoryPlan without = memory_plan(config, options, {});
  options.draft_head = std::make_shared<const DraftHead>(public_head());
  const MemoryPlan with = memory_plan(config, options, {});
  // A tile (64 columns, 16 rows) has 544 bytes in MXFP4 and 2,048 in BF16. The terms are fc, qkv, o, gate and
  // up, down, lm_head.
  const size_t num_tiles = 180 * 135 + 320 * 90 + 180 * 64 + 2 * 1080 * 45 + 180 * 270 + size_t{2000} * 45;
  const auto weights = [&](Format format) {
    options.draft_head_format = format;
    return memory_plan(config, options, {}).weight_bytes - without.weight_bytes;
  };
  constexpr size_t kVectors{4 * 2880 * 4 + 32000 * 4}, kAlignments{12 * 256};
  EXPECT_NEAR(static_cast<double>(weights(Format::kMxfp4)), static_cast<double>(num_tiles * 544 + kVectors),
              kAlignments);
  EXPECT_NEAR(static_cast<double>(weights(Format::kBf16)), static_cast<double>(num_tiles * 2048 + kVectors),
              kAlignments);
  // The head's cache has one page for each page of a full layer, a spare page, and one page for each chain.
  EXPECT_EQ(with.kv_bytes - without.kv_bytes, size_t{8192 / 32 + 1 + 64} * 32 * 2 * 8 * 64 * 2);
  EXPECT_GT(with.workspace_bytes,
            without.workspace_bytes + size_t{3} * 2880 * 2 * static_cast<size_t>(options.max_batch_tokens));
}

// A head without an unembedding uses the model's, if the device has the model's in the same format.
TEST(CudaLimits, AHeadSharesTheModelsUnembeddingInItsFormat) {
  DraftHead head = public_head();
  head.config.draft_vocab = 201088;
  head.unembedding = {201088, 2880, {}};
  const Config config = *named_config("gpt-oss-120b");
  BackendOptions options = room_for(8192);
  options.draft_head = std::make_shared<const DraftHead>(head);
  const auto bytes_of_head = [&](Format of_model, Format of_head) {
    options.dense.unembedding = of_model;
    options.draft_head_format = of_head;
    return memory_plan(config, options, {}).weight_bytes -
           device_weight_bytes(config, whole_of(config), options.dense);
  };
  const auto own = [](Format format) { return make_strips(layout_of(format), 201088, 2880).matrix_bytes(); };
  for (const Format format : {Format::kBf16, Format::kMxfp4}) {
    const Format other = format == Format::kBf16 ? Format::kMxfp4 : Format::kBf16;
    EXPECT_EQ(bytes_of_head(format, format) + own(format), bytes_of_head(other, format));
  }
}

TEST(CudaLimits, AHeadWithoutAKernelIsRefused) {
  const auto refusal = [](const char* gpu, Format format, auto change) {
    DraftHead head = public_head();
    change(head.config);
    BackendOptions options;
    options.draft_head = std::make_shared<const DraftHead>(head);
    options.draft_head_format = format;
    return error_of([&] { check_draft_head(options, target_of(known_gpu(gpu), {})); });
  };
  const auto as_it_is = [](DraftHeadConfig&) {};
  for (const std::string& gpu : known_gpu_names())
    for (const Format format : {Format::kMxfp4, Format::kBf16})
      EXPECT_EQ(refusal(gpu.c_str(), format, as_it_is), "accepted") << gpu;
  EXPECT_THAT(refusal("h200", Format::kMxfp4, [](DraftHeadConfig& c) { c.head_dim = 128; }),
              AllOf(HasSubstr("a head: head_dim 128"), HasSubstr("try --backend cpu")));
  EXPECT_THAT(refusal("h200", Format::kMxfp4, [](DraftHeadConfig& c) { c.num_kv_heads = 4; }),
              HasSubstr("16 query heads per key/value head"));
  EXPECT_THAT(refusal("h200", Format::kMxfp4, [](DraftHeadConfig& c) { c.intermediate = 100; }),
              HasSubstr("intermediate 100"));
  EXPECT_THAT(refusal("gb10", Format::kMxfp4, [](DraftHeadConfig& c) { c.intermediate = 32 * 1024; }),
              HasSubstr("a row of 32768 numbers needs"));
}

}  // namespace
}  // namespace nibble::cuda
