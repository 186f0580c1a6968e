// Checks values against a compiled schema, for tests in Python (tests/e2e/test_json_schema.py). Answers each
// line of input with a line:
//
//   {"schema": ..., "strict": false, "drops": false, "instances": [...], "texts": [...],
//    "samples": 3, "seed": 1}
//   {"accepted": [...], "texts": [...], "samples": [...], "warnings": [...]}   or   {"error": "..."}
//
// An instance is accepted if one of its texts is accepted: members in any order, numbers in any form. A text
// is checked as it is. A sample is a text of random tokens that the grammar's masks allow; only samples that
// are complete are returned.
#include <functional>
#include <iostream>
#include <optional>
#include <random>
#include <string>

#include "core/errors/error.h"
#include "core/text/json.h"
#include "core/tokens/token_mask.h"
#include "grammar/languages/schema/json_schema.h"
#include "grammar/matching/matcher.h"
#include "tests/folders.h"

namespace nibble::grammar {
namespace {

using Then = std::function<bool()>;

// Returns whether `matcher` accepts `text` and then `then` returns true. Leaves the matcher unchanged.
bool try_text(Matcher& matcher, const std::string& text, const Then& then) {
  const size_t num_steps = matcher.num_steps();
  const bool is_accepted = matcher.accept(text) && then();
  matcher.rollback(num_steps);
  return is_accepted;
}

bool try_value(Matcher& matcher, const Json& value, const Then& then);

bool try_members(Matcher& matcher, const Json& object, std::vector<bool>& is_used, size_t num_used,
                 const Then& then) {
  if (num_used == object.size()) return try_text(matcher, "}", then);
  size_t i = 0;
  for (const auto& [name, member] : object.items()) {
    const size_t at = i++;
    if (is_used[at]) continue;
    is_used[at] = true;
    const bool is_accepted =
        try_text(matcher, (num_used > 0 ? "," : "") + Json(name).dump() + ":", [&, &member = member] {
          return try_value(matcher, member,
                           [&] { return try_members(matcher, object, is_used, num_used + 1, then); });
        });
    is_used[at] = false;
    if (is_accepted) return true;
  }
  return false;
}

bool try_items(Matcher& matcher, const Json& array, size_t from, const Then& then) {
  if (from == array.size()) return try_text(matcher, "]", then);
  return try_text(matcher, from > 0 ? "," : "", [&] {
    return try_value(matcher, array[from], [&] { return try_items(matcher, array, from + 1, then); });
  });
}

bool try_value(Matcher& matcher, const Json& value, const Then& then) {
  if (value.is_object()) {
    std::vector<bool> is_used(value.size());
    return try_text(matcher, "{", [&] { return try_members(matcher, value, is_used, 0, then); });
  }
  if (value.is_array()) return try_text(matcher, "[", [&] { return try_items(matcher, value, 0, then); });
  if (try_text(matcher, value.dump(), then)) return true;
  if (!value.is_number_float()) return value.is_number() && try_text(matcher, value.dump() + ".0", then);
  char digits[400];
  std::snprintf(digits, sizeof digits, "%.0f", value.get<double>());
  return std::stod(digits) == value.get<double>() && try_text(matcher, digits, then);
}

// Draws legal tokens, mostly tokens that close something, because otherwise a text rarely ends.
std::optional<std::string> sample(Matcher matcher, const VocabularyTrie& vocabulary, std::mt19937& random) {
  constexpr int kMaxTokens{400};
  const Tokenizer& tokenizer = vocabulary.tokenizer();
  std::vector<uint32_t> mask(vocabulary.num_mask_words());
  std::string text;
  for (int i = 0; i < kMaxTokens; ++i) {
    matcher.fill_mask(mask);
    std::vector<TokenId> legal;
    for (TokenId token = 0; token < tokenizer.num_tokens(); ++token)
      if (has_token(mask, token)) legal.push_back(token);
    if (legal.empty() || (matcher.is_complete() && random() % 3 == 0)) break;
    TokenId chosen = legal[random() % legal.size()];
    for (int tries = 0; tries < 30 && random() % 20 != 0; ++tries)
      if (const TokenId other = legal[random() % legal.size()];
          tokenizer.bytes(other).find_first_of("\"}]") != std::string_view::npos)
        chosen = other;
    if (!matcher.accept(chosen)) throw InputError("the mask allows token {}, which is not accepted", chosen);
    text += tokenizer.bytes(chosen);
  }
  return matcher.is_complete() ? std::optional(text) : std::nullopt;
}

Json answer(const Json& question, const VocabularyTrie& vocabulary) {
  const Compiled compiled = compile_json_schema(
      question.at("schema"),
      {.is_strict = question.value("strict", false), .drops_unenforceable = question.value("drops", false)});
  Json result{{"accepted", Json::array()},
              {"texts", Json::array()},
              {"samples", Json::array()},
              {"warnings", compiled.warnings}};
  Matcher matcher(compiled.grammar, vocabulary);
  const Then at_end = [&] { return matcher.is_complete(); };
  for (const Json& instance : question.value("instances", Json::array()))
    result["accepted"].push_back(try_value(matcher, instance, at_end));
  for (const Json& text : question.value("texts", Json::array()))
    result["texts"].push_back(try_text(matcher, text.get<std::string>(), at_end));
  std::mt19937 random(question.value("seed", 0u));
  for (int i = question.value("samples", 0); i > 0; --i)
    if (const auto text = sample(matcher, vocabulary, random)) result["samples"].push_back(*text);
  return result;
}

}  // namespace
}  // namespace nibble::grammar

int main() {
  const nibble::Tokenizer tokenizer =
      nibble::Tokenizer::open(nibble::test::source_path("models/tiny-gpt-oss/tokenizer.json"));
  const nibble::grammar::VocabularyTrie vocabulary(tokenizer);
  for (std::string line; std::getline(std::cin, line);) {
    nibble::Json result;
    try {
      result = nibble::grammar::answer(nibble::Json::parse(line), vocabulary);
    } catch (const nibble::InputError& error) {
      result = {{"error", error.what()}};
    }
    std::cout << result.dump() << '\n' << std::flush;
  }
}
