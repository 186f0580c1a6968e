// The input and the result of one step of a backend. Prefill, chunked prefill, decode and any mixture are the same
// call.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/token_mask.h"

namespace nibble {

// A page holds kPageTokens consecutive positions of one sequence for all layers of one kind. Full and sliding layers
// have a pool each, and page ids count within a pool.
enum class PageId : uint32_t {};
inline constexpr int kPageTokens{32};

// The page table of one sequence and one kind of layer: position p is in pages[p / kPageTokens - first_page], at p %
// kPageTokens.
struct PageTableView {
  std::span<const PageId> pages{};
  int first_page{0};  // earlier pages were given back: no sliding window reaches them any more
};

inline constexpr int kMaxLogprobs{20};  // the limit of OpenAI's API

// The parameters that a token is sampled with. The steps apply in vLLM's order: the row's mask, logit bias, penalties, temperature, min_p,
// top_k, top_p, draw. backend/sample.h has the formulas.
struct SampleParams {
  float temperature{0};  // 0: the likeliest token, ties to the lower id
  int top_k{0};          // 0: no limit
  float top_p{1};
  float min_p{0};
  float repetition_penalty{1};  // counts prompt and output
  float presence_penalty{0};    // over output
  float frequency_penalty{0};   // over output
  std::vector<std::pair<TokenId, float>> logit_bias{};
  uint64_t seed{0};  // the draw is a function of (seed, position) alone: same seed, same text
  // -1: none; n >= 0: those of the chosen token and of the n likeliest; at most kMaxLogprobs
  int num_logprobs{-1};
};

// The tokens that may be chosen in an output row: bit token % 32 of word token / 32, in mask_words(V) words. A backend asks once in a step,
// by one of its threads, and where it can while the forward pass runs: an answer may take some microseconds.
class TokenMask {
 public:
  virtual ~TokenMask() = default;
  virtual void fill(std::span<uint32_t> words) = 0;
};

// A row of the batch whose next token is wanted.
struct OutputRow {
  int token_index{0};                   // index in the run's tokens
  const SampleParams* sample{nullptr};  // null: no token is chosen (logits only)
  // The sequence so far; read for penalties only. Where the run `follows`, the token it waits for is not in it and counts all the same.
  std::span<const TokenId> prompt{}, output{};
  TokenMask* mask{nullptr};  // null: every token may be chosen
};

// The index of the token that token i of a tree stands behind, -1 where that is none of these. `parents` is empty where each stands
// behind the one before it: a chain.
inline int parent_of(std::span<const int> parents, size_t i) {
  return parents.empty() ? static_cast<int>(i) - 1 : parents[i];
}

// New tokens of one sequence, at consecutive positions that its page tables already cover.
struct Run {
  std::span<const TokenId> tokens{};
  int first_position{0};
  PageTableView full{}, sliding{};
  std::span<const OutputRow> outputs{};  // ascending token_index
  // n >= 0: the step before makes the run's tokens, and what `tokens` holds is not read. The first is the one that is chosen in output row n
  // of that step or, where drafts stand behind that row, behind the last of them that is right. The others are drafts, the first that the
  // step makes behind that token, of a chain (num_to_draft). Only for backends with steps_ahead() > 0 (backend/backend.h).
  int follows{-1};
  // Of a run that follows: the number of drafts behind row n. Each that is right puts all tokens one position further behind first_position,
  // and the page tables cover that. More than 0, or drafts of its own, only where the run before it asked for drafts; then its rows have no
  // penalties, and no run of the batch has a tree.
  int num_unsure{0};
  int num_drafted{
      0};  // of the tokens, the last ones that are drafts: right as long as the rows before them choose them
  // Not empty: the drafts are a tree, for which a backend must have takes_trees() (backend/backend.h). See parent_of(); the tokens that are
  // known are a chain, no two drafts behind the same token are equal, and one without an output row has one draft behind it at most.
  // A token's position is one behind its parent's; it sees the cache before the run, and the tokens that lead to it. Token i's slot in the
  // cache is that of position first_position + i: the pages cover all of these. Behind the step the right drafts lie at their positions
  // (StepResult::kept).
  std::span<const int> parents{};

  // The rest is for a draft head (model/draft_head/draft_head.h) and not read without one.
  TokenId next{-1};  // the token behind the last one, where it is known; else the last row chooses it
  int num_to_draft{
      0};  // tokens that the head drafts, behind the one that is chosen behind the last right draft
  int draft_topk{1};  // and how many for each of these places: more than 1 only with takes_trees()
};

// At most so many runs of a step may ask for drafts, and each for so many.
inline constexpr int kMaxDraftingRuns{64}, kMaxDraftsOfHead{16};

struct Batch {
  std::span<const Run> runs{};
  bool want_logits{false};  // returns the logits of all output rows as well
};

struct TokenLogprob {
  TokenId token{0};
  float logprob{
      0};  // natural logarithm; from the model's own distribution, before the mask, temperature and penalties
};

struct SampledToken {
  TokenId token{-1};                // -1: no token was requested, or no logit is a number above -infinity
  float logprob{0};                 // set if num_logprobs >= 0
  std::vector<TokenLogprob> top{};  // descending; num_logprobs entries
};

// A token that a draft head believes to come, and how much it believes so after those before it.
struct Draft {
  TokenId token{0};
  float probability{0};
};
struct Drafts {
  int first_position{0};
  std::vector<Draft> tokens{};
  std::vector<int> parents{};  // as parent_of() has them; the likeliest of those behind one token comes first
};

// When a device began a step and had its last token, by a clock of its own, in nanoseconds.
struct DeviceTimes {
  uint64_t begin_ns{0}, end_ns{0};
};

struct StepResult {
  std::vector<SampledToken> outputs;  // one for each output row, runs in order
  std::vector<float> logits;          // [output rows, V] if requested, else empty
  std::vector<Drafts> drafts{};       // of each run, if any asked for some
  // Of each run, if any has a tree of drafts: the right ones of a tree, as indices of its tokens, each behind the one before it. A draft
  // is right where the row of the right token before it chose it, or where that has no row. Their keys and values now lie behind those of
  // the known tokens, one at each position.
  std::vector<std::vector<int>> kept{};
  // Not set where a backend has no such clock, by a step that gives no token, and with a draft head, whose work comes behind the tokens.
  std::optional<DeviceTimes> device_times{};
};

}  // namespace nibble
