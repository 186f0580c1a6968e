// Benchmarks grammars on one core, with the 200k vocabulary: the time to compile, and the time of the masks
// for each token of a text, at the median and the 99th percentile. Targets: 20 ms for a schema of 100
// properties, masks of 50 us at the median and 500 us at the 99th percentile. For sources made to be
// expensive: the total time on one core, and the outcome.
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "core/errors/error.h"
#include "core/text/json.h"
#include "core/tokens/token_mask.h"
#include "grammar/languages/gbnf.h"
#include "grammar/languages/lark.h"
#include "grammar/languages/regex.h"
#include "grammar/languages/schema/json_schema.h"
#include "grammar/matching/matcher.h"
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
  std::string text;  // valid for the schema
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

// Compiles anew for each text, as a request does, so the figures include the first visits of states.
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

// Formats whose automata count characters; each alone and with a length limit.
void masks_of_formats(benchmark::State& state) {
  const std::pair<const char*, const char*> kFormats[]{
      {"email", "noreply-notifications@mail.eng.example.co.uk"},
      {"hostname", "ec2-12-34-56-78.compute-1.amazonaws.com"},
      {"date-time", "2026-11-22T12:34:56.789+01:00"},
      {"uri", "https://user@[2001:db8::1]:8080/a/path/image.png?query=1#part"}};
  Json schema{{"type", "object"}, {"properties", Json::object()}, {"additionalProperties", false}};
  Json value = Json::object();
  for (const auto& [name, text] : kFormats)
    for (const bool has_length : {false, true}) {
      const std::string member = name + std::string(has_length ? " beside a length" : "");
      schema["properties"][member] = {{"type", "string"}, {"format", name}};
      if (has_length) schema["properties"][member]["maxLength"] = 255;
      value[member] = text;
    }
  masks(
      state, [&] { return compile_json_schema(schema); }, value.dump());
}
BENCHMARK(masks_of_formats)->Unit(benchmark::kMillisecond);

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

Json many(const char* keyword, int num, const std::function<Json(int)>& part) {
  Json parts = Json::array();
  for (int i = 0; i < num; ++i) parts.push_back(part(i));
  return {{keyword, parts}};
}

Json nested(const char* keyword, int depth) {
  Json schema{{"type", "null"}};
  for (int i = 0; i < depth; ++i) schema = {{keyword, Json::array({schema, schema})}};
  return schema;
}

// Ten definitions, each of which refers ten times to the next.
Json fan() {
  Json schema{{"$ref", "#/$defs/d0"}, {"$defs", Json::object()}};
  for (int i = 0; i < 10; ++i) {
    Json& object = schema["$defs"]["d" + std::to_string(i)] = {{"type", "object"}};
    for (int k = 0; k < 10 && i < 9; ++k)
      object["properties"]["p" + std::to_string(k)] = {{"$ref", "#/$defs/d" + std::to_string(i + 1)}};
  }
  return schema;
}

struct Source {
  const char* name;
  std::function<Compiled()> compile;
};

