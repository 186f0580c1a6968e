#include "cli/bench_serve/conversation.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/errors/error.h"
#include "core/numbers/random.h"

namespace nibble::cli {
namespace {

// With a leading space, each of these words is one token, also in the bundled model's vocabulary.
constexpr const char* kWords[]{
    "time",    "year",     "people", "way",    "day",     "man",    "thing",  "woman", "life", "child",
    "world",   "school",   "state",  "family", "country", "hand",   "part",   "place", "case", "week",
    "company", "question", "work",   "number", "night",   "point",  "home",   "water", "room", "mother",
    "money",   "story",    "fact",   "month",  "right",   "study",  "book",   "eye",   "word", "business",
    "side",    "kind",     "head",   "house",  "service", "friend", "father", "power", "hour", "line",
    "end",     "law",      "car",    "city",   "name",    "minute", "idea",   "body",  "back", "face",
    "others",  "office",   "door",   "health"};

}  // namespace

BenchConversation::BenchConversation(const Workload& workload, uint64_t index)
    : workload_(&workload), index_(index) {}

Json BenchConversation::next_body() {
  const Workload& workload = *workload_;
  const uint64_t request =
      index_ * static_cast<uint64_t>(workload.num_turns) + static_cast<uint64_t>(num_sent_);
  const RequestShape shape = shape_of(workload, request);
  add_prompt(shape, request);
  ++num_sent_;

  Json body{{"model", workload.model}};
  if (workload.api == BenchApi::kCompletions) {
    body["prompt"] = ids_;
    if (has_next()) body["return_token_ids"] = true;  // the next turn's prompt repeats the answer's ids
  } else {
    messages_.push_back({{"role", "user"}, {"content", std::exchange(words_, {}).substr(1)}});
    body["messages"] = messages_;
  }
  body["max_tokens"] = shape.num_output_tokens;
  body["temperature"] = workload.temperature;
  body["ignore_eos"] = true;
  body["stream"] = true;
  // Usage in each event reveals tokens that have no text.
  body["stream_options"] = {{"include_usage", true}, {"continuous_usage_stats", true}};
  body.update(workload.extra_body);
  return body;
}

void BenchConversation::add_answer(const AnswerText& answer) {
  if (!has_next()) return;
  if (workload_->api == BenchApi::kChat) {
    messages_.push_back({{"role", "assistant"}, {"content", answer.content}});
    return;
  }
  if (answer.tokens.empty())
    throw InputError(
        "--turns: the server does not return the ids of an answer's tokens (return_token_ids), which the "
        "next prompt must repeat; use --api chat");
  for (const int64_t token : answer.tokens) ids_.push_back(token);
}

// Appends a shared prefix (first turn only), the blocks of a trace, and tokens that no other request has.
void BenchConversation::add_prompt(const RequestShape& shape, uint64_t request) {
  const Workload& workload = *workload_;
  if (num_sent_ == 0 && workload.num_prefix_tokens > 0) {
    const double unit = random_unit(seed_of(workload.seed, Draw::kPrefix), index_);
    const auto prefix = static_cast<uint64_t>(unit * workload.num_prefixes);
    add_text(random_bits(seed_of(workload.seed, Draw::kPrefixText), prefix), workload.num_prefix_tokens);
  }
  int num_left = shape.num_prompt_tokens;
  for (const uint64_t seed : shape.blocks) {
    add_text(seed, std::min(num_left, kTraceBlockTokens));
    num_left -= std::min(num_left, kTraceBlockTokens);
  }
  add_text(random_bits(seed_of(workload.seed, Draw::kText), request), num_left);
}

void BenchConversation::add_text(uint64_t seed, int num_tokens) {
  for (int i = 0; i < num_tokens; ++i) {
    const uint64_t bits = random_bits(seed, static_cast<uint64_t>(i));
    if (workload_->api == BenchApi::kCompletions)
      ids_.push_back(bits % static_cast<uint64_t>(workload_->vocab_size));
    else
      words_.append(" ").append(kWords[bits % std::size(kWords)]);
  }
}

}  // namespace nibble::cli
