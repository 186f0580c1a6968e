// Fixtures of the contract tests (contract.h), and `Fulfilment`, which makes the backend under test.
// contract.h defines the tests, so only one file of a program may include it. Every file that instantiates
// the tests includes this header.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "model/weights.h"
#include "tests/backend/feeder.h"
#include "tests/folders.h"

namespace nibble {

struct Fulfilment {
  static constexpr int kNumPages{160};  // enough for steps of up to 1,024 tokens
  std::string name;
  std::function<std::unique_ptr<Backend>(std::shared_ptr<const Weights>)> make;
  int num_kv_caches{1};
};

inline std::shared_ptr<const Weights> open_shared(const std::filesystem::path& folder) {
  return std::make_shared<const Weights>(open_weights(std::filesystem::path{test::source_path()} / folder));
}

// Runs the random models tests/golden/random/a and b. The window of a is 16. The window of b is 100, and its
// full and sliding layers are in the opposite order.
class BackendBits : public testing::TestWithParam<std::tuple<Fulfilment, const char*>> {
 protected:
  const std::shared_ptr<const Weights> weights_ =
      open_shared(std::filesystem::path("tests/golden/random") / std::get<1>(GetParam()));

  std::vector<TokenId> ids(int count, uint64_t seed) const {
    return random_ids(count, weights_->config.vocab, seed);
  }
  Feeder feeder() const {
    const Fulfilment& tested = std::get<0>(GetParam());
    return Feeder(tested.make(weights_), Fulfilment::kNumPages, tested.num_kv_caches);
  }
  std::vector<float> logits_alone(const std::vector<TokenId>& ids) const {
    Feeder alone = feeder();
    alone.feed({{0, ids}});
    return alone.logits(0);
  }
};
// Runs the miniature model.
class BackendOutputs : public testing::TestWithParam<Fulfilment> {
 protected:
  static inline const std::shared_ptr<const Weights> weights = open_shared("models/tiny-gpt-oss");
  const std::unique_ptr<Backend> backend_ = GetParam().make(weights);

  // Runs `ids` from position 0, in pages 0 and 1 of full layers, and 2 and 3 of sliding layers.
  StepResult run(const std::vector<TokenId>& ids, const std::vector<OutputRow>& outputs, bool want_logits) {
    const std::vector<PageId> full{PageId{0}, PageId{1}}, sliding{PageId{2}, PageId{3}};
    const nibble::Run runs[]{{ids, 0, {full}, {sliding}, outputs}};
    return backend_->step({.runs = runs, .want_logits = want_logits});
  }
};
}  // namespace nibble
