// A conversation with the server: one request, or several turns whose prompts grow with the answers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/bench_serve/workload.h"
#include "core/text/json.h"

namespace nibble::cli {

// The part of an answer that the prompt of the next turn contains: a chat's content, or a completion's token
// ids.
struct AnswerText {
  std::string content;
  std::vector<int64_t> tokens;
};

class BenchConversation {
 public:
  // `index` identifies the conversation. The workload must outlive this object.
  BenchConversation(const Workload& workload, uint64_t index);

  bool has_next() const { return num_sent_ < workload_->num_turns; }
  // Returns the body of the next request: streamed, with usage, and with ignore_eos, so that servers which
  // support it generate exactly max_tokens. The prompt of a completion is token ids. The prompt of a chat is
  // words, each of which is one token in gpt-oss's vocabulary; the server's chat template adds more tokens.
  Json next_body();
  // Throws InputError if the next turn cannot repeat the answer.
  void add_answer(const AnswerText& answer);

 private:
  void add_prompt(const RequestShape& shape, uint64_t request);
  void add_text(uint64_t seed, int num_tokens);

  const Workload* workload_;
  uint64_t index_;
  int num_sent_{0};
  Json ids_ = Json::array();       // completions: the prompt
  Json messages_ = Json::array();  // chats: the prompt
  std::string words_;              // chat: the user's next message
};

}  // namespace nibble::cli
