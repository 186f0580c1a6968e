#include "server/api/generation_params.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cmath>
#include <utility>

#include "core/text/json.h"
#include "harmony/json_text.h"

namespace nibble::server {
namespace {

double read_number(const Field& field, double least, double most) {
  const auto refuse = [&] { field.refuse(fmt::format("a number from {} to {}", least, most)); };
  if (!field.value().is_number()) refuse();
  const auto value = field.value().get<double>();
  if (!(value >= least && value <= most)) refuse();
  return value;
}

void read_float(const Field& request, const char* key, double least, double most, float& value) {
  if (const auto field = request.find(key)) value = static_cast<float>(read_number(*field, least, most));
}

void read_bans(const Field& request, GenerationParams& params) {
  params.bad_words = read_texts(request, "bad_words", kMaxBadWords);
  const auto allowed = request.find("allowed_token_ids");
  if (!allowed) return;
  constexpr std::string_view kAccepted{"a non-empty list of token ids"};
  std::vector<TokenId>& tokens = params.allowed_tokens.emplace(read_tokens(*allowed, kAccepted));
  if (tokens.empty()) allowed->refuse(kAccepted);
  std::ranges::sort(tokens);
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
}

void read_stream(const Field& request, GenerationParams& params) {
  params.stream = read_boolean(request, "stream");
  const auto options = request.find("stream_options");
  if (!options) return;
  if (!params.stream) options->refuse("absent unless stream is true");
  params.include_usage = read_boolean(*options, "include_usage");
  params.continuous_usage = read_boolean(*options, "continuous_usage_stats");
}

void read_truncation(const Field& request, GenerationParams& params) {
  if (const auto most = request.find("truncate_prompt_tokens")) {
    params.truncate_prompt = static_cast<int>(read_whole_number(*most, -1, INT_MAX));
    if (*params.truncate_prompt == 0) most->refuse("-1, or at least 1", "a prompt needs a token");
  }
  if (const auto side = request.find("truncation_side")) {
    params.truncates_end = side->value() == "right";
    if (!params.truncates_end && side->value() != "left") side->refuse("\"left\" or \"right\"");
  }
}

uint64_t read_seed(const Field& field) {
  const Json& value = field.value();
  if (value.is_number_unsigned()) return value.get<uint64_t>();
  if (value.is_number_integer()) return static_cast<uint64_t>(value.get<int64_t>());
  constexpr double kMostExact{9007199254740992.0};  // 2^53: larger numbers may have lost digits
  const double number = value.is_number() ? value.get<double>() : 0.5;
  if (std::abs(number) > kMostExact || number != std::floor(number))
    field.refuse("a whole number of at most 64 bits");
  return static_cast<uint64_t>(static_cast<int64_t>(number));
}

std::vector<std::pair<TokenId, float>> read_logit_bias(const Field& request) {
  std::vector<std::pair<TokenId, float>> biases;
  const auto field = request.find("logit_bias");
  if (!field) return biases;
  if (!field->value().is_object()) field->refuse("an object that maps token ids to biases");
  for (const auto& [key, bias] : field->value().items()) {
    TokenId token{};
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (error != std::errc{} || end != key.data() + key.size() || token < 0)
      field->refuse("an object that maps token ids to biases");
    biases.emplace_back(
        token, static_cast<float>(read_number(Field(bias, field->place() + "." + key), -double{kMaxLogitBias},
                                              double{kMaxLogitBias})));
  }
  return biases;
}

}  // namespace

std::vector<TokenId> read_tokens(const Field& field, std::string_view accepted) {
  std::vector<TokenId> tokens;
  if (!field.value().is_array()) field.refuse(accepted);
  for (const Json& element : field.value()) {
    if (!element.is_number_integer() || element < 0 || element > INT32_MAX) field.refuse(accepted);
    tokens.push_back(element.get<TokenId>());
  }
  return tokens;
}

// Accepts 3.0 as 3, because JSON does not distinguish integers from other numbers.
int64_t read_whole_number(const Field& field, int64_t least, int64_t most) {
  const auto refuse = [&] { field.refuse(fmt::format("a whole number from {} to {}", least, most)); };
  if (!field.value().is_number()) refuse();
  const auto value = field.value().get<double>();
  if (!(value >= static_cast<double>(least) && value <= static_cast<double>(most)) ||
      value != std::floor(value))
    refuse();
  return static_cast<int64_t>(value);
}

std::optional<int> read_limit(const Field& field, int least) {
  if (field.value() == -1) return std::nullopt;
  return static_cast<int>(read_whole_number(field, least, INT_MAX));
}

bool read_boolean(const Field& request, const char* key) {
  const auto field = request.find(key);
  return field && field->boolean();
}

std::vector<std::string> read_texts(const Field& request, const char* key, size_t most) {
  const auto field = request.find(key);
  if (!field) return {};
  std::vector<std::string> texts;
  const auto add = [&](const Json& text) {
    if (text.is_string()) texts.push_back(text.get<std::string>());
    return text.is_string() && !texts.back().empty() && texts.back().size() <= kMaxStopStringBytes;
  };
  const Json& value = field->value();
  const bool is_accepted =
      value.is_array() ? value.size() <= most && std::ranges::all_of(value, add) : add(value);
  if (!is_accepted)
    field->refuse(
        fmt::format("a string or a list of at most {} strings, none of them empty or longer than {} bytes",
                    most, kMaxStopStringBytes));
  return texts;
}

void read_stop(const Field& request, GenerationParams& params) {
  StopParams& stop = params.stop;
  stop.strings = read_texts(request, "stop", kMaxStopStrings);
  if (const auto tokens = request.find("stop_token_ids")) {
    const std::string accepted = fmt::format("a list of at most {} token ids", kMaxStopTokens);
    stop.tokens = read_tokens(*tokens, accepted);
    if (stop.tokens.size() > kMaxStopTokens) tokens->refuse(accepted);
  }
  stop.keeps_stop =
      read_boolean(request, "include_stop_str_in_output") || read_boolean(request, "no_stop_trim");
  if (const auto least = request.find("min_tokens"))
    stop.min_tokens = static_cast<int>(read_whole_number(*least, 0, INT_MAX));
}

void read_sharing(const Field& request, GenerationParams& params) {
  if (const auto priority = request.find("priority"))
    params.priority = static_cast<int>(read_whole_number(*priority, INT_MIN, INT_MAX));
  const auto salt = request.find("cache_salt");
  if (!salt) return;
  params.cache_salt = salt->string();
  if (params.cache_salt.empty() || params.cache_salt.size() > kMaxSaltBytes)
    salt->refuse(fmt::format("a string of 1 to {} bytes, or absent", kMaxSaltBytes));
}

void read_sampling(const Field& request, GenerationParams& params) {
  SampleParams& sample = params.sample;
  read_float(request, "temperature", 0, 2, sample.temperature);
  read_float(request, "min_p", 0, 1, sample.min_p);
  read_float(request, "repetition_penalty", 0.01, 100, sample.repetition_penalty);
  read_float(request, "presence_penalty", -double{kMaxPenalty}, double{kMaxPenalty}, sample.presence_penalty);
  read_float(request, "frequency_penalty", -double{kMaxPenalty}, double{kMaxPenalty},
             sample.frequency_penalty);
  read_float(request, "top_p", 0, 1, sample.top_p);
  if (!(sample.top_p > 0)) request.find("top_p")->refuse("above 0 and at most 1");
  if (const auto top_k = request.find("top_k"))  // vLLM's clients send -1 for "all"
    sample.top_k = static_cast<int>(std::max<int64_t>(0, read_whole_number(*top_k, -1, 1 << 20)));
  if (const auto seed = request.find("seed")) {
    params.has_seed = true;
    sample.seed = read_seed(*seed);
  }
  sample.logit_bias = read_logit_bias(request);
}

GenerationParams read_generation_params(Api api, const Field& request, const RequestDefaults& defaults) {
  GenerationParams params;
  params.sample = defaults.sample;
  check_fields(api, request, params.ignored);
  params.model = request.find_string("model");
  if (const auto n = request.find("n"))
    params.num_choices = static_cast<int>(read_whole_number(*n, 1, kMaxChoices));
  read_sampling(request, params);
  if (const auto max_tokens = request.find("max_tokens"))
    params.max_tokens = api == Api::kAnthropic ? static_cast<int>(read_whole_number(*max_tokens, 1, INT_MAX))
                                               : read_limit(*max_tokens, api == Api::kCompletions ? 0 : 1);
  read_stop(request, params);
  read_bans(request, params);
  read_sharing(request, params);
  read_truncation(request, params);
  params.ignore_eos = read_boolean(request, "ignore_eos");
  params.format = read_output_format(api, request);
  if (params.format.source && params.ignore_eos)
    request.find("ignore_eos")
        ->refuse(fmt::format("false if {} is present", params.format.field), "the format ends the answer");
  params.return_token_ids = read_boolean(request, "return_token_ids");
  read_stream(request, params);
  if (const auto logprobs = request.find("prompt_logprobs")) {
    if (params.stream) logprobs->refuse("absent if stream is true");
    params.prompt_logprobs = static_cast<int>(read_whole_number(*logprobs, 0, kMaxLogprobs));
  }
  return params;
}

}  // namespace nibble::server
