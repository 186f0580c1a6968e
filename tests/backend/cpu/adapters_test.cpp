// Tests adapters that requests choose on the CPU, with float and int8 activations.
#include "tests/backend/adapters.h"

#include "model/golden/golden.h"
#include "tests/backend/cpu/isas.h"
#include "tests/backend/cpu/options.h"

namespace nibble::cpu {
namespace {

// Limit of the difference from the reference with the same roundings. Sums in float32 differ by 1e-6 or less,
// which can move a key or a value to the next BF16 number, a change of 2^-8. They can also move an int8
// activation to the next code, a larger relative change if the activation is small.
double tolerance_of(bool int8) {
  if (!int8) return 0x1p-8;
  Config config;  // of tests/golden/random/a, as far as the tolerance depends on it
  config.num_layers = 4;
  config.head_dim = 64;
  config.experts_per_token = 2;
  const Int8Products all{.qkv = true, .attention_output = true, .experts = true, .unembedding = true};
  return tolerance_of_both_rounded(int8_tolerance(config, {}, all)).relative_l2;
}

AdapterBackend with(Isa isa, ExpertActivations experts) {
  const bool int8 = experts == ExpertActivations::kInt8;
  return {.name = fmt::format("{}_{}", name(isa), int8 ? "int8" : "float"),
          .make =
              [=](auto weights, auto adapters) {
                return make(std::move(weights),
                            TestOptions{{.num_pages = Fulfilment::kNumPages,
                                         .max_batch_tokens = 1024,
                                         .num_threads = 2,
                                         .adapters = std::move(adapters)},
                                        {.isa = std::string(name(isa)), .expert_activations = experts}});
              },
          .rounding = {.kv = Format::kBf16, .int8_activations = int8},
          .tolerance = tolerance_of(int8)};
}

std::vector<AdapterBackend> backends() {
  std::vector<AdapterBackend> all;
  for (const Isa isa : isas_of_their_own())
    for (const auto experts : {ExpertActivations::kFloat, ExpertActivations::kInt8})
      all.push_back(with(isa, experts));
  return all;
}
INSTANTIATE_TEST_SUITE_P(Cpu, BackendAdapters, testing::ValuesIn(backends()),
                         [](const auto& backend) { return backend.param.name; });

}  // namespace
}  // namespace nibble::cpu
