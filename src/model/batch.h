// Input and result of one step of a backend. Prefill, chunked prefill, decode and mixtures are the same call.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/tokens/token_mask.h"

namespace nibble {

// A page holds kPageTokens consecutive positions of one sequence for all full or for all sliding layers. Any
// page of a KV cache can be used for either kind of layer.
enum class PageId : uint32_t {};
inline constexpr int kPageTokens{32};

// Page table of one sequence and one kind of layer. Position p is in slot p % kPageTokens of page pages[p /
// kPageTokens - first_page].
struct PageTableView {
  std::span<const PageId> pages{};
  // Index of pages[0] among the sequence's pages. Earlier pages were given back: no window reaches them.
  int first_page{0};
};

// A LoRA adapter that the backend keeps apart from its weights: index in BackendOptions::adapters.
enum class AdapterId : uint32_t {};

inline constexpr int kMaxLogprobs{20};  // the limit in OpenAI's API

// How to sample a token. The steps, in vLLM's order, are mask, logit bias, penalties, temperature, min_p,
// top_k, top_p, draw. backend/sample.h has the formulas.
struct SampleParams {
  float temperature{0};  // 0: the likeliest token, ties to the lower id
  int top_k{0};          // 0: no limit
  float top_p{1};
  float min_p{0};
  float repetition_penalty{1};  // applies to tokens in the prompt or the answer
  float presence_penalty{0};    // applies to tokens in the answer
  float frequency_penalty{0};   // applies to tokens in the answer
  std::vector<std::pair<TokenId, float>> logit_bias{};
  uint64_t seed{0};  // the draw depends only on (seed, position): same seed, same text
  // -1: none. n >= 0: log-probabilities of the chosen and of the n likeliest tokens, n <= kMaxLogprobs.
  int num_logprobs{-1};
};

// The tokens that may be chosen in an output row: bit (token % 32) of word (token / 32), in mask_words(V)
// words. fill() runs once per step and row, on one thread, during the forward pass if possible.
class TokenMask {
 public:
  virtual ~TokenMask() = default;
  virtual void fill(std::span<uint32_t> words) = 0;
};

struct OutputRow {                      // a row of the step for which a token is sampled
  int token_index{0};                   // index in Run::tokens
  const SampleParams* sample{nullptr};  // null: no token is chosen (logits only)
  // The sequence's known tokens, read only for penalties. With Run::ahead, `output` lacks the token that the
  // previous step samples, but the backend includes that token in penalties.
  std::span<const TokenId> prompt{}, output{};
  TokenMask* mask{nullptr};  // null: every token may be chosen
};

// Returns the index of the token before token i in a tree; -1 if that token is not in the tree. An empty
// `parents` means a chain: each token follows the one before it.
inline int parent_of(std::span<const int> parents, size_t i) {
  return parents.empty() ? static_cast<int>(i) - 1 : parents[i];
}

// The drafts among the tokens of a run. A draft is accepted if its parent is known or accepted, and the
// parent's output row, if it has one, samples the draft. Trees need a backend with takes_trees()
// (backend/backend.h). The known tokens form a chain, no two drafts with the same parent are equal, and a
// token without an output row has at most one child. A token's position is one after its parent's; it
// attends to the cache before the run and to its ancestors. Token i uses the cache slot of position
// first_position + i. The step moves accepted drafts to the slots of their positions.
struct DraftedTokens {
  int count{0};  // number of drafts: the last tokens of the run
  // Parent of each token of the run, see parent_of(). Empty: the drafts are a chain.
  std::span<const int> parents{};
};

// Source of the tokens of a run that is launched before its tokens are known. The previous step samples the
// first token. The other tokens are the first drafts that the draft head makes after that token. Needs
// steps_ahead() > 0 (backend/backend.h). If num_unsure > 0 or the run has drafts, three more conditions hold:
// the sequence's run in the previous step has requested drafts, the rows of this run have no penalties, and
// no run of the batch has a tree.
struct Ahead {
  // Index of the previous step's output row that samples the first token. If drafts follow that row, the row
  // of the last accepted draft samples it instead.
  int output_row{0};
  // Number of drafts after output_row in the previous step. Each draft that is accepted increases the
  // positions of this run by one.
  int num_unsure{0};
};

// A request for drafts that the draft head makes after the run. The first draft follows the token that is
// sampled after the last accepted draft.
struct DraftRequest {
  int num_tokens{1};  // 1 to kMaxDraftsOfHead
  int topk{1};        // number of alternatives per position; above 1 only with takes_trees()
};

struct Run {                          // new tokens of one sequence, at consecutive positions
  std::span<const TokenId> tokens{};  // if `ahead` is set, only the number of tokens is read
  int first_position{0};
  // Pages for the positions that the tokens have if all Ahead::num_unsure drafts are accepted.
  PageTableView full{}, sliding{};
  std::span<const OutputRow> outputs{};  // sorted by token_index, ascending
  DraftedTokens drafted{};
  std::optional<Ahead> ahead{};  // not set: the tokens are known
  // The token after the run's last token; read only by the draft head. Not set: the last row samples it.
  std::optional<TokenId> next{};
  std::optional<DraftRequest> draft_request{};  // ignored without a draft head, or if `next` is set
  // The adapter of all rows of the run. The run's pages must hold keys and values that were computed with
  // this adapter. Not set: the model without adapters.
  std::optional<AdapterId> adapter{};
};

// Whether the draft head makes drafts after the run, provided that one of the run's rows samples a token.
inline bool begins_drafts(const Run& run) { return run.draft_request && !run.next; }

// Maximum number of runs in a step that request drafts, and of drafts per run.
inline constexpr int kMaxDraftingRuns{64}, kMaxDraftsOfHead{16};

struct Batch {
  std::span<const Run> runs{};
  bool want_logits{false};  // also return the logits of all output rows
  // Another thread sets it to true once no caller needs the step any more. The backend may then abandon the
  // step (it throws StepCut, backend/backend.h) or finish it. Null: the step is needed. A step that several
  // ranks run together is always finished.
  const std::atomic<bool>* is_unneeded{nullptr};
};

struct TokenLogprob {
  TokenId token{0};
  // Natural logarithm of the model's own probability, before the mask, temperature and penalties.
  float logprob{0};
};

struct SampledToken {
  TokenId token{-1};                // -1: no token was requested, or no logit is above -infinity
  float logprob{0};                 // set if num_logprobs >= 0
  std::vector<TokenLogprob> top{};  // the likeliest tokens, descending; num_logprobs entries
};

struct Draft {  // a token drafted by a head, and its probability given the drafts before it
  TokenId token{0};
  float probability{0};
};
struct Drafts {
  int first_position{0};
  std::vector<Draft> tokens{};
  std::vector<int> parents{};  // see parent_of(); siblings are sorted by probability, descending
};

// Times at which a device began a step and had sampled its last token, in nanoseconds of the device's own
// clock.
struct DeviceTimes {
  uint64_t begin_ns{0}, end_ns{0};
};

struct StepResult {
  std::vector<SampledToken> outputs;  // one for each output row, in the order of the runs
  std::vector<float> logits;          // [output rows, V] if requested, else empty
  std::vector<Drafts> drafts{};       // one for each run; empty if no run requested drafts
  // The accepted drafts of each run, as indices of the run's tokens. Each is the parent of the next. Empty if
  // no run has a tree. The step has moved the keys and values of these drafts to the positions after the
  // known tokens.
  std::vector<std::vector<int>> kept{};
  // Not set if the device has no clock, the step samples no token, or the backend has a draft head, which
  // may still run after the last token is sampled.
  std::optional<DeviceTimes> device_times{};
};

}  // namespace nibble
