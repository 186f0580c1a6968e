#include "cli/bench_serve/trace.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/bench_serve/lengths.h"
#include "core/errors/error.h"
#include "core/text/json.h"
#include "core/text/take_until.h"
#include "harmony/field.h"

namespace nibble::cli {
namespace {

using harmony::Field;

constexpr int64_t kMostMilliseconds{int64_t{1} << 40};  // 35 years

int64_t read_whole(const Field& field, int64_t least, int64_t most) {
  const auto& value = field.value();
  const bool is_good = value.is_number_integer() && value.get<int64_t>() >= least &&
                       value.get<int64_t>() <= most &&
                       !(value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(most));
  if (!is_good) field.refuse(fmt::format("a whole number from {} to {}", least, most));
  return value.get<int64_t>();
}

int read_tokens(const Field& line, const char* key) {
  return static_cast<int>(read_whole(line.need(key, "a number of tokens"), 1, kMaxLengthTokens));
}

TraceRequest read_trace_request(const Field& line) {
  line.allow_only({"timestamp", "input_length", "output_length", "hash_ids"});
  TraceRequest request{.num_prompt_tokens = read_tokens(line, "input_length"),
                       .num_output_tokens = read_tokens(line, "output_length")};
  if (const auto time = line.find("timestamp"))
    request.seconds = 1e-3 * static_cast<double>(read_whole(*time, 0, kMostMilliseconds));
  if (const auto ids = line.find("hash_ids")) {
    for (const Field& id : ids->elements())
      request.blocks.push_back(static_cast<uint64_t>(read_whole(id, 0, INT64_MAX)));
    const int most = (request.num_prompt_tokens + kTraceBlockTokens - 1) / kTraceBlockTokens;
    if (request.blocks.size() > static_cast<size_t>(most))
      ids->refuse(fmt::format("at most {} blocks of {} tokens for an input_length of {}", most,
                              kTraceBlockTokens, request.num_prompt_tokens));
  }
  return request;
}

}  // namespace

Trace read_trace(std::string_view text, const std::string& origin) {
  Trace trace;
  std::string_view rest = text;
  for (int number = 1; !rest.empty(); ++number) {
    const std::string_view line = take_until(rest, '\n');
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string place = fmt::format("{}: line {}", origin, number);
    const Json json = harmony::parse_json(line, place);
    const Field field(json, place);
    trace.requests.push_back(read_trace_request(field));
    const bool has_time = field.find("timestamp").has_value();
    if (trace.requests.size() == 1) trace.has_times = has_time;
    if (has_time != trace.has_times)
      throw InputError("{}: 'timestamp' must be in all lines or in none, unlike in line {}", origin, number);
  }
  if (trace.requests.empty()) throw InputError("{}: contains no request", origin);
  const auto earlier = [](const auto& a, const auto& b) { return a.seconds < b.seconds; };
  const double first = std::ranges::min_element(trace.requests, earlier)->seconds;
  for (TraceRequest& request : trace.requests) request.seconds -= first;
  return trace;
}

}  // namespace nibble::cli
