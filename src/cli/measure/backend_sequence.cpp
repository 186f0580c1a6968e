#include "cli/measure/backend_sequence.h"

#include <algorithm>
#include <utility>

#include "core/errors/check.h"

namespace nibble::cli {
namespace {

// Maximum number of logits that one step returns: 256 MB, which is 333 tokens of gpt-oss.
constexpr int kMaxLogits{1 << 26};

// Requests the likeliest next token after the step's token at `index`.
OutputRow greedy_row(size_t index) {
  static const SampleParams kGreedy;
  return {.token_index = static_cast<int>(index), .sample = &kGreedy, .prompt = {}, .output = {}};
}

}  // namespace

BackendSequence::BackendSequence(Backend& backend, const BackendOptions& room)
    : BackendSequence(backend, room.max_batch_tokens, std::make_shared<PagePool>(room.num_pages)) {}

BackendSequence::BackendSequence(Backend& backend, int max_batch_tokens, std::shared_ptr<PagePool> pool)
    : backend_(backend),
      max_batch_tokens_(max_batch_tokens),
      max_rows_(std::clamp(kMaxLogits / backend.config().vocab, 1, max_batch_tokens)),
      pool_(std::move(pool)),
      pages_(*pool_, backend.config().window) {}

BackendSequence BackendSequence::beside() const { return {backend_, max_batch_tokens_, pool_}; }

void BackendSequence::feed(std::span<const TokenId> tokens, const Visit& visit) {
  const size_t vocab = static_cast<size_t>(backend_.config().vocab);
  while (!tokens.empty()) {
    const int num_rows = std::min(max_rows_, static_cast<int>(tokens.size()));
    reserve(num_rows);
    std::vector<OutputRow> outputs(static_cast<size_t>(num_rows));
    for (int row = 0; row < num_rows; ++row) outputs[static_cast<size_t>(row)].token_index = row;
    const StepResult result = step(tokens.first(static_cast<size_t>(num_rows)), 0, outputs, true);
    for (int row = 0; row < num_rows; ++row)
      visit(length() + row, std::span(result.logits).subspan(static_cast<size_t>(row) * vocab, vocab));
    pages_.advance(num_rows);
    tokens = tokens.subspan(static_cast<size_t>(num_rows));
  }
}

void BackendSequence::feed(std::span<const TokenId> tokens) {
  while (!tokens.empty()) {
    const int num_rows = std::min(max_batch_tokens_, static_cast<int>(tokens.size()));
    reserve(num_rows);
    step(tokens.first(static_cast<size_t>(num_rows)), 0, {}, false);
    pages_.advance(num_rows);
    tokens = tokens.subspan(static_cast<size_t>(num_rows));
  }
}

void BackendSequence::reserve(int num_tokens) {
  const bool has_room = pages_.reserve(num_tokens);
  NIBBLE_CHECK(has_room, "{} tokens after {}", num_tokens, pages_.length());
}

void BackendSequence::run_checking_step(std::span<const TokenId> tokens, int offset) {
  std::vector<OutputRow> outputs;
  for (size_t row = 0; row < tokens.size(); ++row) outputs.push_back(greedy_row(row));
  step(tokens, offset, outputs, false);
}

void BackendSequence::run_repeatable_step(std::span<const TokenId> tokens, int offset, bool wants_next) {
  const OutputRow last = greedy_row(tokens.size() - 1);
  step(tokens, offset, {&last, wants_next ? size_t{1} : size_t{0}}, false);
}

Run BackendSequence::run_of(std::span<const TokenId> tokens, int offset,
                            std::span<const OutputRow> outputs) const {
  Run run;
  run.tokens = tokens;
  run.first_position = length() + offset;
  run.full = pages_.full();
  run.sliding = pages_.sliding();
  run.outputs = outputs;
  return run;
}

StepResult BackendSequence::step(std::span<const TokenId> tokens, int offset,
                                 std::span<const OutputRow> outputs, bool want_logits) {
  const Run run = run_of(tokens, offset, outputs);
  return backend_.step({{&run, 1}, want_logits});
}

}  // namespace nibble::cli
