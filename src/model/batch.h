// What one step of a backend is asked and answers. Prefill, a chunk of it, decode, and any mixture are the same call.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/token.h"

namespace nibble {

// A page holds kPageTokens consecutive positions of one sequence for all layers of one kind. Two pools, two numberings:
// pages of full layers, pages of sliding layers.
enum class PageId : uint32_t {};
inline constexpr int kPageTokens{32};

// Where a sequence's positions are: position p is in pages[p / kPageTokens - first_page], at p % kPageTokens.
struct PageTableView {
  std::span<const PageId> pages{};
  int first_page{0};  // pages before it were given back: no sliding window reaches them any more
};

inline constexpr int kMaxLogprobs{20};  // as OpenAI's API has it

// How a token is chosen. The order is: logit bias, penalties, temperature, min_p, top_k, top_p, draw (as vLLM has it).
// See backend/sample.h for each formula.
struct SampleParams {
  float temperature{0};  // 0: the likeliest token, ties to the lower id
  int top_k{0};          // 0: all
  float top_p{1};
  float min_p{0};
  float repetition_penalty{1};  // over prompt and output
  float presence_penalty{0};    // over output
  float frequency_penalty{0};   // over output
  std::vector<std::pair<TokenId, float>> logit_bias{};
  uint64_t seed{0};      // the draw is a function of (seed, position) alone: same seed, same text
  int num_logprobs{-1};  // -1: none; 0 <= n <= kMaxLogprobs: of the chosen token and of the n likeliest
};

// A row of the batch whose next token is wanted.
struct OutputRow {
  int token_index{0};                   // in its run
  const SampleParams* sample{nullptr};  // null: no token is chosen (logits only)
  std::span<const TokenId> prompt{},
      output{};  // of the sequence so far, for penalties; may be empty without them
};

// New tokens of one sequence at consecutive positions. The page tables already cover them.
struct Run {
  std::span<const TokenId> tokens{};
  int first_position{0};
  PageTableView full{}, sliding{};
  std::span<const OutputRow> outputs{};  // ascending token_index
};

struct Batch {
  std::span<const Run> runs{};
  bool want_logits{false};  // the logits of all output rows come back as well
};

struct TokenLogprob {
  TokenId token{0};
  float logprob{0};  // natural logarithm, of the model's distribution before temperature and penalties
};

struct SampledToken {
  TokenId token{-1};                // -1: none was asked for, or no logit is a number above -infinity
  float logprob{0};                 // set if num_logprobs >= 0
  std::vector<TokenLogprob> top{};  // descending; num_logprobs entries
};

struct StepResult {
  std::vector<SampledToken> outputs;  // one for each output row, runs in order
  std::vector<float> logits;          // [output rows, V] if wanted, else empty
};

}  // namespace nibble
