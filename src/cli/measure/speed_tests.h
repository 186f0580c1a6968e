// The tests of bench, as in llama-bench: prefill of N tokens or decoding of N, after `depth` tokens that are in the KV cache already.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "model/config.h"
#include "model/ops.h"
#include "setup/resolve.h"

namespace nibble::cli {

enum class BenchKind { kPrefill, kDecode };

struct BenchTest {
  BenchKind kind{};
  int num_tokens{0};
  int depth{0};  // tokens before those that are timed
};
std::string name(const BenchTest& test);  // "pp512", "tg128 @ d4096"

// A step of a test, which begins `offset` tokens behind the depth. No token is chosen before the end of a prompt, as in an engine.
struct TestStep {
  int offset;
  int num_tokens;
  bool wants_next;
};
std::vector<TestStep> steps_of(const BenchTest& test, int max_batch_tokens);

// All pairs of a length and a depth. Ascending depths, each once, so that what one test finds in the cache stays there for the next;
// a length of 0 is no test.
std::vector<BenchTest> list_tests(std::span<const int> prompt_lengths, std::span<const int> output_lengths,
                                  std::vector<int> depths);

// Options of a backend with room for all tests, each in so many sequences at once. Throws InputError where a test is longer than the
// model was made for, or than --context allows.
BackendOptions room_for(std::span<const BenchTest> tests, const Config& config, const ResolvedSettings& setup,
                        int num_sequences = 1);

// Pseudo-random tokens, the same in every run.
std::vector<TokenId> tokens_at(int first_position, int num_tokens, int vocab);

struct BenchResult {
  BenchTest test;
  std::vector<double> tokens_per_second;  // of each repetition
  int num_steps{0};
  double bytes_per_step{0};  // weights and KV cache that a step has to read, mean over the timed steps

  double bytes_per_token() const { return bytes_per_step * num_steps / test.num_tokens; }
};

inline constexpr int kNumWarmups{1};

// Runs each test kNumWarmups times untimed and `num_repetitions` times. Tokens are random, and the same every time: a model whose
// experts are chosen by its tokens reads the same ones. `on_result` gets each test's as soon as it is there.
void run_tests(Backend& backend, const BackendOptions& room, const StorageFormats& formats,
               std::span<const BenchTest> tests, int num_repetitions,
               const std::function<void(const BenchResult&)>& on_result);

}  // namespace nibble::cli
