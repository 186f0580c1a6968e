// Tests properties that any prediction must have. tools/predict_records compares predictions with
// measurements, and tests/e2e/test_cli.py limits their errors. Needs no GPU.
#include "backend/cuda/predict/predict.h"
#include "backend/cuda/chip/caps.h"
#include "backend/cuda/pipeline/row_limits.h"
#include "backend/cuda/predict/batch_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "tests/error_of.h"

namespace nibble::cuda {
namespace {

using testing::AllOf;
using testing::HasSubstr;

StorageFormats stored_as(Format dense, Format kv = Format::kBf16) {
  StorageFormats formats;
  formats.qkv = formats.attention_output = formats.unembedding = dense;
  formats.kv = kv;
  return formats;
}

std::vector<PredictedTime> predicted_for(std::string_view gpu, const PredictedStep& step,
                                         const StorageFormats& formats = {}, const CudaOptions& own = {},
                                         const char* model = "gpt-oss-120b") {
  return predict_on(gpu, *named_config(model), formats, own, step).operations;
}

double time_on(std::string_view gpu, const PredictedStep& step, const StorageFormats& formats = {},
               const CudaOptions& own = {}) {
  return total_of(predicted_for(gpu, step, formats, own));
}

PredictedTime operation_of(const std::vector<PredictedTime>& operations, Operation wanted) {
  for (const PredictedTime& row : operations)
    if (row.operation == wanted) return row;
  return {};
}

constexpr PredictedStep kDecode{1, 64, true};

// Sequences share the weights that they read, but not their KV caches. More sequences need more experts.
TEST(CudaPredict, SequencesShareWeightsAndNoCache) {
  for (const std::string& gpu : known_gpu_names()) {
    double last = 0;
    for (const int count : {1, 2, 4, 8, 16, 32, 64, 128}) {
      const double time = time_on(gpu, {1, 1024, true, count});
      EXPECT_GT(time, last) << count << " on " << gpu;
      EXPECT_LT(time, 2 * last + (count == 1 ? 1e9 : 0)) << count << " on " << gpu;
      last = time;
    }
  }
  const auto attended = [](int count) {
    return operation_of(predicted_for("h200", {1, 100000, true, count}), Operation::kAttend);
  };
  EXPECT_NEAR(static_cast<double>(attended(8).bytes), 8.0 * static_cast<double>(attended(1).bytes), 1e5);
  EXPECT_NEAR(attended(8).memory, 8 * attended(1).memory, 1);
}

// No chip reads faster than its bandwidth. lm_head in BF16 is one stream of 1.16 GB; where memory limits it,
// it takes hardly longer than the bandwidth allows.
TEST(CudaPredict, NothingIsReadFasterThanTheChipReads) {
  for (const std::string& gpu : known_gpu_names())
    for (const Format dense : {Format::kBf16, Format::kE4m3, Format::kMxfp4})
      for (const PredictedTime& row : predicted_for(gpu, {1, 4096, true}, stored_as(dense)))
        EXPECT_LE(static_cast<double>(row.bytes), known_speeds(gpu).read_bandwidth * row.total() / 1e6)
            << name(row.operation) << " on " << gpu;
  const PredictedTime head = operation_of(predicted_for("gb10", kDecode), Operation::kUnembed);
  EXPECT_EQ(head.bound(), "memory");
  EXPECT_NEAR(head.total(), 201088.0 * 2880 * 2 / 262e9 * 1e6, 0.05 * head.total());
}

TEST(CudaPredict, BytesAreThoseOfTheModelsOperations) {
  const Config config = *named_config("gpt-oss-120b");
  const StorageFormats formats = stored_as(Format::kE4m3, Format::kE4m3);
  for (const PredictedStep& step : {PredictedStep{1, 1000, true}, PredictedStep{512, 1000, true},
                                    PredictedStep{1, 1000, true, 64}, PredictedStep{100, 1000, true, 5}}) {
    size_t bytes = 0;
    for (const PredictedTime& row : predicted_for("gb10", step, formats)) bytes += row.bytes;
    EXPECT_EQ(bytes, total(step_costs(config, formats, step.num_tokens, step.context, step.num_sequences))
                         .bytes_touched());
  }
  EXPECT_EQ(operation_of(predicted_for("gb10", {512, 512, false}), Operation::kUnembed).num_launches, 0);
}

TEST(CudaPredict, FewerMultiprocessorsAreSlower) {
  double last = 0;
  for (const int count : {132, 96, 64, 48, 24, 8}) {
    const std::vector<PredictedTime> found =
        predicted_for("h200", kDecode, {}, {.num_multiprocessors = count});
    EXPECT_GT(total_of(found), last) << count;
    last = total_of(found);
    EXPECT_EQ(operation_of(found, Operation::kExpertsUp).bound(), "issue") << count;
  }
}

TEST(CudaPredict, LessIsFaster) {
  for (const std::string& gpu : known_gpu_names()) {
    const double bf16 = time_on(gpu, kDecode), mxfp4 = time_on(gpu, kDecode, stored_as(Format::kMxfp4));
    EXPECT_LT(mxfp4, bf16) << gpu;
    EXPECT_LT(bf16, time_on(gpu, {1, 16384, true})) << gpu;
    EXPECT_LT(time_on(gpu, {512, 512, true}), time_on(gpu, {2048, 2048, true})) << gpu;
    EXPECT_LT(time_on(gpu, {512, 512, true}), 512 * bf16) << gpu;
  }
}

// If two chips have the same memory, the one with half the tensor-core rate takes longer for a prompt, and
// hardly longer for a token. A Hopper GPU that is limited to less shared memory uses slower instructions, so
// it too takes longer only for a prompt.
TEST(CudaPredict, APromptIsBoundByProducts) {
  constexpr PredictedStep kPrompt{2048, 2048, true};
  EXPECT_EQ(operation_of(predicted_for("rtx5090", kPrompt), Operation::kExpertsUp).bound(), "products");
  EXPECT_GT(time_on("rtx5090", kPrompt), 1.5 * time_on("pro6000", kPrompt));
  EXPECT_NEAR(time_on("rtx5090", kDecode), time_on("pro6000", kDecode), 0.05 * time_on("pro6000", kDecode));
  const CudaOptions small{.shared_budget = 99};
  EXPECT_GT(time_on("h200", kPrompt, {}, small), 1.5 * time_on("h200", kPrompt));
  EXPECT_EQ(time_on("h200", kDecode, {}, small), time_on("h200", kDecode));
}

// The mma instructions of all block-scaled formats run at the same rate. One instruction multiplies 32
// columns in MXFP8 or 64 in MXFP4. A bfloat16 instruction multiplies 16 columns, and GeForce chips throttle
// it to half that rate.
TEST(CudaPredict, BlockScaledProductsOfMxfp4WeightsTakeTheirOwnRate) {
  constexpr Operation kScaled[]{Operation::kQkv, Operation::kProject, Operation::kExpertsUp,
                                Operation::kExpertsDown};
  constexpr PredictedStep kPrompt{2048, 2048, true};
  const StorageFormats all = stored_as(Format::kMxfp4);
  for (const auto& [gpu, throttle] :
       {std::pair("gb10", 1), std::pair("pro6000", 1), std::pair("rtx5090", 2)}) {
    const auto plain = predicted_for(gpu, kPrompt, all);
    for (const auto& [format, factor] :
         {std::pair(BlockFormat::kMxfp8x2, 1), std::pair(BlockFormat::kMxfp8, 2),
          std::pair(BlockFormat::kMxfp4, 4)}) {
      const auto scaled = predicted_for(gpu, kPrompt, all, {.prompt_activations = format});
      for (const Operation operation : kScaled)
        EXPECT_NEAR(operation_of(plain, operation).products / operation_of(scaled, operation).products,
                    throttle * factor, 1e-9)
            << name(operation) << " on " << gpu;
      for (const PredictedTime& row : scaled)
        if (std::find(std::begin(kScaled), std::end(kScaled), row.operation) == std::end(kScaled)) {
          EXPECT_EQ(row.total(), operation_of(plain, row.operation).total())
              << name(row.operation) << " on " << gpu;
        }
      EXPECT_EQ(operation_of(scaled, Operation::kProject).num_launches, 2 * 36);
    }
  }
}

TEST(CudaPredict, BlockScaledProductsAreThoseOfStepsOfManyRowsWithMxfp4Weights) {
  const auto changes = [](const PredictedStep& step, const StorageFormats& formats, Operation operation) {
    return operation_of(predicted_for("gb10", step, formats), operation).products !=
           operation_of(predicted_for("gb10", step, formats, {.prompt_activations = BlockFormat::kMxfp8}),
                        operation)
               .products;
  };
  for (const int rows : {kFewTokens, kFewTokens + 1}) {
    const bool is_many = rows > kFewTokens;
    for (const PredictedStep& step : {PredictedStep{rows, 64, true}, PredictedStep{1, 64, true, rows}}) {
      EXPECT_EQ(changes(step, stored_as(Format::kMxfp4), Operation::kQkv), is_many) << rows;
      EXPECT_EQ(changes(step, stored_as(Format::kMxfp4), Operation::kUnembed),
                step.num_sequences > kFewTokens);
      EXPECT_EQ(changes(step, stored_as(Format::kBf16), Operation::kExpertsUp), is_many) << rows;
      for (const Format dense : {Format::kBf16, Format::kE4m3})
        for (const Operation operation : {Operation::kQkv, Operation::kProject, Operation::kUnembed})
          EXPECT_FALSE(changes(step, stored_as(dense), operation)) << rows;
    }
  }
}

TEST(CudaPredict, ChipsWithoutBlockScaledProductsAreRefusedThem) {
  for (const char* gpu : {"h200", "b200", "rtx4090"})
    EXPECT_THAT(
        error_of([&] { predicted_for(gpu, kDecode, {}, {.prompt_activations = BlockFormat::kMxfp8}); }),
        AllOf(HasSubstr("--prompt-activations"), HasSubstr(known_gpu(gpu).name)));
}

TEST(CudaPredict, NormsOfFewRowsTakeNoLaunches) {
  const auto norms = [](int num_sequences) {
    return operation_of(predicted_for("h200", {1, 64, true, num_sequences}), Operation::kRmsNorm)
        .num_launches;
  };
  EXPECT_EQ(norms(1), 0);
  EXPECT_EQ(norms(8), 72);
}

TEST(CudaPredict, AnOperationTakesItsLongestPartAndWhatIsSerial) {
  const PredictedTime read{.operation = Operation::kAttend,
                           .num_launches = 1,
                           .bytes = 5,
                           .memory = 7,
                           .issue = 2,
                           .products = 1,
                           .serial = 3};
  EXPECT_EQ(read.total(), 10);
  EXPECT_EQ(read.bound(), "memory");
  PredictedTime both = read;
  both += {.operation = Operation::kAttend,
           .num_launches = 2,
           .bytes = 1,
           .memory = 1,
           .issue = 4,
           .products = 1,
           .serial = 9};
  EXPECT_EQ(both.total(), 10 + 13);
  EXPECT_EQ(both.num_launches, 3);
  EXPECT_EQ(both.bytes, 6u);
  EXPECT_EQ(both.bound(), "serial");
  EXPECT_EQ(both.serial, 23 - 8);
}

CudaOptions among(int num_gpus) {
  CudaOptions own;
  own.parts.assign(static_cast<size_t>(num_gpus), 1);
  return own;
}
StepPrediction shared_by(int num_gpus, const PredictedStep& step, std::optional<double> sum_seconds = {}) {
  return predict_on("h200", *named_config("gpt-oss-120b"), {}, among(num_gpus), step, {sum_seconds});
}
size_t bytes_of(const StepPrediction& found) {
  size_t sum = 0;
  for (const PredictedTime& row : found.operations) sum += row.bytes;
  return sum;
}

// Of 120b in BF16, each of 1, 2, 4 and 8 GPUs reads 5.00, 2.53, 1.30 and 0.67 GB per token. Every GPU reads
// the router, and the 45 tiles of an expert's width do not divide evenly.
TEST(CudaPredict, SeveralGpusEachReadTheirShare) {
  EXPECT_NEAR(static_cast<double>(bytes_of(shared_by(1, kDecode))), 5.00e9, 0.02e9);
  EXPECT_NEAR(static_cast<double>(bytes_of(shared_by(2, kDecode))), 2.53e9, 0.02e9);
  EXPECT_NEAR(static_cast<double>(bytes_of(shared_by(4, kDecode))), 1.30e9, 0.02e9);
  EXPECT_NEAR(static_cast<double>(bytes_of(shared_by(8, kDecode))), 0.67e9, 0.02e9);
}

// Each of 36 layers has two sums, of rows of 2,880 numbers. A GPU sends the rows that it does not own as 4
// bytes per number, then its own rows to each other GPU as 2 bytes per number, at 387 GB/s.
TEST(CudaPredict, SumsOverGpusTakeTheirLatencyAndTheirBytes) {
  EXPECT_NEAR(shared_by(2, kDecode, 3e-6).sums, 72 * (3 + 8640 / 387e3), 0.01);
  EXPECT_NEAR(shared_by(2, kDecode).sums, 72 * (12.7 + 8640 / 387e3), 0.01);
  EXPECT_NEAR(shared_by(8, {1, 64, true, 64}, 3e-6).sums, 72 * (3 + 7 * 8 * 17280 / 387e3), 0.01);
  EXPECT_NEAR(shared_by(2, {3000, 3000, true}, 3e-6).sums, 72 * (3 + 1500 * 17280 / 387e3), 1);
  EXPECT_EQ(shared_by(1, kDecode).sums, 0);
  EXPECT_EQ(operation_of(shared_by(2, {1, 64, true, 64}).operations, Operation::kRmsNorm).num_launches, 1);
  const StepPrediction without = shared_by(2, kDecode, 0), with = shared_by(2, kDecode, 10e-6);
  EXPECT_NEAR(total_of(with.operations) - total_of(without.operations), 720, 0.01);
}

// If each GPU holds whole experts, a step takes as long as the GPU that needs the largest number of experts,
// because the others wait for it. In a large step a GPU reads all of its 16 experts. If every expert is split
// instead, a GPU reads up to 6 of the 45 tiles of each expert: 7 % more than an eighth.
TEST(CudaPredict, WholeExpertsAreReadByTheGpuWhereMostAreHit) {
  const auto predicted = [](ExpertSplit split, int num_sequences) {
    return predict_on("h200", *named_config("gpt-oss-120b"), {}, among(8), {1, 64, true, num_sequences},
                      {3e-6, split});
  };
  constexpr double kExpertBytes{5760 * 2880 * 17 / 32.0 + 2 * 5760}, kLayers{36};
  for (const int num_sequences : {1, 8, 64}) {
    const StepPrediction whole = predicted(ExpertSplit::kWhole, num_sequences),
                         parts = predicted(ExpertSplit::kUnits, num_sequences);
    const double most = largest_load(std::vector<int>(8, 16), 4, num_sequences).hit;
    EXPECT_EQ(whole.load.hit, most);
    EXPECT_NEAR(static_cast<double>(operation_of(whole.operations, Operation::kExpertsUp).bytes),
                kLayers * most * kExpertBytes, 1e3);
    EXPECT_EQ(whole.sums, parts.sums);
    EXPECT_EQ(operation_of(whole.operations, Operation::kQkv).bytes,
              operation_of(parts.operations, Operation::kQkv).bytes);
    EXPECT_GT(total_of(whole.operations), total_of(parts.operations)) << num_sequences;
  }
  const auto experts_of = [&](ExpertSplit split) {
    return static_cast<double>(operation_of(predicted(split, 1024).operations, Operation::kExpertsUp).bytes);
  };
  EXPECT_NEAR(experts_of(ExpertSplit::kUnits) / experts_of(ExpertSplit::kWhole), 8 * 6.0 / 45, 1e-3);
}

TEST(CudaPredict, ALinkCountsAsMeasuredBetweenTheCardsThatWere) {
  const auto is_measured = [](const char* gpu, int num_gpus) {
    return predict_on(gpu, *named_config("gpt-oss-120b"), {}, among(num_gpus), kDecode).link.is_measured;
  };
  EXPECT_TRUE(is_measured("h200", 2));
  EXPECT_FALSE(is_measured("h200", 4));
  EXPECT_FALSE(is_measured("h100", 2));
}

TEST(CudaPredict, SeveralGpusAreRefusedWhereTheirLinkOrTheirShareIsNotKnown) {
  const Config config = *named_config("gpt-oss-120b");
  const auto error = [&](const char* gpu, int num_gpus) {
    return error_of([&] { predict_on(gpu, config, {}, among(num_gpus), kDecode); });
  };
  EXPECT_THAT(error("l40s", 2), HasSubstr("the link between that number of NVIDIA L40S is unknown"));
  EXPECT_THAT(error("h200", 3), HasSubstr("--count 3"));
  EXPECT_THAT(error("gb10", 4), HasSubstr("--sum-latency"));
  EXPECT_GT(predict_on("gb10", config, {}, among(4), kDecode, {40e-6}).sums, 72 * 40);
  Config odd = config;
  odd.num_kv_heads = 6;
  EXPECT_THAT(error_of([&] { predict_on("h200", odd, {}, among(4), kDecode); }),
              HasSubstr("6 key/value heads"));
}

// On a GB10, a step of 8,192 rows would take 1.3 s. So slow GPUs have smaller default steps.
TEST(CudaPredict, DefaultStepsOfASlowGpuHaveFewerRows) {
  for (const auto& [gpu, rows] :
       {std::pair("gb10", 4096), std::pair("h100", 8192), std::pair("h200", 8192), std::pair("b200", 8192),
        std::pair("a100", 8192), std::pair("pro6000", 8192), std::pair("rtx5090", 2048),
        std::pair("l40s", 2048)}) {
    const DeviceCaps caps = known_gpu(gpu);
    EXPECT_EQ(default_batch_tokens(caps), rows) << gpu;
    if (has_much_memory(caps)) {
      EXPECT_LE(time_on(gpu, {rows, rows}) / 1e6, kMostStepSeconds) << gpu;
    }
  }
  DeviceCaps unknown = known_gpu("gb10");
  unknown.num_multiprocessors = 47;
  EXPECT_EQ(default_batch_tokens(unknown), 8192);
}

// Prompts get fewer rows in steps with running answers, so that answers wait less, unless prompts would be
// much slower.
TEST(CudaPredict, PromptsGetFewerRowsOfAStepWithAnswers) {
  for (const auto& [gpu, rows] : {std::pair("gb10", 4096), std::pair("h100", 2048), std::pair("h200", 2048),
                                  std::pair("a100", 2048), std::pair("l40s", 2048)}) {
    EXPECT_EQ(default_rows_with_answers(known_gpu(gpu)), rows) << gpu;
  }
  DeviceCaps unknown = known_gpu("gb10");
  unknown.num_multiprocessors = 47;
  EXPECT_EQ(default_rows_with_answers(unknown), 2048);
}

TEST(CudaPredict, AnUnknownGpuIsAnsweredWithTheKnownOnes) {
  EXPECT_THAT(error_of([] { predicted_for("gtx1080", kDecode); }), HasSubstr("the known GPUs are gb10"));
}

}  // namespace
}  // namespace nibble::cuda
