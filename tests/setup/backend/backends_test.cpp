#include "setup/backend/backends.h"

#include <gtest/gtest.h>

namespace nibble {
namespace {

double relative_l2(const std::vector<KernelChoice>& kernels) {
  Config config;
  config.num_layers = 6;
  config.head_dim = 64;
  GoldenSet golden;
  golden.prompts.resize(1);
  golden.prompts[0].logits = {1};
  return find_backend("cpu").accuracy.tolerance(config, golden, kernels).relative_l2;
}

// The dense layers of a Q8_0 file run in int8, those of a BF16 file in float.
TEST(Backends, TheCpusDistanceFromGoldenDataIsThatOfTheKernelsThatRun) {
  const std::vector<KernelChoice> in_float{{Operation::kQkv, "BF16", "F32", "dot", ""},
                                           {Operation::kProject, "BF16", "F32", "dot", ""},
                                           {Operation::kExpertsUp, "MXFP4", "F32", "dot", ""},
                                           {Operation::kUnembed, "BF16", "F32", "dot", ""}};
  double last = relative_l2(in_float);
  std::vector<KernelChoice> kernels = in_float;
  // Each of these changes adds one more int8 operation.
  for (const size_t changed : {2, 1, 0, 3}) {
    kernels[changed].activations = "INT8";
    EXPECT_GT(relative_l2(kernels), last) << name(kernels[changed].operation);
    last = relative_l2(kernels);
  }
  std::vector<KernelChoice> mixed = in_float;
  mixed.push_back({Operation::kProject, "Q8_0", "INT8", "strip", ""});  // some layers of project run in int8
  EXPECT_GT(relative_l2(mixed), relative_l2(in_float));
}

}  // namespace
}  // namespace nibble
