#include "cli/bench_serve/workload.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>

#include "core/error.h"
#include "core/random.h"

namespace nibble::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxLengthTokens{1 << 20};
constexpr int kMostMeans{8};  // exponential lengths are clamped to 8 times the mean
constexpr uint64_t kNumIds{1000};

// With a leading space each word is one token, also in the bundled model's vocabulary.
constexpr const char* kWords[]{
    "time",    "year",     "people", "way",    "day",     "man",    "thing",  "woman", "life", "child",
    "world",   "school",   "state",  "family", "country", "hand",   "part",   "place", "case", "week",
    "company", "question", "work",   "number", "night",   "point",  "home",   "water", "room", "mother",
    "money",   "story",    "fact",   "month",  "right",   "study",  "book",   "eye",   "word", "business",
    "side",    "kind",     "head",   "house",  "service", "friend", "father", "power", "hour", "line",
    "end",     "law",      "car",    "city",   "name",    "minute", "idea",   "body",  "back", "face",
    "others",  "office",   "door",   "health"};

// Each Draw selects an independent random stream of the seed.
enum class Draw : uint64_t { kPromptLength, kOutputLength, kPrefix, kArrival, kPrefixText, kText };
uint64_t seed_of(uint64_t seed, Draw draw) { return random_bits(seed, static_cast<uint64_t>(draw)); }

std::optional<int> read_tokens(std::string_view text) {
  int number{};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_good =
      error == std::errc{} && stop == text.data() + text.size() && number >= 1 && number <= kMaxLengthTokens;
  return is_good ? std::optional(number) : std::nullopt;
}

void add_text(uint64_t seed, int num_tokens, BenchApi api, Json& ids, std::string& words) {
  for (int i = 0; i < num_tokens; ++i) {
    const uint64_t bits = random_bits(seed, static_cast<uint64_t>(i));
    if (api == BenchApi::kCompletions)
      ids.push_back(bits % kNumIds);
    else
      words.append(" ").append(kWords[bits % std::size(kWords)]);
  }
}

}  // namespace

int LengthDistribution::draw(double unit) const {
  switch (kind) {
    case Kind::kFixed:
      break;
    case Kind::kUniform:
      return least + static_cast<int>(unit * (most - least + 1));
    case Kind::kExponential:
      return std::clamp(static_cast<int>(std::lround(-std::log1p(-unit) * mean)), least, most);
  }
  return least;
}

LengthDistribution read_length(const std::string& text, std::string_view origin) {
  using Kind = LengthDistribution::Kind;
  constexpr std::string_view kExponential{"exp:"};
  const std::string_view view = text;
  const size_t dash = view.find('-');
  if (view.starts_with(kExponential)) {
    if (const auto mean = read_tokens(view.substr(kExponential.size())))
      return {Kind::kExponential, 1, std::min(*mean, kMaxLengthTokens / kMostMeans) * kMostMeans,
              static_cast<double>(*mean)};
  } else if (dash != std::string_view::npos) {
    const auto least = read_tokens(view.substr(0, dash)), most = read_tokens(view.substr(dash + 1));
    if (least && most && *least <= *most) return {Kind::kUniform, *least, *most, (*least + *most) / 2.0};
  } else if (const auto tokens = read_tokens(view)) {
    return {Kind::kFixed, *tokens, *tokens, static_cast<double>(*tokens)};
  }
  throw InputError(
      "{} '{}': expected a number of tokens from 1 to {}, a range such as 128-1024 (uniform), or exp:512 "
      "(exponential with that mean)",
      origin, text, kMaxLengthTokens);
}

Json request_body(const Workload& workload, uint64_t index) {
  const auto draw = [&](Draw what) { return random_unit(seed_of(workload.seed, what), index); };
  const int num_tokens = workload.prompt_tokens.draw(draw(Draw::kPromptLength));
  const auto prefix = static_cast<uint64_t>(draw(Draw::kPrefix) * workload.num_prefixes);

  Json ids = Json::array();
  std::string words;
  add_text(random_bits(seed_of(workload.seed, Draw::kPrefixText), prefix), workload.num_prefix_tokens,
           workload.api, ids, words);
  add_text(random_bits(seed_of(workload.seed, Draw::kText), index), num_tokens, workload.api, ids, words);

  Json body{{"model", workload.model}};
  if (workload.api == BenchApi::kCompletions)
    body["prompt"] = std::move(ids);
  else
    body["messages"] = Json::array({{{"role", "user"}, {"content", words.substr(1)}}});
  body["max_tokens"] = workload.output_tokens.draw(draw(Draw::kOutputLength));
  body["temperature"] = workload.temperature;
  body["ignore_eos"] = true;
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  body.update(workload.extra_body);
  return body;
}

std::vector<double> poisson_arrivals(double rate, int count, uint64_t seed) {
  std::vector<double> times;
  double now = 0;
  for (int i = 0; i < count; ++i) {
    times.push_back(now);
    now -= std::log1p(-random_unit(seed_of(seed, Draw::kArrival), static_cast<uint64_t>(i))) / rate;
  }
  return times;
}

}  // namespace nibble::cli
