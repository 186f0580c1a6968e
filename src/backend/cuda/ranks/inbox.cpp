#include "backend/cuda/ranks/inbox.h"

#include <algorithm>

#include "backend/cuda/chip/device.h"
#include "backend/cuda/memory/arena.h"
#include "backend/cuda/memory/workspace.h"

namespace nibble::cuda {
namespace {

int rounded_up(int count, int size) { return (count + size - 1) / size; }

Inbox place_inbox(const Config& config, int num_ranks, int max_batch_tokens, Arena& arena) {
  const size_t senders = num_ranks, hidden = config.hidden, words = tagged_rows(num_ranks),
               rows = std::min(max_batch_tokens, kSumRows), owned = own_room(num_ranks, max_batch_tokens);
  Inbox inbox;
  inbox.words = arena.take_array<uint64_t>(kInboxSlots * senders * words * hidden);
  inbox.terms = arena.take_array<float>(senders * owned * hidden);
  inbox.flags = arena.take_array<uint32_t>(senders * owned);
  inbox.returned = arena.take_array<uint32_t>(rows);
  inbox.arrivals = arena.take_array<uint32_t>(senders);
  return inbox;
}

}  // namespace

int own_room(int num_ranks, int max_batch_tokens) {
  return most_owned(std::min(max_batch_tokens, kSumRows), num_ranks);
}

size_t inbox_bytes(const Config& config, int num_ranks, int max_batch_tokens) {
  if (num_ranks == 1) return 0;
  Arena arena(nullptr);
  place_inbox(config, num_ranks, max_batch_tokens, arena);
  return arena.size();
}

OwnedInbox::OwnedInbox(const Config& config, int num_ranks, int max_batch_tokens, Stream stream)
    : bytes_(inbox_bytes(config, num_ranks, max_batch_tokens)) {
  if (num_ranks == 1) return;
  Arena arena(bytes_.as<uint8_t>());
  inbox_ = place_inbox(config, num_ranks, max_batch_tokens, arena);
  check(cudaMemsetAsync(bytes_.as<void>(), 0, bytes_.bytes(), stream), "clearing an inbox");
}

StepNumbers::StepNumbers(const Config& config, int max_batch_tokens)
    : sums_of_half_(rounded_up(max_batch_tokens, kSumRows)),
      num_sums_(2 * config.num_layers * sums_of_half_),
      num_meetings_(2 * rounded_up(max_batch_tokens, kMeetingOutputs)) {
  static_assert(kDownloadedRows % kMeetingOutputs == 0 && kOutputRows % kMeetingOutputs == 0);
}

FailureFlag::FailureFlag() : word_(sizeof(uint32_t)) { *data() = 0; }

bool FailureFlag::take() {
  auto* word = static_cast<volatile uint32_t*>(data());
  return *word != 0 && (*word = 0, true);
}

}  // namespace nibble::cuda
