// Tests adapters that requests choose, with the reference backend, whose sums are in double precision.
#include "tests/backend/adapters.h"

#include "reference/reference_backend.h"

namespace nibble::reference {
namespace {

const AdapterBackend kWithAdapters{.name = "reference",
                                   .make =
                                       [](auto weights, auto adapters) {
                                         return make(std::move(weights), {.num_pages = Fulfilment::kNumPages,
                                                                          .max_batch_tokens = 1024,
                                                                          .adapters = std::move(adapters)});
                                       },
                                   .tolerance = 1e-5};  // results are stored in float32
INSTANTIATE_TEST_SUITE_P(Reference, BackendAdapters, testing::Values(kWithAdapters));

TEST(ReferenceAdapters, ArePartOfTheMemoryPlan) {
  const auto weights = open_shared("tests/golden/random/a");
  const auto adapters = std::make_shared<const RequestAdapters>(three_adapters(*weights));
  const auto bytes = [&](std::shared_ptr<const RequestAdapters> given) {
    return plan(weights->config, {.num_pages = 14, .adapters = std::move(given)}).weight_bytes;
  };
  // Widths in a layer: hidden 128, q 256, k and v 64, router 4. The adapters' ranks are 4, 17, 1, 3 and 5.
  const size_t of_first = 4 * 4 * ((128 + 256) * 2 + (128 + 64) * 2 + 128 + 4);
  const size_t of_second = 2 * 17 * (128 + 256) + 128 + 64, of_third = 4 * (3 * (128 + 256) + 5 * (128 + 4));
  const auto head = 128 + static_cast<size_t>(weights->config.vocab);
  EXPECT_EQ(bytes(adapters) - bytes(nullptr), 4 * (of_first + of_second + of_third + 37 * head));
}

}  // namespace
}  // namespace nibble::reference
