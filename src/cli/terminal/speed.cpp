#include "cli/terminal/speed.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/text/bytes_text.h"

namespace nibble::cli {
namespace {

std::string duration_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.0f} ms", seconds * 1000) : fmt::format("{:.1f} s", seconds);
}

}  // namespace

Speed speed_of(const Config& config, const StorageFormats& formats, const FinishedEvent& finished) {
  Speed speed;
  if (finished.prefill_seconds > 0)
    speed.prefill_tokens_per_second =
        (finished.num_prompt_tokens - finished.num_cached_tokens) / finished.prefill_seconds;
  const int num_decoded = finished.num_output_tokens - 1;  // prefill samples the answer's first token
  if (num_decoded < 1 || finished.decode_seconds <= 0) return speed;
  speed.decode_tokens_per_second = num_decoded / finished.decode_seconds;
  const int middle = finished.num_prompt_tokens + finished.num_output_tokens / 2;
  speed.bytes_per_token = static_cast<double>(total(step_costs(config, formats, 1, middle)).bytes_touched());
  return speed;
}

std::vector<double> acceptance_by_place(const speculative::DraftCounts& drafts) {
  std::vector<double> shares;
  for (const uint64_t num_accepted : drafts.accepted_at)
    shares.push_back(static_cast<double>(num_accepted) / static_cast<double>(drafts.num_drafts));
  return shares;
}

std::string describe(const FinishedEvent& finished, const Speed& speed) {
  const std::string cached =
      finished.num_cached_tokens > 0 ? fmt::format(" ({} cached)", finished.num_cached_tokens) : "";
  std::string text = fmt::format("{} prompt tokens{} at {:.0f} tok/s, first token after {}, {} output tokens",
                                 finished.num_prompt_tokens, cached, speed.prefill_tokens_per_second,
                                 duration_text(finished.queue_seconds + finished.prefill_seconds),
                                 finished.num_output_tokens);
  if (speed.decode_tokens_per_second > 0)
    text += fmt::format(" at {:.1f} tok/s, reading {} per token: {}/s", speed.decode_tokens_per_second,
                        bytes_text(speed.bytes_per_token),
                        bytes_text(speed.bytes_per_token * speed.decode_tokens_per_second));
  if (const speculative::DraftCounts& drafts = finished.drafts; drafts.num_drafts > 0) {
    text += fmt::format(", {:.2f} tokens per step, {} of {} drafts accepted",
                        static_cast<double>(finished.num_output_tokens) / finished.num_steps,
                        drafts.num_accepted, drafts.num_tokens);
    if (drafts.num_accepted > 0)
      text += fmt::format(", by position {:.2f}", fmt::join(acceptance_by_place(drafts), " "));
  }
  return fmt::format("{} ({})", text, name(finished.reason));
}

std::string describe_cut(const FinishedEvent& finished) {
  switch (finished.reason) {
    case FinishReason::kStopToken:
    case FinishReason::kStopString:
      return "";
    case FinishReason::kMaxTokens:
      return fmt::format("(cut off after {} tokens: --max-tokens)", finished.num_output_tokens);
    case FinishReason::kContextFull:
      return "(cut off: the context is full; --context)";
    case FinishReason::kCancelled:
      return "(cancelled)";
  }
  return "";
}

}  // namespace nibble::cli
