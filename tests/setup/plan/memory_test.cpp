#include "setup/plan/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "core/files/mapped_file.h"
#include "core/threads/thread_pool.h"
#include "model/checkpoint/write_gguf.h"
#include "model/quantize.h"
#include "setup/model/model.h"
#include "setup/model/tokenizer.h"
#include "setup/plan/storage_formats.h"
#include "setup/start/resolve.h"
#include "tests/folders.h"

namespace nibble {
namespace {

const std::string kTinyFolder{test::source_path("models/tiny-gpt-oss")};

TEST(Memory, WhatIsConvertedNeedNotStayInMemoryWhereItIsMapped) {
  const MemoryPlan plan{.weight_bytes = 500, .replaced_weight_bytes = 1000};
  const ResolvedSettings setup = resolve({});
  const Model tiny = open_model(kTinyFolder, {}), made = open_model("synthetic:gpt-oss-20b", {});
  EXPECT_EQ(kept_weight_bytes(tiny, plan, setup), weight_bytes(tiny.config) - 1000);
  EXPECT_EQ(kept_weight_bytes(made, plan, setup), weight_bytes(made.config));
}

TEST(Memory, DenseLayersThatAreFp8InTheCheckpointCountAsFp8) {
  const Model tiny = open_model(kTinyFolder, {});
  ThreadPool pool(1);
  Model fp8 = tiny;
  fp8.weights = quantise_dense(tiny.weights, {Format::kE4m3, Format::kBf16, Format::kE4m3}, pool);
  const ConvertedBytes bytes = converted_bytes(tiny.config, {Format::kE4m3, Format::kBf16, Format::kE4m3});
  ResolvedSettings setup = resolve({});
  EXPECT_EQ(kept_weight_bytes(fp8, {}, setup),
            kept_weight_bytes(tiny, {}, setup) - bytes.before + bytes.after);
  // The backend's plan already has the converted layers, so they are not counted twice.
  setup.options.dense = {Format::kMxfp4, Format::kBf16, Format::kMxfp4};
  EXPECT_EQ(kept_weight_bytes(fp8, {}, setup), kept_weight_bytes(tiny, {}, setup));
}

// Plans of a device that show in which format each group of dense layers is counted.
MemoryPlan plan_of_formats(const Config&, const BackendOptions& options, const OwnOptions&) {
  const auto digit = [](Format format) { return static_cast<size_t>(format == Format::kE4m3); };
  const DenseFormats& dense = options.dense;
  return {.weight_bytes =
              100 * digit(dense.qkv) + 10 * digit(dense.attention_output) + digit(dense.unembedding)};
}
std::vector<MemoryPlan> plans_of_formats(const Config& config, const BackendOptions& options,
                                         const OwnOptions& own) {
  return {plan_of_formats(config, options, own)};
}

TEST(Memory, ADeviceCountsDenseLayersOfTheCheckpointAsItStoresThem) {
  const Model tiny = open_model(kTinyFolder, {});
  ThreadPool pool(1);
  Model fp8 = tiny;
  fp8.weights = quantise_dense(tiny.weights, {Format::kE4m3, Format::kBf16, Format::kE4m3}, pool);
  BackendRow row{find_backend("cpu")};
  row.memory.plan = &plan_of_formats;
  row.device.emplace().plans = &plans_of_formats;
  ResolvedSettings setup = resolve({});
  setup.backend = &row;
  const std::vector<size_t> budgets{1000};
  const auto expect_bytes = [&](const Model& model, size_t bytes) {
    EXPECT_EQ(memory_plan(model, setup, setup.options).weight_bytes, bytes);
    EXPECT_EQ(least_room(model, setup, setup.options, budgets), 1000 - static_cast<int64_t>(bytes));
  };
  expect_bytes(tiny, 0);
  expect_bytes(fp8, 101);
  setup.options.dense.attention_output = Format::kE4m3;  // --fp8-layers o
  expect_bytes(tiny, 10);
  expect_bytes(fp8, 111);
}

constexpr size_t kGigabyte{1'000'000'000};
std::vector<DeviceMemory> memory_of_gpu(const OwnOptions&) { return {{120 * kGigabyte, 100 * kGigabyte}}; }
std::vector<DeviceMemory> memory_of_empty_gpu(const OwnOptions&) {
  return {{120 * kGigabyte, 120 * kGigabyte}};
}
std::vector<DeviceMemory> memory_of_host(const OwnOptions&) {
  return {{120 * kGigabyte, 100 * kGigabyte, true}};
}
std::vector<DeviceMemory> memory_of_full_host(const OwnOptions&) {
  return {{120 * kGigabyte, 30 * kGigabyte, true}};
}
std::vector<DeviceMemory> memory_of_exhausted_host(const OwnOptions&) {
  return {{120 * kGigabyte, kGigabyte, true}};
}

class MemoryBudget : public testing::Test {
 protected:
  // Returns the budget in gigabytes on a device with this memory.
  size_t budget(std::vector<DeviceMemory> (*memory)(const OwnOptions&),
                std::optional<double> utilization = {}) {
    BackendRow row{find_backend("cpu")};
    row.device.emplace().memory = memory;
    ResolvedSettings setup = resolve({});
    setup.backend = &row;
    setup.device_memory_share = utilization;
    return memory_budgets(setup).front() / kGigabyte;
  }
};

TEST_F(MemoryBudget, OfAGpuWithItsOwnMemoryIsNineTenthsOfItAndAtMostWhatIsFree) {
  EXPECT_EQ(budget(&memory_of_empty_gpu), 108u);
  EXPECT_EQ(budget(&memory_of_gpu), 100u);
  EXPECT_EQ(budget(&memory_of_gpu, 0.5), 60u);
}

TEST_F(MemoryBudget, OfAGpuThatUsesTheHostsMemoryLeavesRoomForOtherPrograms) {
  EXPECT_EQ(budget(&memory_of_host), 84u);
  EXPECT_EQ(budget(&memory_of_host, 0.8), 96u);
  EXPECT_EQ(budget(&memory_of_host, 0.5), 60u);
}

TEST_F(MemoryBudget, OfAGpuThatUsesTheHostsMemoryLeavesTheSystemFourGigabytes) {
  EXPECT_EQ(budget(&memory_of_host, 0.95), 96u);
  EXPECT_EQ(budget(&memory_of_full_host), 26u);
  EXPECT_EQ(budget(&memory_of_exhausted_host), 0u);
}

TEST(MemoryBudgetOfAPrediction, LeavesTheSystemFourGigabytesOfAHostsMemoryWithAnyShare) {
  const DeviceMemory unified{120 * kGigabyte, 120 * kGigabyte, true}, own{120 * kGigabyte, 120 * kGigabyte};
  EXPECT_EQ(memory_budget(unified, 1.0), 116 * kGigabyte);
  EXPECT_EQ(memory_budget(unified, 0.99), 116 * kGigabyte);
  EXPECT_EQ(memory_budget(unified, 0.7), 84 * kGigabyte);
  EXPECT_EQ(memory_budget(own, 1.0), 120 * kGigabyte);
}

// Weights that were converted from a GGUF file stay in memory, even if a backend converts them again. Blocks
// that a backend uses as stored are not converted.
TEST(Memory, AGgufFilesWeightsTakeTheMemoryOfWhatIsMadeOfThem) {
  const std::filesystem::path file =
      std::filesystem::path(testing::TempDir()) / fmt::format("nibble_load_{}.gguf", ::getpid());
  ThreadPool pool(2);
  write_gguf(open_source(kTinyFolder), file,
             {.dense = GgmlType::kQ8_0,
              .files = {{"tokenizer.json", read_text_file(kTinyFolder + "/tokenizer.json")}}},
             pool);
  const Model model = open_model(file.string(), {});
  MemoryPlan plan;
  plan.replaced_weight_bytes = plan.released_weight_bytes = 1000;
  Settings settings;
  settings.backend = "cpu";
  settings.experts_activations = "float";
  EXPECT_EQ(kept_weight_bytes(model, plan, resolve(settings)), weight_bytes(model.config));
  EXPECT_EQ(formats_of(model, resolve(settings)).qkv, Format::kBf16);
  settings.experts_activations = "int8";
  // The file has 6 layers with q [512, 256], k and v [128, 256], o [256, 512]; embedding and lm_head [4096,
  // 256]. A block has 34 bytes, its BF16 values have 64 bytes.
  const size_t num_blocks = (6 * (768 * 256 + 256 * 512) + 2 * 4096 * 256) / 32;
  EXPECT_EQ(kept_weight_bytes(model, plan, resolve(settings)),
            weight_bytes(model.config) - 30 * num_blocks - 1000);
  EXPECT_EQ(formats_of(model, resolve(settings)).qkv, Format::kQ8_0);
  EXPECT_EQ(formats_of(model, resolve(settings)).unembedding, Format::kQ8_0);
  EXPECT_EQ(open_tokenizer(model.source, {}).num_tokens(), 4085);
  EXPECT_EQ(model.config, open_model(kTinyFolder, {}).config);
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace nibble
