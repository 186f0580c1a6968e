#include "cli/measure/coherence.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "cli/measure/backend_sequence.h"
#include "core/errors/error.h"
#include "core/text/json_text.h"
#include "harmony/chat.h"
#include "harmony/control_tokens.h"
#include "harmony/parse.h"
#include "harmony/render.h"
#include "kv/page_counts.h"
#include "setup/model/tokenizer.h"

namespace nibble::cli {
namespace {

constexpr std::string_view kRightNumber{"42"};
constexpr size_t kMostShown{160};  // most bytes of an answer that a line shows

std::vector<TokenId> question_tokens(const Tokenizer& tokenizer) {
  harmony::Chat chat;
  chat.reasoning_effort = harmony::ReasoningEffort::kLow;
  chat.date = "2026-01-01";  // fixed: answers of two days must be comparable
  chat.messages.emplace_back().text = kCoherenceQuestion;
  return harmony::render(harmony::to_conversation(chat), tokenizer, {}).tokens;
}

// Returns the model's greedy continuation of `prompt`, up to a stop token.
std::vector<TokenId> continue_greedily(BackendSequence& sequence, std::span<const TokenId> prompt,
                                       const std::vector<TokenId>& stops) {
  TokenId next{};
  const auto take_likeliest = [&](int, std::span<const float> logits) {
    next = static_cast<TokenId>(std::ranges::max_element(logits) - logits.begin());
  };
  sequence.feed(prompt.first(prompt.size() - 1));
  sequence.feed(prompt.last(1), take_likeliest);
  std::vector<TokenId> answer;
  while (std::ssize(answer) < kCoherenceTokens && std::ranges::find(stops, next) == stops.end()) {
    answer.push_back(next);
    sequence.feed(std::span(&answer.back(), 1), take_likeliest);
  }
  return answer;
}

// Returns the text for the user; the whole answer if it has no such text (a broken model's noise).
std::string text_of_answer(const std::vector<TokenId>& answer, const Tokenizer& tokenizer) {
  harmony::Parser parser(tokenizer, harmony::Role::kAssistant);
  for (const TokenId token : answer) parser.push(token);
  parser.finish();
  std::string text;
  for (const harmony::ParsedMessage& parsed : parser.messages())
    if (harmony::part_of(parsed.message) == harmony::AnswerPart::kAnswer) text += parsed.message.text;
  return text.empty() ? tokenizer.decode(answer) : text;
}

}  // namespace

bool is_right(std::string_view answer) {
  const auto is_digit_at = [&](size_t at) {
    return at < answer.size() && answer[at] >= '0' && answer[at] <= '9';
  };
  for (size_t at = answer.find(kRightNumber); at != answer.npos; at = answer.find(kRightNumber, at + 1))
    if (!(at > 0 && is_digit_at(at - 1)) && !is_digit_at(at + kRightNumber.size())) return true;
  return false;
}

Coherence ask(Backend& backend, const BackendOptions& room, const Model& model, const Places& places) {
  if (model.source.synthetic) return {std::nullopt, "the weights are random"};
  if (places.vocabulary == Places::Vocabulary::kBytes) return {std::nullopt, "--tokenizer bytes"};
  try {  // a missing vocabulary must not stop a benchmark
    const Tokenizer tokenizer = open_tokenizer(model.source, places);
    const std::vector<TokenId> prompt = question_tokens(tokenizer);
    if (*std::ranges::max_element(prompt) >= model.config.vocab)
      return {std::nullopt, "the vocabulary is not the model's"};
    const int num_pages = num_pages_for(static_cast<int>(prompt.size()) + kCoherenceTokens);
    if (2 * num_pages > room.num_pages)  // num_pages for each kind of layer
      return {std::nullopt, "the context is too short"};
    std::vector<TokenId> stops = harmony::stop_tokens(tokenizer);
    stops.insert(stops.end(), model.config.eos.begin(), model.config.eos.end());
    BackendSequence sequence(backend, room);
    return {text_of_answer(continue_greedily(sequence, prompt, stops), tokenizer), ""};
  } catch (const InputError& error) {
    return {std::nullopt, error.what()};
  }
}

std::string coherence_line(const Coherence& coherence) {
  if (!coherence.answer && coherence.reason.empty()) return "";
  if (!coherence.answer) return fmt::format("- coherence: not checked: {}\n", coherence.reason);
  const std::string shown = json_text(nlohmann::json(coherence.answer->substr(0, kMostShown)));
  return fmt::format("- coherence: {}: \"{}\" is answered with {}\n",
                     is_right(*coherence.answer) ? "right" : "DOUBTFUL", kCoherenceQuestion, shown);
}

Json to_json(const Coherence& coherence) {
  if (!coherence.answer) return nullptr;
  return {{"question", kCoherenceQuestion},
          {"answer", *coherence.answer},
          {"is_right", is_right(*coherence.answer)}};
}

}  // namespace nibble::cli
