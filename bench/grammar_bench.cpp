// Grammars on one core, with the 200k vocabulary: what compiling takes, and for each token of a text its mask, at the median and the
// 99th percentile of all masks. To be reached: 20 ms for a schema of 100 properties, masks of 50 us at the median and 500 us at the
// 99th percentile.
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "grammar/json_schema.h"
#include "grammar/lark.h"
#include "grammar/matcher.h"
#include "grammar/regex.h"
#include "tests/text/o200k.h"

namespace nibble::grammar {
namespace {

const Tokenizer& tokenizer() {
  static const Tokenizer o200k = Tokenizer::open(test::o200k_path());
  return o200k;
}

const VocabularyTrie& vocabulary() {
  static const VocabularyTrie trie(tokenizer());
  return trie;
}

struct Document {
  Json schema;
  std::string text;  // that fulfils it
};

// A hundred members of eight kinds, half of them required.
Document hundred_properties() {
  const std::pair<const char*, const char*> kKinds[]{
      {R"({"type":"string"})", R"("The quick brown fox jumps over the lazy dog, and back again.")"},
      {R"({"type":"integer","minimum":0,"maximum":1000})", "123"},
      {R"({"type":"string","maxLength":30})", R"("not more than thirty")"},
      {R"({"enum":["red","green","blue"]})", R"("green")"},
      {R"({"type":"array","items":{"type":"number"}})", "[1.5, 2, 3e5]"},
      {R"({"type":"string","format":"date-time"})", R"("2026-11-22T12:34:56Z")"},
      {R"({"type":"object","properties":{"x":{"type":"boolean"},"y":{"anyOf":[{"type":"string"},{"type":"null"}]}}})",
       R"({"x": true, "y": null})"},
      {R"({"type":"string","pattern":"^[A-Za-z_][A-Za-z0-9_]*$"})", R"("an_identifier_2")"}};
  Document document{{{"type", "object"}, {"properties", Json::object()}, {"required", Json::array()}}, "{"};
  for (int i = 0; i < 100; ++i) {
    const auto& [schema, value] = kKinds[i % 8];
    const std::string name = "property_" + std::to_string(i);
    document.schema["properties"][name] = Json::parse(schema);
    if (i % 2 == 0) document.schema["required"].push_back(name);
    document.text += (i > 0 ? ", \"" : "\"") + name + "\": " + value;
  }
  document.text += "}";
  return document;
}

std::string any_json() {
  std::string text = "{\"rows\": [";
  for (int i = 0; i < 20; ++i)
    text +=
        std::string(i > 0 ? ", " : "") + R"({"name": "Alice Example", "age": )" + std::to_string(20 + i) +
        R"(, "tags": ["first", "second one"], "note": "Some words that go on for a while, as notes do.", "score": 0.75})";
  return text + "]}";
}

double seconds_of_this_thread() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Compiles anew for each text, as a request does: the first visits of states are in the figures.
template <typename Compile>
void masks(benchmark::State& state, const Compile& compile, const std::string& text) {
  const std::vector<TokenId> tokens = tokenizer().encode(text, SpecialTokens::kOrdinary);
  std::vector<uint32_t> mask(vocabulary().num_mask_words());
  std::vector<double> seconds;
  double accept_seconds = 0;
  for (auto _ : state) {
    Matcher matcher(compile().grammar, vocabulary());
    for (const TokenId token : tokens) {
      const double begin = seconds_of_this_thread();
      matcher.fill_mask(mask);
      const double filled = seconds_of_this_thread();
      if (!matcher.accept(token)) return state.SkipWithError("the text does not fulfil the grammar");
      seconds.push_back(filled - begin);
      accept_seconds += seconds_of_this_thread() - filled;
    }
  }
  std::sort(seconds.begin(), seconds.end());
  const auto microseconds = [&](double share) {
    return 1e6 * seconds[static_cast<size_t>(share * static_cast<double>(seconds.size() - 1))];
  };
  state.counters["tokens"] = static_cast<double>(tokens.size());
  state.counters["mask_us_median"] = microseconds(0.5);
  state.counters["mask_us_p99"] = microseconds(0.99);
  state.counters["mask_us_max"] = microseconds(1);
  state.counters["accept_us_mean"] = 1e6 * accept_seconds / static_cast<double>(seconds.size());
}

void masks_of_100_properties(benchmark::State& state) {
  const Document document = hundred_properties();
  masks(
      state, [&] { return compile_json_schema(document.schema); }, document.text);
}
BENCHMARK(masks_of_100_properties)->Unit(benchmark::kMillisecond);

void masks_of_any_object(benchmark::State& state) {
  masks(
      state, [] { return compile_json_object(); }, any_json());
}
BENCHMARK(masks_of_any_object)->Unit(benchmark::kMillisecond);

void masks_of_regex(benchmark::State& state, const std::string& regex, const std::string& text) {
  masks(
      state, [&] { return compile_regex(regex); }, text);
}
BENCHMARK_CAPTURE(masks_of_regex, words, "([A-Za-z]+[ ,.]*)+",
                  "The quick brown fox jumps over the lazy dog, and back again.")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(masks_of_regex, short_lines, "(.{1,80}\\n)+",
                  "The quick brown fox\njumps over the lazy dog.\n")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(masks_of_regex, letters, "[\\p{L} ]+", "Größe und Ähnliches für alle")
    ->Unit(benchmark::kMillisecond);

void masks_of_patch(benchmark::State& state) {
  const char* grammar =
      "start: \"*** Begin Patch\" LF hunk+ \"*** End Patch\" LF?\nhunk: \"*** Add File: \" /(.+)/ LF line+\n"
      "line: \"+\" /(.*)/ LF\n%import common.LF\n";
  masks(
      state, [&] { return compile_lark(grammar); },
      "*** Begin Patch\n*** Add File: src/main.cpp\n+#include <cstdio>\n+int main() { std::puts(\"hello\"); "
      "}\n*** End Patch\n");
}
BENCHMARK(masks_of_patch)->Unit(benchmark::kMillisecond);

void compile_100_properties(benchmark::State& state) {
  const Document document = hundred_properties();
  for (auto _ : state) benchmark::DoNotOptimize(compile_json_schema(document.schema));
}
BENCHMARK(compile_100_properties)->Unit(benchmark::kMillisecond);

void forced_tokens(benchmark::State& state) {
  const Compiled compiled = compile_json_schema(hundred_properties().schema, {.is_strict = true});
  Matcher matcher(compiled.grammar, vocabulary());
  matcher.accept("{\"");
  for (auto _ : state) benchmark::DoNotOptimize(matcher.forced_tokens());
}
BENCHMARK(forced_tokens)->Unit(benchmark::kMicrosecond);

void vocabulary_trie(benchmark::State& state) {
  tokenizer();
  for (auto _ : state) benchmark::DoNotOptimize(VocabularyTrie(tokenizer()));
}
BENCHMARK(vocabulary_trie)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace nibble::grammar
