#include "cli/measure/plausibility.h"

#include <fmt/format.h>

#include "cli/measure/sample_statistics.h"
#include "core/text/bytes_text.h"

namespace nibble::cli {
namespace {

double median_speed(const BenchResult& result) { return statistics_of(result.tokens_per_second).median; }

double share_of(const BenchResult& result, double read_bandwidth) {
  return statistics_of(result.tokens_per_second).mean * result.bytes_per_token() / read_bandwidth;
}

// Returns a sentence if the longer test took less time, otherwise an empty text. Both tests have the same
// kind and depth.
std::string impossible_time(const BenchResult& shorter, const BenchResult& longer) {
  const double short_seconds = shorter.test.num_tokens / median_speed(shorter),
               long_seconds = longer.test.num_tokens / median_speed(longer);
  if (long_seconds >= short_seconds) return {};
  return fmt::format("{} took {:.3g} s and {}, which is more of the same work, {:.3g} s", name(shorter.test),
                     short_seconds, name(longer.test), long_seconds);
}

// Returns a sentence if the test at the greater depth was faster, otherwise an empty text. Both tests have
// the same kind and length.
std::string impossible_depth(const BenchResult& shallow, const BenchResult& deep) {
  if (compare_speeds(shallow.tokens_per_second, deep.tokens_per_second).b_is != Comparison::kFaster)
    return {};
  return fmt::format("{} reached {:.2f} tok/s and {}, which reads more of the KV cache, {:.2f}",
                     name(shallow.test), median_speed(shallow), name(deep.test), median_speed(deep));
}

}  // namespace

std::string_view note_of_share(double share, const Reuse& reuse) {
  if (reuse.fits()) return "in caches";
  return share > 1 ? "over 100 %" : "";
}

std::string impossible_share(std::string_view name, double share, const Reuse& reuse) {
  if (note_of_share(share, reuse) != "over 100 %") return {};
  return fmt::format(
      "{} reached {:.0f} % of the read bandwidth, but the data that is read repeatedly ({}) does not fit "
      "into the caches ({}): the bandwidth was measured under other load, or the machine became faster",
      name, 100 * share, bytes_text(reuse.bytes),
      reuse.cache_bytes ? bytes_text(*reuse.cache_bytes) : "of unknown size");
}

std::string in_caches_text(const Reuse& reuse) {
  return fmt::format(
      "in caches: the data that is read repeatedly ({}) fits into the caches ({}), so shares say nothing "
      "about the memory",
      bytes_text(reuse.bytes), bytes_text(reuse.cache_bytes.value_or(0)));
}

std::vector<std::string> contradictions(std::span<const BenchResult> results, double read_bandwidth,
                                        const Reuse& reuse) {
  std::vector<std::string> found;
  const auto add = [&](std::string line) {
    if (!line.empty()) found.push_back(std::move(line));
  };
  for (const BenchResult& a : results) {
    add(impossible_share(name(a.test), share_of(a, read_bandwidth), reuse));
    for (const BenchResult& b : results) {
      if (a.test.kind != b.test.kind) continue;
      if (a.test.depth == b.test.depth && a.test.num_tokens < b.test.num_tokens) add(impossible_time(a, b));
      if (a.test.num_tokens == b.test.num_tokens && a.test.depth < b.test.depth) add(impossible_depth(a, b));
    }
  }
  return found;
}

}  // namespace nibble::cli
