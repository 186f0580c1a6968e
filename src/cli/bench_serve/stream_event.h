// The events of a streamed answer of OpenAI's API.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench_serve/latency.h"

namespace nibble::cli {

struct StreamEvent {
  bool has_text{false};           // includes reasoning and tool calls
  bool has_choice{false};         // false for the stream's last event, which has only the usage
  bool is_done{false};            // "[DONE]"
  std::string content{};          // text of a chat
  std::string reasoning{};        // the model's reasoning before the content
  std::string finish_reason{};    // set in the last event of a choice
  std::vector<int64_t> tokens{};  // ids, if requested
  std::optional<int64_t> num_prompt_tokens{}, num_output_tokens{}, num_cached_tokens{};
  std::string error{};  // message of an error event; empty: no error
};
StreamEvent read_event(const std::string& data);

// Adds an event, which arrived at time `arrived`, to the answer. An event has a token if it has text, or if
// its usage counts more output tokens than earlier events. Text without usage counts as one token.
void add_event(const StreamEvent& event, double arrived, TimedAnswer& answer);

// Returns the message of an error reply. For any other body, returns its beginning.
std::string message_of(const std::string& body);

}  // namespace nibble::cli
