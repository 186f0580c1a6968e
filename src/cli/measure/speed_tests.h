// The tests of bench, as in llama-bench: prefill or decode N tokens, after `depth` tokens that
// are already in the KV cache.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "model/config.h"
#include "model/ops.h"
#include "setup/resolved_settings.h"

namespace nibble::cli {

enum class BenchKind { kPrefill, kDecode };

struct BenchTest {
  BenchKind kind{};
  int num_tokens{0};
  int depth{0};  // tokens in the KV cache before the timed ones
};
std::string name(const BenchTest& test);  // "pp512", "tg128 @ d4096"

// A step of a test. It begins `offset` tokens after the depth. As in an engine, only the last step of a
// prefill samples a token.
struct TestStep {
  int offset;
  int num_tokens;
  bool wants_next;
};
std::vector<TestStep> steps_of(const BenchTest& test, int max_batch_tokens);

// Returns all combinations of a length and a depth. Depths are sorted and unique, so that the tokens in the
// cache for one test stay in it for the next test. A length of 0 means no test.
std::vector<BenchTest> list_tests(std::span<const int> prompt_lengths, std::span<const int> output_lengths,
                                  std::vector<int> depths);

// Returns backend options with room for all tests, each in `num_sequences` sequences at a time. Throws
// InputError if a test is longer than the maximum of the model, or than --context.
BackendOptions room_for(std::span<const BenchTest> tests, const Config& config, const ResolvedSettings& setup,
                        int num_sequences = 1);

// Returns pseudo-random tokens that depend only on their position: they are the same in every run.
std::vector<TokenId> tokens_at(int first_position, int num_tokens, int vocab);

struct BenchResult {
  BenchTest test;
  std::vector<double> tokens_per_second;  // one per repetition
  int num_steps{0};
  double bytes_per_step{0};  // weights and KV cache that a step must read: mean over the timed steps

  double bytes_per_token() const { return bytes_per_step * num_steps / test.num_tokens; }
};

inline constexpr int kNumWarmups{1};

struct SpeedTests {
  std::span<const BenchTest> tests{};
  int num_repetitions{1};
  StorageFormats formats{};  // to compute BenchResult::bytes_per_step
};
// Runs each test kNumWarmups times untimed, then `num_repetitions` times. The tokens are random but the same
// every time, so that the router chooses the same experts. Calls `on_result` after each test.
void run_tests(Backend& backend, const BackendOptions& room, const SpeedTests& speed,
               const std::function<void(const BenchResult&)>& on_result);

}  // namespace nibble::cli
