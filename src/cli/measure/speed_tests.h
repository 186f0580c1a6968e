// The tests of bench, as in llama-bench: prefill or decode of N tokens after `depth` tokens in the KV cache.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "model/config.h"
#include "model/ops.h"
#include "setup/settings/resolved_settings.h"

namespace nibble::cli {

enum class BenchKind { kPrefill, kDecode };

struct BenchTest {
  BenchKind kind{};
  int num_tokens{0};
  int depth{0};  // tokens in the KV cache before the timed tokens
};
std::string name(const BenchTest& test);  // "pp512", "tg128 @ d4096"

// One step of a test. Its tokens begin at position depth + `offset`. `wants_next`: whether the step samples a
// token. In a prefill only the last step samples one, as in an engine.
struct TestStep {
  int offset;
  int num_tokens;
  bool wants_next;
};
std::vector<TestStep> steps_of(const BenchTest& test, int max_batch_tokens);

// Returns all combinations of length and depth, except length 0. Depths ascend, to reuse cached tokens.
std::vector<BenchTest> list_tests(std::span<const int> prompt_lengths, std::span<const int> output_lengths,
                                  std::vector<int> depths);

// Returns options with room for every test. Throws InputError if a test exceeds the model's limit or
// --context.
BackendOptions room_for(std::span<const BenchTest> tests, const Config& config, const ResolvedSettings& setup,
                        int num_sequences = 1);

// Returns pseudo-random tokens that depend only on their positions: they are equal in all runs.
std::vector<TokenId> tokens_at(int first_position, int num_tokens, int vocab);

struct BenchResult {
  BenchTest test;
  std::vector<double> tokens_per_second;  // one per repetition
  int num_steps{0};
  // Means over the timed steps: bytes of weights and KV cache that a step must read, and operations of its
  // matrix products.
  double bytes_per_step{0}, flops_per_step{0};

  double bytes_per_token() const { return bytes_per_step * num_steps / test.num_tokens; }
  double flops_per_token() const { return flops_per_step * num_steps / test.num_tokens; }
};

inline constexpr int kNumWarmups{1};  // default of --warmup
// number of requests that each client of `bench clients` sends, one after the other
inline constexpr int kRequestsOfClient{4};

struct SpeedTests {
  std::span<const BenchTest> tests{};
  int num_repetitions{1}, num_warmups{kNumWarmups};
  StorageFormats formats{};  // formats of weights and KV cache, to compute a test's bytes and operations
};
// Runs each test `num_warmups` times untimed, then `num_repetitions` times. The random tokens are always the
// same, so that the router chooses the same experts. Calls `on_result` after each test.
void run_tests(Backend& backend, const BackendOptions& room, const SpeedTests& speed,
               const std::function<void(const BenchResult&)>& on_result);

}  // namespace nibble::cli
