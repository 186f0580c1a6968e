// Benchmarks the constraint of a whole answer on one core, with the 200k vocabulary: compiling it for ten
// functions, then its mask, forced tokens and copy at each kind of position. Target for free text: the cost
// of copying one mask.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "grammar/languages/schema/json_schema.h"
#include "harmony/turn_constraint.h"
#include "tests/text/o200k.h"

namespace nibble::harmony {
namespace {

const grammar::VocabularyTrie& turn_vocabulary() {
  static const Tokenizer o200k = Tokenizer::open(test::o200k_path());
  static const grammar::VocabularyTrie trie(o200k);
  return trie;
}

std::shared_ptr<const TurnGrammar> ten_functions() {
  const auto object = grammar::compile_json_object().grammar;
  TurnRules rules{.body = object};
  for (const char* name : {"get_weather", "get_time", "search", "read_file", "write_file", "list_files",
                           "run_tests", "send_mail", "open_page", "book_flight"})
    rules.tools.push_back({std::string("functions.") + name, object});
  return std::make_shared<const TurnGrammar>(std::move(rules), turn_vocabulary());
}

struct Place {
  const char* label;
  const char* text;
};
constexpr Place kPlaces[]{{"the start", ""},
                          {"a channel", "<|channel|>"},
                          {"a recipient", "<|channel|>commentary to=functions."},
                          {"a thought", "<|channel|>analysis<|message|>So"},
                          {"behind a thought", "<|channel|>analysis<|message|>So<|end|>"},
                          {"a string of the body", "<|channel|>final<|message|>{\"a\": \"some"}};
constexpr int64_t kLastPlace{std::size(kPlaces) - 1};

TurnConstraint at_place(benchmark::State& state) {
  const Place& place = kPlaces[state.range(0)];
  state.SetLabel(place.label);
  TurnConstraint constraint(ten_functions());
  constraint.accept_begun(turn_vocabulary().tokenizer().encode(place.text, SpecialTokens::kRecognise));
  return constraint;
}

void compile_ten_functions(benchmark::State& state) {
  turn_vocabulary();
  for (auto _ : state) benchmark::DoNotOptimize(ten_functions());
}
BENCHMARK(compile_ten_functions)->Unit(benchmark::kMicrosecond);

void mask(benchmark::State& state) {
  TurnConstraint constraint = at_place(state);
  std::vector<uint32_t> words(turn_vocabulary().num_mask_words());
  for (auto _ : state) constraint.fill_mask(words);
}

void forced(benchmark::State& state) {
  TurnConstraint constraint = at_place(state);
  for (auto _ : state) benchmark::DoNotOptimize(constraint.forced_tokens());
}

void fork(benchmark::State& state) {
  const TurnConstraint constraint = at_place(state);
  for (auto _ : state) benchmark::DoNotOptimize(constraint.fork());
}

void whole_turn_accepted(benchmark::State& state) {
  const auto grammar = ten_functions();
  const std::vector<TokenId> tokens = turn_vocabulary().tokenizer().encode(
      "<|channel|>analysis<|message|>The user wants the "
      "weather.<|end|><|start|>assistant<|channel|>commentary "
      "to=functions.get_weather <|constrain|>json<|message|>{\"city\": \"Oslo\", \"days\": 3}<|call|>",
      SpecialTokens::kRecognise);
  for (auto _ : state) {
    TurnConstraint constraint(grammar);
    constraint.accept_begun(tokens);
  }
  state.counters["tokens"] = static_cast<double>(tokens.size());
}
BENCHMARK(whole_turn_accepted)->Unit(benchmark::kMicrosecond);

BENCHMARK(mask)->DenseRange(0, kLastPlace)->Unit(benchmark::kMicrosecond);
BENCHMARK(forced)->DenseRange(0, kLastPlace)->Unit(benchmark::kMicrosecond);
BENCHMARK(fork)->DenseRange(0, kLastPlace)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace nibble::harmony
