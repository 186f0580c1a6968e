// Tests the log lines that name the kernels of a loaded model.
#include "setup/backend/kernel_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "setup/model/model.h"

namespace nibble {
namespace {

Config of_120b() { return open_model("synthetic:gpt-oss-120b", {}).config; }

TEST(KernelText, NamesShapeFormatsScalesRowsAndReason) {
  const KernelChoice up{Operation::kExpertsUp, "MXFP4", "MXFP8", "some_kernel", "measured", 2, 64};
  EXPECT_EQ(
      kernel_text(up, of_120b()),
      "experts up [128, 5760, 2880]: weights MXFP4 (E8M0 per 32), activations MXFP8 (E8M0 per 32), rows "
      "2-64: some_kernel (measured)");
}

TEST(KernelText, NamesNoScalesOfAnFp8Cache) {
  const KernelChoice attend{Operation::kAttend, "FP8", "F32", "some_kernel", "measured"};
  EXPECT_EQ(kernel_text(attend, of_120b()),
            "attend [64, 64] over [8, 64]: KV cache FP8, activations F32, rows any: some_kernel (measured)");
}

TEST(KernelText, NamesTheScalesOfQuantisedDenseLayers) {
  const KernelChoice qkv{Operation::kQkv, "FP8", "INT8", "some_kernel", "measured", 1, 1};
  EXPECT_EQ(kernel_text(qkv, of_120b()),
            "qkv [5120, 2880]: weights FP8 (F32 per row), activations INT8 (F32 per 32), rows 1: some_kernel "
            "(measured)");
}

TEST(ShapeText, KnowsEveryOperation) {
  for (const Operation operation : kOperations)
    EXPECT_THAT(shape_text(operation, of_120b()), testing::StartsWith("[")) << name(operation);
}

}  // namespace
}  // namespace nibble
