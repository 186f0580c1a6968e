#include "server/service/access_log.h"

#include <string>
#include <vector>

#include "core/program/log.h"

namespace nibble::server {
namespace {

// Turns a client's text, which may contain any bytes, into one printable word of a log line.
std::string as_word(std::string_view text) {
  constexpr size_t kMaxLetters{200};
  std::string word(text.substr(0, kMaxLetters));
  std::ranges::replace_if(
      word, [](char letter) { return letter <= ' ' || letter > '~'; }, '?');
  return word;
}

void add_times(const RequestTimes& times, std::vector<log::Field>& fields) {
  const auto add = [&](std::string_view name, const std::optional<double>& seconds) {
    if (seconds) fields.push_back({name, *seconds * 1e3});
  };
  add("tokenised_ms", times.tokenised);
  add("queued_ms", times.queued);
  add("first_kernel_ms", times.first_kernel);
  add("ttft_ms", times.first_token);
  add("first_byte_ms", times.first_byte);
  add("last_token_ms", times.last_token);
}

}  // namespace

void log_access(const Exchange& exchange, double seconds) {
  const RequestRecord& record = exchange.record();
  const std::string path = as_word(exchange.path()), model = as_word(record.model);
  std::vector<log::Field> more{{"client", record.client}};
  if (!record.key_name.empty()) more.push_back({"key", record.key_name});
  if (record.num_prompt_tokens > 0) {
    more.insert(more.end(), {{"model", model},
                             {"prompt_tokens", record.num_prompt_tokens},
                             {"cached_tokens", record.num_cached_tokens},
                             {"output_tokens", record.num_output_tokens}});
    add_times(record.times, more);
    const bool is_gone = exchange.status() == kClientGone;
    more.push_back({"finish_reason", is_gone ? "abort" : record.finish_reason});
  }
  if (!record.traceparent.empty()) more.push_back({"traceparent", record.traceparent});
  std::vector<log::Field> fields{{"request_id", exchange.id()},
                                 {"method", exchange.method()},
                                 {"path", path},
                                 {"status", exchange.status()},
                                 {"ms", seconds * 1e3}};
  const std::string text = fmt::format("{} {} {} {} {:.1f} ms{}", exchange.id(), exchange.method(), path,
                                       exchange.status(), seconds * 1e3, log::words(more));
  fields.insert(fields.end(), more.begin(), more.end());
  log::record(text, fields);
}

}  // namespace nibble::server
