// Runs the draft tests for real backends (speculation_on_backend.h) on the reference and the CPU backends.
#include "backend/cpu/cpu_backend.h"
#include "reference/reference_backend.h"
#include "tests/engine/speculation_on_backend.h"

namespace nibble {
namespace {

INSTANTIATE_TEST_SUITE_P(Backends, SpeculationOnBackend,
                         testing::Values(SpeculatingBackend{"Reference", reference::make, 8, 8, true},
                                         SpeculatingBackend{"Cpu",
                                                            [](auto weights, const BackendOptions& options) {
                                                              return cpu::make(std::move(weights), options);
                                                            },
                                                            120, 28, false}),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace nibble