std::vector<Source> hostile_sources() {
  const auto schema = [](Json of) { return [of = std::move(of)] { return compile_json_schema(of); }; };
  const auto regex = [](std::string of) { return [of = std::move(of)] { return compile_regex(of); }; };
  const auto number = [](const char* before, int i) { return before + std::to_string(i * 7919); };
  return {
      {"enum_of_20000", schema(many("enum", 20'000, [&](int i) { return number("value ", i); }))},
      {"enum_of_100000", schema(many("enum", 100'000, [&](int i) { return number("value ", i); }))},
      {"all_of_50_any_of_2", schema(many("allOf", 50,
                                         [&](int i) {
                                           return many("anyOf", 2, [&](int k) {
                                             return Json{{"required", {number("name", i * 2 + k)}}};
                                           });
                                         }))},
      {"one_of_500",
       schema(many("oneOf", 500,
                   [&](int i) {
                     return Json{{"properties", {{"kind", {{"const", i}}}}}, {"required", {"kind"}}};
                   }))},
      {"nested_any_of", schema(nested("anyOf", 14))},
      {"nested_one_of", schema(nested("oneOf", 9))},
      {"references_fan_out", schema(fan())},
      {"counts_of_a_billion", schema({{"type", "array"},
                                      {"minItems", 1'000'000'000},
                                      {"items", {{"type", "string"}, {"maxLength", 999'999'999}}}})},
      {"pattern_in_any_order",
       schema(many(
           "allOf", 12,
           [](int i) {
             return Json{{"type", "string"}, {"pattern", std::string(1, static_cast<char>('a' + i)) + ".*x"}};
           }))},
      {"regex_remembers", regex("(a|b)*a(a|b){500}")},
      {"regex_nested_counts", regex("(((a{1,900}b?){1,900}c?){1,900}d?){1,900}")},
      {"regex_long_choice", regex([] {
         std::string text;
         for (int i = 0; i < 20'000; ++i) text += std::to_string(i * 7919) + "[a-z]|";
         return text + "end";
       }())},
      {"patterns_of_letters", schema([] {
         Json object{{"type", "object"}};
         for (int i = 0; i < 2000; ++i) {
           const std::string pattern = R"(^[\p{L}\u{)" + std::to_string(3000 + i) + "}]+$";
           object["properties"]["p" + std::to_string(i)] = {{"type", "string"}, {"pattern", pattern}};
         }
         return object;
       }())},
      {"regex_of_scripts", regex([] {
         std::string text = "(";
         for (const char* script : {"Adlam",
                                    "Ahom",
                                    "Anatolian_Hieroglyphs",
                                    "Arabic",
                                    "Armenian",
                                    "Avestan",
                                    "Balinese",
                                    "Bamum",
                                    "Bassa_Vah",
                                    "Batak",
                                    "Bengali",
                                    "Bhaiksuki",
                                    "Bopomofo",
                                    "Brahmi",
                                    "Braille",
                                    "Buginese",
                                    "Buhid",
                                    "Canadian_Aboriginal",
                                    "Carian",
                                    "Caucasian_Albanian",
                                    "Chakma",
                                    "Cham",
                                    "Cherokee",
                                    "Chorasmian",
                                    "Coptic",
                                    "Cuneiform",
                                    "Cypriot",
                                    "Cyrillic"})
           text += std::string(R"(\p{)") + script + "}|";
         return text + "x)+";
       }())},
      {"gbnf_ambiguous", [] { return compile_gbnf("root ::= root root root | root root | [a-z ]"); }},
  };
}

// Compiles a source and continues with random legal tokens; an InputError ends it.
void hostile(benchmark::State& state, const Source& source) {
  std::vector<uint32_t> mask(vocabulary().num_mask_words());
  std::string outcome;
  double compile_seconds = 0, most_seconds = 0;
  for (auto _ : state) {
    double begin = seconds_of_this_thread();
    const auto end_of_call = [&](double& most) {
      const double now = seconds_of_this_thread();
      most = std::max(most, now - begin);
      begin = now;
    };
    try {
      outcome = "refused while it is compiled";
      const Compiled compiled = source.compile();
      end_of_call(compile_seconds);
      outcome = "refused at a mask";
      Matcher matcher(compiled.grammar, vocabulary());
      for (uint32_t step = 0; step < 64 && !matcher.is_finished(); ++step) {
        matcher.fill_mask(mask);
        end_of_call(most_seconds);
        auto token = static_cast<TokenId>(step * 9973 % 200'000);
        while (!has_token(mask, token)) token = (token + 1) % 200'000;
        matcher.accept(token);
        end_of_call(most_seconds);
      }
      outcome = "compiled";
    } catch (const InputError&) {
      end_of_call(outcome.ends_with("mask") ? most_seconds : compile_seconds);
    }
  }
  state.SetLabel(outcome);
  state.counters["compile_ms_max"] = 1e3 * compile_seconds;
  state.counters["call_ms_max"] = 1e3 * most_seconds;
}
const bool registers_hostile = [] {
  for (const Source& source : hostile_sources())
    benchmark::RegisterBenchmark((std::string("hostile/") + source.name).c_str(), hostile, source)
        ->Unit(benchmark::kMillisecond);
  return true;
}();

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
