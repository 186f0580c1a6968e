#include "cli/sequence.h"

#include <algorithm>
#include <vector>

#include "core/check.h"

namespace nibble::cli {
namespace {

// Logits of a step are held at once: at most 256 MB of them, which is 333 rows of gpt-oss.
constexpr int kMaxLogits{1 << 26};

}  // namespace

Sequence::Sequence(Backend& backend, const BackendOptions& room)
    : backend_(backend),
      max_rows_(std::clamp(kMaxLogits / backend.config().vocab, 1, room.max_batch_tokens)),
      full_(room.num_full_pages),
      sliding_(room.num_sliding_pages),
      pages_(full_, sliding_, backend.config().window) {}

void Sequence::feed(std::span<const TokenId> tokens, const Visit& visit) {
  const size_t vocab = static_cast<size_t>(backend_.config().vocab);
  while (!tokens.empty()) {
    const int num_rows = std::min(max_rows_, static_cast<int>(tokens.size()));
    const bool has_room = pages_.reserve(num_rows);
    NIBBLE_CHECK(has_room, "{} tokens behind {}", num_rows, pages_.length());
    std::vector<OutputRow> outputs(static_cast<size_t>(num_rows));
    for (int row = 0; row < num_rows; ++row) outputs[static_cast<size_t>(row)].token_index = row;
    Run run;
    run.tokens = tokens.first(static_cast<size_t>(num_rows));
    run.first_position = pages_.length();
    run.full = pages_.full();
    run.sliding = pages_.sliding();
    run.outputs = outputs;
    const StepResult result = backend_.step({{&run, 1}, /*want_logits=*/true});
    for (int row = 0; row < num_rows; ++row)
      visit(run.first_position + row,
            std::span(result.logits).subspan(static_cast<size_t>(row) * vocab, vocab));
    pages_.advance(num_rows);
    tokens = tokens.subspan(static_cast<size_t>(num_rows));
  }
}

}  // namespace nibble::cli
