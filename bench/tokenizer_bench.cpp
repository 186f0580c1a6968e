// Benchmarks encoding on one core, in bytes of text per second, and the time to load the 200k vocabulary.
// Targets: 8 MB/s on prose and code, 0.5 s per load, and no text on which the speed collapses.
#include <benchmark/benchmark.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/folders.h"
#include "tests/text/o200k.h"
#include "text/tokenizer.h"

namespace nibble {
namespace {

constexpr size_t kTextBytes{1'000'000};

const std::string kJsonPath{test::build_path("test_data/o200k_tokenizer.json")};

std::string repeated(const std::string& part) {
  std::string text;
  while (text.size() < kTextBytes) text += part;
  return text;
}

std::string prose() { return test::file_bytes(test::source_path("tests/golden/eval/prose.txt")); }

// Returns nibble's own source code.
std::string code() {
  std::string text;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(test::source_path("src")))
    if (entry.is_regular_file()) text += test::file_bytes(entry.path());
  return text;
}

std::string multilingual() {
  std::string text;
  std::ifstream lines(test::source_path("tests/data/o200k_vectors.jsonl"));
  for (std::string line; std::getline(lines, line);)
    text += nlohmann::json::parse(line)["text"].get<std::string>() + "\n";
  return repeated(text);
}

const Tokenizer& o200k() {
  static const Tokenizer tokenizer = Tokenizer::open(test::o200k_path());
  return tokenizer;
}

void encode(benchmark::State& state, const std::string& text) {
  const Tokenizer& tokenizer = o200k();
  size_t num_tokens = 0;
  for (auto _ : state) num_tokens = tokenizer.encode(text, SpecialTokens::kOrdinary).size();
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
  state.counters["bytes_per_token"] = static_cast<double>(text.size()) / static_cast<double>(num_tokens);
}
BENCHMARK_CAPTURE(encode, prose, prose())->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, code, code())->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, multilingual, multilingual())->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, one_letter, repeated("a"))->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, capitals, repeated("A"))->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, random_letters,
                  [] {
                    std::string text;
                    uint64_t state = 1;
                    while (text.size() < kTextBytes)
                      text += char('a' + ((state = state * 6364136223846793005u + 1) >> 33) % 26);
                    return text;
                  }())
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, spaces, repeated(" "))->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, emoji, repeated("\U0001F600"))->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, combining_marks, repeated("\u0301"))->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, ill_formed, repeated("\xFF"))->Unit(benchmark::kMillisecond);

void decode(benchmark::State& state) {
  const std::string text = prose();
  const auto ids = o200k().encode(text, SpecialTokens::kOrdinary);
  for (auto _ : state) benchmark::DoNotOptimize(o200k().decode(ids));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
}
BENCHMARK(decode)->Unit(benchmark::kMillisecond);

void load(benchmark::State& state, const std::string& path) {
  if (!std::filesystem::exists(kJsonPath))
    std::ofstream(kJsonPath, std::ios::binary)
        << test::tokenizer_json(test::tokens_of(test::file_bytes(test::o200k_path())))
               .dump(2);  // 27 MB, as saved
  for (auto _ : state) benchmark::DoNotOptimize(Tokenizer::open(path));
  state.counters["file_MB"] = static_cast<double>(std::filesystem::file_size(path)) / 1e6;
}
BENCHMARK_CAPTURE(load, tiktoken, test::o200k_path())->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(load, tokenizer_json, kJsonPath)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace nibble
